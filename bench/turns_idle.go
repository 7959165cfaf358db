package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
)

// idleStreams measures the number of streams without events that fit into a GiB of the server's memory. The peer is a
// server that only holds streams open.
func idleStreams(ctx context.Context, stages []*stage, print func(figure) error) error {
	for _, s := range stages {
		// A new server, with Go's usual garbage collection.
		if err := errors.Join(s.end(), s.start(ctx, "GOGC=100")); err != nil {
			return err
		}
		ours, used, err := s.idlePerGiB(ctx)
		if err != nil {
			return err
		}
		peer, err := barePerGiB(ctx, s.talk.idle)
		if err != nil {
			return err
		}
		err = print(figure{name: fmt.Sprintf("idle streams per GiB, %s, to a bare server", s.engine), ours: ours, peer: peer, n: s.talk.idle,
			note: fmt.Sprintf("more is better; %.1f KiB each, %.2f CPUs for all of them", 1<<20/ours, used)})
		if err != nil {
			return err
		}
	}
	return nil
}

// idlePerGiB returns the number of idle streams that fit into a GiB, and the server's CPU use with all of its streams
// open, in CPUs.
func (s *stage) idlePerGiB(ctx context.Context) (perGiB, used float64, err error) {
	prompt := story{Every: time.Hour, Until: time.Now().Add(time.Hour).UnixNano()}
	turn, err := s.client.Conversations.Prompt(ctx, s.talks[0], api.Prompt{Prompt: prompt.String()})
	if err != nil {
		return 0, 0, err
	}
	for e, err := range turn.Events() {
		if err != nil {
			return 0, 0, err
		}
		if e.Type == api.EventStatus { // the agent has started
			break
		}
	}
	grown, err := growth(ctx, s.cmd.Process.Pid, s.talk.idle, s.base+"/api/v1/conversations/"+s.talks[0]+"/turns/"+turn.TurnID+"/events", func() error {
		before, err := s.cpu()
		if err != nil {
			return err
		}
		if err := waitIdle(ctx); err != nil {
			return err
		}
		after, err := s.cpu()
		used = (after - before).Seconds() / 3
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	if _, err := s.client.Conversations.Cancel(ctx, s.talks[0], turn.TurnID); err != nil {
		return 0, 0, err
	}
	for _, err := range turn.Events() {
		if err != nil {
			return 0, 0, err
		}
	}
	return 1 << 30 / grown, used, nil
}

func barePerGiB(ctx context.Context, n int) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, self, roleStreams)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return 0, err
	}
	defer func() { _ = cmd.Wait() }()
	defer cancel()
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return 0, err
	}
	grown, err := growth(ctx, cmd.Process.Pid, n, strings.TrimSpace(url), func() error { return waitIdle(ctx) })
	return 1 << 30 / grown, err
}

// growth returns the bytes of a server's memory that each of n streams takes. It calls settled when all streams are
// open.
func growth(ctx context.Context, pid, n int, url string, settled func() error) (each float64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	open := func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return errors.Join(fmt.Errorf("a stream: %s", resp.Status), resp.Body.Close())
		}
		_, err = bufio.NewReaderSize(resp.Body, 16).ReadString('\n')
		return err
	}
	for range 10 { // the first streams also allocate shared memory and do not count
		if err := open(); err != nil {
			return 0, err
		}
	}
	before, err := statusField(fmt.Sprint("/proc/", pid), "VmRSS")
	if err != nil {
		return 0, err
	}
	for range n {
		if err := open(); err != nil {
			return 0, err
		}
	}
	if err := settled(); err != nil {
		return 0, err
	}
	after, err := statusField(fmt.Sprint("/proc/", pid), "VmRSS")
	return max(1, float64(after-before)*1024/float64(n)), err
}
