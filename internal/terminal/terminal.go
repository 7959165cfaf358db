// Package terminal connects a WebSocket to the terminal of a process.
//
// A [Session] connects one client and one process as long as both exist. The output of the process is in its spool. A
// client that was disconnected can continue at its offset. Input waits in a small buffer, so that a process that does
// not read its input cannot block resizing, closing or output.
package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"syscall"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/guest"
	"github.com/coder/websocket"
)

const (
	maxMessage = 256 << 10        // bytes of a client's message
	maxTyped   = 1 << 20          // bytes of input that the process has not read yet
	sendTime   = 30 * time.Second // the timeout for a client to receive a message
	beat       = 25 * time.Second // the interval of pings
	hangupTime = 10 * time.Second // the timeout for sending SIGHUP
)

// Session is the connection of one client to one terminal.
type Session struct {
	ExecID   string
	Process  guest.Process
	ViewOnly bool                                                                 // what the client sends is ignored
	Notice   string                                                               // changes of the sandbox's files, for the first message
	After    int64                                                                // the offset after which the output is sent
	Output   func(ctx context.Context, after int64) iter.Seq2[guest.Chunk, error] // reads the output of the process
	Exit     func(guest.Exit) api.ExecExit                                        // converts the exit to its form in the API

	// Bye returns the close status and reason of a session whose ctx ended. If Bye is nil or the status is zero, the
	// reason is that the server shuts down.
	Bye func() (status int, reason string)

	beat time.Duration // the interval of pings; zero: the constant beat
}

// farewell is an error with the close status and reason that the client gets at the end of a session.
type farewell struct {
	code   websocket.StatusCode
	reason string
}

func (f farewell) Error() string { return f.reason }

// Serve connects the terminal until the process ends, the client leaves or ctx ends. The process keeps running unless
// the client has asked to end it. Serve closes the connection. It returns nil if the process ended, the client left, or
// ctx ended.
func (s *Session) Serve(ctx context.Context, ws *websocket.Conn) error {
	defer ws.CloseNow()
	ws.SetReadLimit(maxMessage)
	// Reads and writes of the connection do not use ctx: the end of their context would close it without a close frame.
	if err := s.say(ws, api.TerminalWord{Type: api.TermAttached, ExecID: s.ExecID, Next: s.After, Notice: s.Notice, ViewOnly: s.ViewOnly}); err != nil {
		return err
	}
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	typed := newInbox()
	var all sync.WaitGroup
	all.Go(func() { stop(s.listen(work, ws, typed)) })
	all.Go(func() { s.enter(work, typed) })
	all.Go(func() { stop(s.ping(work, ws)) })
	all.Go(func() { stop(s.show(work, ws)) })
	<-work.Done()
	why := context.Cause(work)
	bye := farewell{websocket.StatusGoingAway, "the server is going; attach again"}
	if s.Bye != nil {
		if status, reason := s.Bye(); status != 0 {
			bye = farewell{websocket.StatusCode(status), reason}
		}
	}
	if !errors.As(why, &bye) && ctx.Err() == nil {
		bye = farewell{websocket.StatusInternalError, "the terminal broke off"}
	}
	if bye.code != gone {
		_ = ws.Close(bye.code, bye.reason)
	}
	_ = ws.CloseNow()
	all.Wait()
	if bye.code == websocket.StatusNormalClosure || bye.code == gone || ctx.Err() != nil {
		return nil
	}
	return why
}

// gone is the code of a farewell for a client that has left. No close frame is sent with it.
const gone = websocket.StatusNoStatusRcvd

// show sends the output of the process to the client.
func (s *Session) show(ctx context.Context, ws *websocket.Conn) error {
	for chunk, err := range s.Output(ctx, s.After) {
		switch {
		case errors.Is(err, guest.ErrTrimmed):
			return farewell{websocket.StatusPolicyViolation, string(api.CodeOutputTrimmed) + ": too slow, some output is gone; attach again"}
		case err != nil:
			return fmt.Errorf("read output: %w", err)
		case chunk.Exit != nil:
			exit := s.Exit(*chunk.Exit)
			if err := s.say(ws, api.TerminalWord{Type: api.TermExit, Next: chunk.Next, ExecExit: &exit}); err != nil {
				return err
			}
			return farewell{websocket.StatusNormalClosure, "exit"}
		}
		if err := write(ws, websocket.MessageBinary, chunk.Data); err != nil {
			return err
		}
	}
	return errors.New("the output ended before the process")
}

