package fleet_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fleet"
)

// Streams of turns are cut off in the middle by their clients, by the network, and by kills of their servers. Each is
// resumed at another server. In the end the client has the complete log: no event is missing, none is there twice.
func TestStreamsReadOnAtAnotherServer(t *testing.T) {
	testkit.Proves(t, "C3", "C4")
	t.Parallel()
	const servers = 3
	f := fleet.New(t, fleet.Options{Replicas: servers, LeaseTTL: 3 * time.Second, Local: talkingTemplate})
	w := &watchers{T: t, f: f, servers: servers, kills: make(chan int)}
	w.convs = conversations(t, f.Any(client.WithAttempts(always)), testkit.Size(t, "i12.wires"))
	w.run()
}

// watchers is a set of clients that read streams.
type watchers struct {
	*testing.T
	f       *fleet.Fleet
	servers int
	convs   []string
	kills   chan int // numbers of servers to kill

	left atomic.Int64 // number of kills that remain

	cuts [3]atomic.Int64
}

// The ways in which streams are cut off.
const (
	byClient  = iota
	byNetwork // with a reset, in the middle of an event
	byKill
)

func (w *watchers) run() {
	w.left.Store(int64(testkit.Size(w, "i12.kills")))
	var killer, readers sync.WaitGroup
	killer.Go(w.kill)
	gate := make(chan struct{}, 8) // the template "talking" allows 8 turns at once
	for _, id := range w.convs {
		readers.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			if err := w.watch(id); err != nil {
				w.Errorf("conversation %s: %v", id, err)
			}
		})
	}
	readers.Wait()
	close(w.kills)
	killer.Wait()
	w.Logf("%d streams, cut off by their clients %d times, by the network %d times, with their servers %d times", len(w.convs),
		w.cuts[byClient].Load(), w.cuts[byNetwork].Load(), w.cuts[byKill].Load())
	for by := range w.cuts {
		if w.cuts[by].Load() == 0 {
			w.Errorf("no stream was cut off in way %d", by)
		}
	}
}

// kill kills and restarts the servers that readers send to the channel kills.
func (w *watchers) kill() {
	for i := range w.kills {
		w.f.Kill(i)
		if err := w.f.Start(i); err != nil {
			w.Error(err)
		}
	}
}

// frame is one event of a stream.
type frame struct{ id, data string }

// watched is the state of a client that reads the events of one turn.
type watched struct {
	conversation, turn, key string
	at                      int // number of the server of the last request
	seen                    []frame
}

// watch posts a prompt, reads the stream in pieces, and compares them with the log.
func (w *watchers) watch(conversation string) error {
	x := &watched{conversation: conversation, key: "watch-" + conversation, at: rand.IntN(w.servers)}
	deadline := time.Now().Add(5 * time.Minute)
	for left := testkit.Size(w, "i12.cuts"); !x.finished(); {
		if time.Now().After(deadline) {
			return fmt.Errorf("turn %q did not finish; %d events were read", x.turn, len(x.seen))
		}
		x.at = (x.at + 1 + rand.IntN(w.servers-1)) % w.servers
		how, before := rand.IntN(3), len(x.seen)
		if how == byKill && (left == 0 || w.left.Add(-1) < 0) {
			how = byNetwork
		}
		if err := w.piece(x, how, left > 0); errors.Is(err, errWrong) {
			return err
		}
		if left > 0 && !x.finished() && len(x.seen) > before {
			w.cuts[how].Add(1)
			left--
		}
	}
	return w.compare(x)
}

func (x *watched) finished() bool {
	return len(x.seen) > 0 && strings.HasPrefix(x.seen[len(x.seen)-1].data, `{"type":"`+api.EventTurnFinished+`"`)
}

