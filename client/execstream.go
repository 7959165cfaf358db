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

// ExecStream reads the output of a command. After a lost connection it connects again and continues where it was; the
// command is not affected. Only one goroutine may use an ExecStream.
type ExecStream struct {
	// ExecID is the command's id, with which any client can attach to it, signal it and write to it.
	ExecID string
	// Notice describes changes of the sandbox's files since its last use: the restored version, and lost changes. It
	// is empty if there are none.
	Notice string

	source
	ref    string
	cancel context.CancelFunc
	after  int64
	lost   int64 // number of bytes of output that were dropped
	over   error // the error of all further calls of Next; nil: the stream continues
	failed int   // number of attempts since the last event
}

// ExecStream starts a command and returns a stream of its output. The command keeps running after Close or the end of
// the context; its own timeout or a signal ends it.
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

// Attach returns a stream of a command's output from an offset on; 0 means the oldest output that is kept. It also
// works after the command's end and while the sandbox is stopped.
func (s Sandboxes) Attach(ctx context.Context, ref, execID string, after int64) (*ExecStream, error) {
	e := s.newStream(ctx, ref, execID, after)
	if err := e.attach(nil); err != nil {
		e.cancel()
		return nil, fmt.Errorf("attach to command: %w", err)
	}
	return e, nil
}

// Reattach is Attach for a reader that has read up to the offset before. If output after the offset is no longer
// kept, the stream has an event with the number of lost bytes and continues with the oldest output that is kept.
func (s Sandboxes) Reattach(ctx context.Context, ref, execID string, after int64) (*ExecStream, error) {
	e := s.newStream(ctx, ref, execID, after)
	if err := e.attach(e.resume()); err != nil {
		e.cancel()
		return nil, fmt.Errorf("attach to command: %w", err)
	}
	return e, nil
}

// resume returns the header that tells the server that the reader has read before.
func (e *ExecStream) resume() http.Header {
	return http.Header{"Last-Event-Id": {strconv.FormatInt(e.after, 10)}}
}

func (s Sandboxes) newStream(ctx context.Context, ref, execID string, after int64) *ExecStream {
	e := &ExecStream{source: source{c: s.c, patience: max(s.c.timeout, maxSilence)}, ref: ref, ExecID: execID, after: after}
	e.ctx, e.cancel = context.WithCancel(ctx)
	return e
}

// After returns the offset after the output that was read. Attach continues from it.
func (e *ExecStream) After() int64 { return e.after }

// Next returns the next event. After the event of the command's exit it returns io.EOF.
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

// Events yields all further events. An error ends the sequence.
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

// Copy copies the command's output until the command ends, and returns its exit. Output for a nil writer is
// discarded.
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

// Close ends the stream. The command keeps running.
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

// take records the position of the stream, and ends the stream after the last event.
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

// reattach connects again after the connection was lost, with several attempts: a restarting server needs some
// seconds.
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

// Dropped returns the number of bytes of output that were lost because the reader was too slow.
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
