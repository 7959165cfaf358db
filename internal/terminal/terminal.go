// Package terminal shows a process's terminal over a WebSocket.
//
// A [Session] joins one client and one process for as long as both are there. What the process writes
// lies in its spool: a client that is slow or goes away costs it nothing, and comes back with the offset
// where it was. What is typed waits in a small buffer, so that a process which does not read keeps nobody
// from resizing, hanging up or being heard.
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
	maxMessage = 256 << 10        // of a client
	maxTyped   = 1 << 20          // typed, and not read by the process yet
	sendTime   = 30 * time.Second // for a client to take a message
	beat       = 25 * time.Second // between two pings
	hangupTime = 10 * time.Second // to get a signal through
)

// Session is one client at one terminal.
type Session struct {
	ExecID  string
	Process guest.Process
	After   int64                                                                // the offset to show from
	Output  func(ctx context.Context, after int64) iter.Seq2[guest.Chunk, error] // of the process
	Exit    func(guest.Exit) api.ExecExit                                        // how its end is told

	beat time.Duration // zero: beat
}

// farewell is why a session ends, as the client is told.
type farewell struct {
	code   websocket.StatusCode
	reason string
}

func (f farewell) Error() string { return f.reason }

// Serve shows the terminal until the process ends, the client goes or ctx ends. Only a client that asks
// for it ends the process. The connection is closed when it returns; the error says why if it was not
// the process's end or the client's wish.
func (s *Session) Serve(ctx context.Context, ws *websocket.Conn) error {
	defer ws.CloseNow()
	ws.SetReadLimit(maxMessage)
	// The connection's own work is not bound to ctx: a context that ends cuts it without a word.
	if err := s.say(ws, api.TerminalWord{Type: api.TermAttached, ExecID: s.ExecID, Next: s.After}); err != nil {
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
	if !errors.As(why, &bye) && ctx.Err() == nil {
		bye = farewell{websocket.StatusInternalError, "the terminal broke off"}
	}
	if bye.code != gone {
		_ = ws.Close(bye.code, bye.reason) // a client that is gone needs no farewell
	}
	_ = ws.CloseNow()
	all.Wait()
	if bye.code == websocket.StatusNormalClosure || bye.code == gone || ctx.Err() != nil {
		return nil
	}
	return why
}

// gone is the status of a session whose client has left already.
const gone = websocket.StatusNoStatusRcvd

// show sends what the process writes.
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

// write sends one message. A client that does not take it in time is cut off: half a message is under
// way, so there is no room left for a word about it.
func write(ws *websocket.Conn, kind websocket.MessageType, data []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), sendTime)
	defer cancel()
	if err := ws.Write(ctx, kind, data); err != nil {
		return fmt.Errorf("send to client: %w", farewell{gone, err.Error()})
	}
	return nil
}

// listen takes what the client sends. It never waits for the process.
func (s *Session) listen(ctx context.Context, ws *websocket.Conn, typed *inbox) error {
	for {
		kind, data, err := ws.Read(context.Background())
		switch {
		case websocket.CloseStatus(err) == api.CloseEnd:
			return errors.Join(farewell{gone, "hung up"}, s.hangUp(ctx))
		case errors.Is(err, websocket.ErrMessageTooBig):
			return farewell{websocket.StatusMessageTooBig, fmt.Sprintf("a message is larger than %d bytes", maxMessage)}
		case err != nil:
			return farewell{gone, err.Error()}
		case kind == websocket.MessageText:
			err = s.control(ctx, data)
		case !typed.put(data):
			err = farewell{websocket.StatusPolicyViolation, "the process does not read what is typed"}
		}
		if err != nil {
			return err
		}
	}
}

// control does what a client says about the terminal.
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
		// A process that has ended has no size; its end is on the way.
		_ = s.Process.Resize(ctx, guest.Size{Cols: uint16(word.Cols), Rows: uint16(word.Rows)})
	case api.TermEnd:
		return s.hangUp(ctx)
	default:
		return farewell{websocket.StatusUnsupportedData, "a text message of no known type"}
	}
	return nil
}

// maxSide is the most characters of a terminal in either direction.
const maxSide = 10_000

// hangUp tells the process that its terminal is gone, as a modem would.
func (s *Session) hangUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hangupTime)
	defer cancel()
	if err := s.Process.Signal(ctx, syscall.SIGHUP); err != nil && !errors.Is(err, guest.ErrNoProcess) {
		return fmt.Errorf("hang up: %w", err)
	}
	return nil
}

// enter gives the process what was typed. When it takes no more, its end is on the way.
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

// ping finds out that a client has gone without a word.
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
