package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

const (
	perSecond = 50              // number of events of one stream in a second
	startTime = 8 * time.Second // time for all streams of a round to start
)

// arrival is the time at which an event was written, and its delay until it was read.
type arrival struct {
	written time.Time
	late    time.Duration
}

// latency measures the delay of events of many turns at once. The peer is the delay of the same agent's lines, read
// directly from its pipe.
func latency(ctx context.Context, stages []*stage, print func(figure) error) error {
	size := stages[0].talk
	late := make([][]float64, len(stages)+1)
	for round := range size.rounds {
		for i := range late {
			who := (i + round) % len(late)
			listen := stages[0].pipe
			if who < len(stages) {
				listen = stages[who].stream
			}
			samples, err := atOnce(ctx, size, listen)
			if err != nil {
				return err
			}
			late[who] = append(late[who], samples...)
		}
	}
	bare := late[len(stages)]
	for i, s := range stages {
		for _, q := range []struct {
			name  string
			at    float64
			added float64
		}{{"p50", .5, .005}, {"p99", .99, .025}} {
			ours, peer := quantile(late[i], q.at), quantile(bare, q.at)
			f := figure{name: fmt.Sprintf("event to client, %d streams of %d/s, %s, to the pipe: %s", size.streams, perSecond, s.engine, q.name),
				ours: ours, peer: peer, unit: "s", n: len(late[i]), goals: []goal{{ours: peer + q.added}},
				note: fmt.Sprintf("added %s", time.Duration((ours-peer)*1e9).Round(10*time.Microsecond))}
			if err := print(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// atOnce listens to size.streams agents at once and returns the delays in seconds. It counts only events that were
// written while all agents were writing.
func atOnce(ctx context.Context, size talkSizes, listen func(ctx context.Context, i int, s story, each func([]byte)) error) ([]float64, error) {
	// Garbage collection in this process would delay the reads.
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	s := story{Every: time.Second / perSecond, Until: time.Now().Add(startTime + size.window).UnixNano()}
	all, failed := make([][]arrival, size.streams), make([]error, size.streams)
	var wg sync.WaitGroup
	for i := range size.streams {
		wg.Go(func() {
			failed[i] = listen(ctx, i, s, func(line []byte) {
				if written, ok := writtenAt(line); ok {
					all[i] = append(all[i], arrival{written, time.Since(written)})
				}
			})
		})
	}
	wg.Wait()
	if err := cmp.Or(failed...); err != nil {
		return nil, err
	}
	from, to := time.Time{}, time.Unix(0, s.Until)
	for _, h := range all {
		if len(h) == 0 {
			return nil, errors.New("an agent said nothing")
		}
		if at := h[0].written.Add(time.Second); at.After(from) {
			from = at
		}
		if at := h[len(h)-1].written; at.Before(to) {
			to = at
		}
	}
	var samples []float64
	for _, hs := range all {
		for _, h := range hs {
			if h.written.After(from) && h.written.Before(to) {
				samples = append(samples, h.late.Seconds())
			}
		}
	}
	if len(samples) < size.streams {
		return nil, fmt.Errorf("of %d streams %d events were heard while all spoke; the machine is too slow", size.streams, len(samples))
	}
	return samples, nil
}

// pipe runs the agent outside a sandbox and reads its output from a pipe.
func (s *stage) pipe(ctx context.Context, _ int, tale story, each func([]byte)) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.teller(), "teller"))
	cmd.Stdin, cmd.Stderr = strings.NewReader(tale.String()), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		each(lines.Bytes())
	}
	return errors.Join(lines.Err(), cmd.Wait())
}

// stream posts a prompt to the i-th conversation and reads the turn's events to the last one.
func (s *stage) stream(ctx context.Context, i int, tale story, each func([]byte)) error {
	body := fmt.Sprintf(`{"prompt":%q}`, tale.String())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+"/api/v1/conversations/"+s.talks[i]+"/messages", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	return s.read(req, each)
}

// read sends a request for a stream and reads it to its last event.
func (s *stage) read(req *http.Request, each func([]byte)) error {
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", req.Method, req.URL.Path, resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		each(lines.Bytes())
		if bytes.HasPrefix(lines.Bytes(), []byte(`data: {"type":"turn.finished"`)) {
			if !bytes.Contains(lines.Bytes(), []byte(`"status":"completed"`)) {
				return fmt.Errorf("a turn ended: %s", lines.Bytes())
			}
			return nil
		}
	}
	return errors.Join(errors.New("a stream broke off"), lines.Err())
}