// piece reads the stream from the last seen event. If cut is true, it stops in the middle in the given way.
func (w *watchers) piece(x *watched, how int, cut bool) error {
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	via := &http.Transport{}
	defer via.CloseIdleConnections()
	if cut && how == byNetwork {
		via.DialContext = limitedDialer(700 + rand.IntN(2_000))
	}
	res, err := w.connect(ctx, via, x)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	most := 1 + rand.IntN(10)
	for in := bufio.NewReader(res.Body); ; {
		one, err := readFrame(in)
		if err != nil {
			return err
		}
		if one.id == "" && one.data == "" { // a comment
			continue
		}
		if want := api.EventID(x.turn, int64(len(x.seen))+1); one.id != want {
			return fmt.Errorf("%w: the event after %d others is %+v", errWrong, len(x.seen), one)
		}
		x.seen = append(x.seen, one)
		if most--; most != 0 || !cut || x.finished() {
			continue
		}
		switch how {
		case byClient:
			return nil
		case byKill: // request a kill and read until the stream breaks
			select {
			case w.kills <- x.at:
			case <-ctx.Done():
			}
		}
	}
}

// connect requests the events after the last seen one. If there is no turn yet, it posts the prompt.
func (w *watchers) connect(ctx context.Context, via http.RoundTripper, x *watched) (*http.Response, error) {
	addr := w.f.Address(x.at)
	if addr == "" {
		<-time.After(10 * time.Millisecond)
		return nil, errLater
	}
	at := "http://" + addr + "/api/v1/conversations/" + x.conversation
	method, path, body := http.MethodGet, "/turns/"+x.turn+"/events", []byte(nil)
	if x.turn == "" {
		method, path = http.MethodPost, "/messages?queue=true"
		body, _ = json.Marshal(api.Prompt{Prompt: "tell me something \u2028 long, in many words"})
	}
	req, err := http.NewRequestWithContext(ctx, method, at+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = http.Header{"Authorization": {"Bearer " + fleet.Key}, "Accept": {"text/event-stream"}, "Content-Type": {"application/json"}}
	if x.turn == "" {
		req.Header.Set("Idempotency-Key", x.key)
	} else if n := len(x.seen); n > 0 {
		req.Header.Set("Last-Event-ID", x.seen[n-1].id)
	}
	res, err := via.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		words, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		var problem api.Problem
		if json.Unmarshal(words, &problem) == nil && problem.Retryable {
			return nil, errLater
		}
		return nil, fmt.Errorf("%w: %s: %s", errWrong, res.Status, words)
	}
	if id := res.Header.Get(api.HeaderTurnID); x.turn != "" && id != x.turn || id == "" {
		return nil, errors.Join(fmt.Errorf("%w: it is of turn %q, not %q", errWrong, id, x.turn), res.Body.Close())
	}
	x.turn = res.Header.Get(api.HeaderTurnID)
	return res, nil
}

// readFrame reads one event, which ends with an empty line. It returns an error if the stream ends before that line.
func readFrame(in *bufio.Reader) (one frame, err error) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return frame{}, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch {
		case name == "id":
			one.id = value
		case name == "data":
			one.data = value
		case line == "\n":
			return one, nil
		case !strings.HasPrefix(line, ":"):
			return one, fmt.Errorf("%w: %q is no line of a stream", errWrong, line)
		}
	}
}

// limitedDialer returns a dialer of connections that are reset after the given number of bytes.
func limitedDialer(after int) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		_ = conn.(*net.TCPConn).SetLinger(0)
		return &limitedConn{Conn: conn, left: after}, nil
	}
}

type limitedConn struct {
	net.Conn
	left int
}

func (b *limitedConn) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errors.Join(errors.New("the connection was reset"), b.Close())
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// compare reads the whole turn at once and compares it with the events that were read in pieces.
func (w *watchers) compare(x *watched) error {
	joined := x.seen
	for len(joined) > 0 {
		x.seen = nil
		x.at = (x.at + 1) % w.servers
		err := w.piece(x, byClient, false)
		switch {
		case errors.Is(err, errWrong):
			return err
		case x.finished() && !slices.Equal(x.seen, joined):
			return fmt.Errorf("in pieces %d events came:\n%v\nand the log has %d:\n%v", len(joined), joined, len(x.seen), x.seen)
		case x.finished():
			return nil
		}
	}
	return errors.New("nothing was read")
}
