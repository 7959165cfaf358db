package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"golang.org/x/sys/unix"
)

// execution is one command of one request.
type execution struct {
	h       Handle
	sandbox sandbox.Sandbox
	want    api.Exec

	id      string    // empty: it ends with its request
	own     bool      // nobody else can have chosen the id
	again   bool      // the request may have been sent before, so that it runs already
	started time.Time // zero: not known
	tended  func()    // lets go of what watches over it
}

// ended is called when the command is seen to have ended.
func (e *execution) ended() {
	if e.tended != nil {
		e.tended()
	}
}

func (e *execution) key() string { return e.sandbox.ID + "/" + e.id }

// start starts the command under its id, and sees to its input and its end at the limit; zero is none.
func (a *Handler) start(ctx context.Context, e *execution, limit time.Duration) error {
	conn, err := e.h.Guest(ctx)
	if err != nil {
		return err
	}
	cmd := e.h.Command(e.sandbox, commandOf(e.want))
	e.started = time.Now()
	err = conn.Start(ctx, e.id, cmd)
	if e.again && errors.Is(err, guest.ErrExists) {
		err = e.join(ctx, conn, cmd)
	}
	if err != nil {
		_ = conn.Close()
		return err
	}
	if limit > 0 {
		limit = max(limit-time.Since(e.started), time.Millisecond)
	}
	e.tended = a.tend(ctx, conn, e, limit)
	return nil
}

// join finds that an earlier attempt at the same request has started the command. Under an id that the
// caller chose it might be another one.
func (e *execution) join(ctx context.Context, conn guest.Conn, cmd guest.Cmd) error {
	status, err := conn.Process(e.id).Status(ctx)
	if err != nil {
		return err
	}
	if !e.own && !slices.Equal(status.Argv, cmd.Argv) {
		return guest.ErrExists
	}
	e.started, e.want.Stdin, e.want.StdinBase64 = status.StartedAt, "", nil
	return nil
}

// tend gives a started command its input and kills it when its time is over, also when nobody watches
// it any more. It takes the connection, and lets go of both when the command has ended or the returned
// func is called.
func (a *Handler) tend(ctx context.Context, conn guest.Conn, e *execution, limit time.Duration) (done func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	process := conn.Process(e.id)
	var work sync.WaitGroup
	if input := inputOf(e.want); len(input) > 0 {
		closes := !e.want.OpenStdin && e.want.Terminal == nil
		work.Go(func() { feed(ctx, process, input, closes) })
	}
	if limit > 0 {
		work.Go(func() { a.expire(ctx, process, e, limit) })
	}
	go func() {
		work.Wait()
		_ = conn.Close()
	}()
	return cancel
}

// feed gives a process its input. One that ends without reading it is no error.
func feed(ctx context.Context, p guest.Process, input []byte, closes bool) {
	if _, err := p.Write(ctx, input); err == nil && closes {
		_ = p.CloseInput(ctx)
	}
}

const (
	signalTime  = 10 * time.Second // to get a signal through
	signalPause = 5 * time.Second  // before it is tried again
)

// expire kills the process when the limit is over. A frozen instance takes no signal until it is thawed.
func (a *Handler) expire(ctx context.Context, p guest.Process, e *execution, limit time.Duration) {
	for wait := limit; ; wait = signalPause {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		a.expired.add(e.key())
		try, cancel := context.WithTimeout(ctx, signalTime)
		err := p.Signal(try, syscall.SIGKILL)
		cancel()
		switch {
		case errors.Is(err, guest.ErrNoProcess), errors.Is(err, guest.ErrGone):
			a.expired.remove(e.key())
			return
		case err == nil:
			return
		}
	}
}

// expired remembers the last commands that were killed because their time was over, by key, so that
// whoever reads their end learns that.
type expired struct {
	mu   sync.Mutex
	keys []string
}

const maxExpired = 1024

func (x *expired) add(key string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if slices.Contains(x.keys, key) {
		return
	}
	if len(x.keys) == maxExpired {
		x.keys = slices.Delete(x.keys, 0, 1)
	}
	x.keys = append(x.keys, key)
}

func (x *expired) remove(key string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.keys = slices.DeleteFunc(x.keys, func(k string) bool { return k == key })
}

func (x *expired) has(key string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Contains(x.keys, key)
}

// exitOf is how a process ended, as the wire has it.
func (a *Handler) exitOf(e *execution, exit guest.Exit) api.ExecExit {
	out := exitOut(exit)
	if !e.started.IsZero() && !exit.At.IsZero() {
		out.DurationMS = max(exit.At.Sub(e.started).Milliseconds(), 0)
	}
	if exit.Signal == syscall.SIGKILL && a.expired.has(e.key()) {
		out.ExitCode, out.Reason = guest.ExitTimeout, "killed because its time was over"
	}
	return out
}

func exitOut(exit guest.Exit) api.ExecExit {
	out := api.ExecExit{ExitCode: exit.Code, Reason: exit.Reason, Lost: exit.Lost}
	if exit.Signal != 0 {
		out.Signal = strings.TrimPrefix(unix.SignalName(exit.Signal), "SIG")
	}
	if exit.Lost {
		out.ExitCode, out.Signal = -1, ""
	}
	return out
}

func killedAfter(limit time.Duration) string { return fmt.Sprintf("killed after %v", limit) }

// readerOf is the input as a reader; none is nil.
func readerOf(input []byte) io.Reader {
	if len(input) == 0 {
		return nil
	}
	return bytes.NewReader(input)
}

// oldest is the first offset of a process's output that can still be read.
func oldest(ctx context.Context, h Handle, s sandbox.Sandbox, id string) (int64, error) {
	if s.State != sandbox.Running {
		return searchOldest(ctx, h, id)
	}
	conn, err := h.Peek(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	status, err := conn.Process(id).Status(ctx)
	if errors.Is(err, guest.ErrNoProcess) {
		return searchOldest(ctx, h, id)
	}
	return status.First, err
}

// searchOldest finds the first offset in the spool of a process that has ended, where there is no helper
// to ask: before it everything is trimmed, and behind it nothing is.
func searchOldest(ctx context.Context, h Handle, id string) (int64, error) {
	low, high := int64(0), int64(math.MaxInt64)
	for low < high {
		middle := low + (high-low)/2
		for _, err := range h.Output(ctx, id, middle) {
			switch {
			case errors.Is(err, guest.ErrTrimmed):
				low = middle + 1
			case ctx.Err() != nil:
				return 0, ctx.Err()
			case errors.Is(err, guest.ErrNoProcess):
				return 0, err
			default:
				high = middle
			}
			break
		}
	}
	return low, nil
}