func (s *Session) say(ws *websocket.Conn, word api.TerminalWord) error {
	data, err := json.Marshal(word)
	if err != nil {
		return err
	}
	return write(ws, websocket.MessageText, data)
}

// write sends one message. If the client does not receive it in time, write returns a farewell with the code gone: after
// a part of a message, no close frame can be sent.
func write(ws *websocket.Conn, kind websocket.MessageType, data []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), sendTime)
	defer cancel()
	if err := ws.Write(ctx, kind, data); err != nil {
		return fmt.Errorf("send to client: %w", farewell{gone, err.Error()})
	}
	return nil
}

// listen handles the messages of the client. It does not wait for the process to read its input.
func (s *Session) listen(ctx context.Context, ws *websocket.Conn, typed *inbox) error {
	for {
		kind, data, err := ws.Read(context.Background())
		switch {
		case ctx.Err() != nil: // the session has ended: the message is ignored
			return ctx.Err()
		case websocket.CloseStatus(err) == api.CloseEnd && !s.ViewOnly:
			return errors.Join(farewell{gone, "hung up"}, s.hangUp(ctx))
		case errors.Is(err, websocket.ErrMessageTooBig):
			return farewell{websocket.StatusMessageTooBig, fmt.Sprintf("a message is larger than %d bytes", maxMessage)}
		case err != nil:
			return farewell{gone, err.Error()}
		case s.ViewOnly: // terminals answer requests of programs by themselves, so input is no fault of the viewer
		case kind == websocket.MessageText:
			err = s.control(ctx, data)
		case !typed.put(data):
			err = farewell{websocket.StatusPolicyViolation, "the process does not read its input"}
		}
		if err != nil {
			return err
		}
	}
}

// control handles a text message of the client: a new size of the terminal, or the end of the process.
func (s *Session) control(ctx context.Context, data []byte) error {
	var word api.TerminalWord
	if err := json.Unmarshal(data, &word); err != nil {
		return farewell{websocket.StatusUnsupportedData, "a text message is not JSON"}
	}
	switch word.Type {
	case api.TermResize:
		if word.Cols < 1 || word.Rows < 1 || word.Cols > maxSide || word.Rows > maxSide {
			return farewell{websocket.StatusUnsupportedData, "no size of a terminal"}
		}
		// Resize fails if the process has ended. Then show ends the session.
		_ = s.Process.Resize(ctx, guest.Size{Cols: uint16(word.Cols), Rows: uint16(word.Rows)})
	case api.TermEnd:
		return s.hangUp(ctx)
	default:
		return farewell{websocket.StatusUnsupportedData, "a text message of no known type"}
	}
	return nil
}

// maxSide is the maximum number of rows and of columns of a terminal.
const maxSide = 10_000

// hangUp sends SIGHUP to the process, as for a terminal that was closed.
func (s *Session) hangUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hangupTime)
	defer cancel()
	if err := s.Process.Signal(ctx, syscall.SIGHUP); err != nil && !errors.Is(err, guest.ErrNoProcess) {
		return fmt.Errorf("hang up: %w", err)
	}
	return nil
}

// enter writes the client's input to the process. It returns after the first error of a write: the process has ended or
// accepts no more input.
func (s *Session) enter(ctx context.Context, typed *inbox) {
	for {
		data, err := typed.take(ctx)
		if err != nil {
			return
		}
		if _, err := s.Process.Write(ctx, data); err != nil {
			return
		}
	}
}

// ping sends pings to detect a client that has left without closing the connection.
func (s *Session) ping(ctx context.Context, ws *websocket.Conn) error {
	every := s.beat
	if every == 0 {
		every = beat
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		alive, cancel := context.WithTimeout(context.Background(), every)
		err := ws.Ping(alive)
		cancel()
		if err != nil {
			return farewell{gone, "the client does not answer"}
		}
	}
}
