package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/berthdev/berth/api"
)

// ExecStream is a command that is being watched. It reads on after a lost connection by itself, from
// where it was; the command does not notice. One goroutine may read it.
type ExecStream struct {
	// ExecID is the command's id, by which anyone can attach to it, signal it and write to it.
	ExecID string
	// Notice says what happened to the sandbox's files since its last use: which version was restored, and
	// what is lost. Empty: nothing.
	Notice string

	source
	ref    string
	cancel context.CancelFunc
	after  int64
	lost   int64 // bytes that were dropped on the way
	over   error // what Next says from now on
	failed int   // attempts in a row that brought nothing
}

// ExecStream starts a command and watches what it writes. Closing the stream, or ending the context,
// leaves the command running; a timeout of its own or a signal ends it.
func (s Sandboxes) ExecStream(ctx context.Context, ref string, want api.Exec) (*ExecStream, error) {
	const op = "run command"
	body, err := encode(want)
	if err != nil {
		return nil, fmt.Errorf("%s: encode the request: %w", op, err)
	}
	e := s.newStream(ctx, ref, want.ExecID, 0)
	if err := e.begin(call{op: op, method: http.MethodPost, path: path{sandboxesPath, ref, "exec"}, body: want}, nil, body); err != nil {
		e.cancel()
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return e, nil
}

// Attach watches a command from an offset of its output on; 0 is the oldest that is kept. It works
// after the command's end, and when the sandbox is stopped.
func (s Sandboxes) Attach(ctx context.Context, ref, execID string, after int64) (*ExecStream, error) {
	e := s.newStream(ctx, ref, execID, after)
	if err := e.attach(nil); err != nil {
		e.cancel()
		return nil, fmt.Errorf("attach to command: %w", err)
	}
	return e, nil
}

// Reattach is Attach for a reader that comes back. Where the output at its offset is gone, an event says how
// much, and the stream goes on with the oldest that is kept.
func (s Sandboxes) Reattach(ctx context.Context, ref, execID string, after int64) (*ExecStream, error) {
	e := s.newStream(ctx, ref, execID, after)
	if err := e.attach(e.resume()); err != nil {
		e.cancel()
		return nil, fmt.Errorf("attach to command: %w", err)
	}
	return e, nil
}

// resume is the header that says that the reader comes back.
func (e *ExecStream) resume() http.Header {
	return http.Header{"Last-Event-Id": {strconv.FormatInt(e.after, 10)}}
}

func (s Sandboxes) newStream(ctx context.Context, ref, execID string, after int64) *ExecStream {
	e := &ExecStream{source: source{c: s.c, patience: max(s.c.timeout, silence)}, ref: ref, ExecID: execID, after: after}
	e.ctx, e.cancel = context.WithCancel(ctx)
	return e
}

// After is the offset behind what was read; Attach reads on from it.
func (e *ExecStream) After() int64 { return e.after }

// Next returns the next event. After the one of the command's exit it returns io.EOF.
func (e *ExecStream) Next() (api.ExecEvent, error) {
	for e.over == nil {
		var event api.ExecEvent
		_, err := e.next(&event)
		if err == nil {
			return e.take(event)
		}
		e.disconnect()
		if err := e.reattach(err); err != nil {
			e.finish(fmt.Errorf("watch command: %w", err))
		}
	}
	return api.ExecEvent{}, e.over
}

// Events yields the events to the end; an error is the last.
func (e *ExecStream) Events() iter.Seq2[api.ExecEvent, error] {
	return func(yield func(api.ExecEvent, error) bool) {
		for {
			event, err := e.Next()
			if err == io.EOF || !yield(event, err) || err != nil {
				return
			}
		}
	}
}

// Copy copies what the command writes until it ends, and returns how it ended. A nil writer discards.
func (e *ExecStream) Copy(stdout, stderr io.Writer) (api.ExecExit, error) {
	to := map[string]io.Writer{api.EventStdout: stdout, api.EventStderr: stderr}
	for event, err := range e.Events() {
		if err != nil {
			return api.ExecExit{}, err
		}
		if event.Type == api.EventExit {
			return *event.ExecExit, nil
		}
		if w := to[event.Type]; w != nil {
			if _, err := w.Write(event.Data()); err != nil {
				return api.ExecExit{}, fmt.Errorf("write output: %w", err)
			}
		}
	}
	return api.ExecExit{}, errors.New("watch command: the stream was read to its end before")
}

// Close stops watching. The command runs on.
func (e *ExecStream) Close() error {
	e.finish(errors.New("watch command: the stream was closed"))
	return nil
}

func (e *ExecStream) finish(err error) {
	if e.over == nil {
		e.over = err
	}
	e.disconnect()
	e.cancel()
}

// take notes how far the stream is.
func (e *ExecStream) take(event api.ExecEvent) (api.ExecEvent, error) {
	e.failed = 0
	e.after = max(e.after, event.Next)
	switch event.Type {
	case api.EventStarted:
		e.ExecID = event.ExecID
		e.Notice = cmp.Or(e.Notice, event.Notice)
	case api.EventDropped:
		e.lost += event.Dropped
	case api.EventExit:
		if event.ExecExit == nil {
			event.ExecExit = new(api.ExecExit)
		}
		e.finish(io.EOF)
	case api.EventError:
		err := error(event.Error)
		if event.Error == nil {
			err = errors.New("the server ended the stream without a reason")
		}
		e.finish(fmt.Errorf("watch command: %w", err))
		return api.ExecEvent{}, e.over
	}
	return event, nil
}

// reattach connects again after the connection broke. A server that is just restarting takes seconds.
func (e *ExecStream) reattach(why error) error {
	for {
		e.failed++
		switch {
		case e.ctx.Err() != nil:
			return context.Cause(e.ctx)
		case e.failed >= e.c.attempts || !pause(e.ctx, reply{}.wait(e.failed)):
			return e.c.unreachable(fmt.Errorf("the stream broke off: %w", why))
		}
		if err := e.attach(e.resume()); err == nil || !retryable(err) {
			return err
		}
	}
}

// Dropped is how many bytes of the output did not come, because too much was written while nothing was read.
func (e *ExecStream) Dropped() int64 { return e.lost }

func (e *ExecStream) attach(header http.Header) error {
	query := url.Values{"after": {strconv.FormatInt(e.after, 10)}}
	return e.begin(call{method: http.MethodGet, path: execPath(e.ref, e.ExecID, "stream"), query: query}, header, nil)
}

// begin sends the call until a stream begins.
func (e *ExecStream) begin(call call, header http.Header, body []byte) error {
	head, err := e.connect(call, header, rand.Text(), body)
	if id := head.Get(api.HeaderExecID); id != "" {
		e.ExecID = id
	}
	return err
}
