package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"time"
)

const (
	beat      = 15 * time.Second // between signs of life of a silent stream
	eventTime = 30 * time.Second // for a client to take one event
)

// events writes server-sent events: unnamed, so that a plain EventSource sees them, each one line of
// JSON, in which no output can look like the frame around it.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func newEvents(w http.ResponseWriter) *events {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies are not to wait for more
	return &events{w, http.NewResponseController(w)}
}

// done lets go of the connection, which may serve others.
func (s *events) done() { _ = s.control.SetWriteDeadline(time.Time{}) }

// send sends an event. An empty id leaves the reader's place where it is.
func (s *events) send(id string, event any) error {
	data, err := json.Marshal(event)
	if err != nil {
		return err
	}
	return s.sendJSON(id, data)
}

// sendJSON sends an event that is JSON already. Line breaks can only stand between its tokens, where a space
// does as well.
func (s *events) sendJSON(id string, data []byte) error {
	var b bytes.Buffer
	if id != "" {
		fmt.Fprintf(&b, "id: %s\n", id)
	}
	b.WriteString("data: ")
	for _, c := range data {
		if c == '\n' || c == '\r' {
			c = ' '
		}
		b.WriteByte(c)
	}
	b.WriteString("\n\n")
	return s.write(b.Bytes())
}

func (s *events) comment() error { return s.write([]byte(": berth\n\n")) }

// write sends at once, and gives up on a client that does not take it.
func (s *events) write(b []byte) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(eventTime)) // recorders have none
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	return s.control.Flush()
}

// piece is a part of a sequence on its way, or the error in its place.
type piece[T any] struct {
	value T
	err   error
}

// pump reads the sequence one part ahead of who takes it, so that waiting for one can be given up.
func pump[T any](ctx context.Context, seq iter.Seq2[T, error]) <-chan piece[T] {
	pieces := make(chan piece[T])
	go func() {
		defer close(pieces)
		for value, err := range seq {
			select {
			case pieces <- piece[T]{value, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return pieces
}

// relay sends the pieces as they come, and signs of life between them, until the last one is sent, or the
// client or the server goes.
func relay[T any](ctx context.Context, a *Handler, out *events, pieces <-chan piece[T], send func(piece[T]) (last bool, err error)) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		var last bool
		var err error
		select {
		case <-ctx.Done():
			return
		case <-a.ending.Done():
			return
		case <-tick.C:
			err = out.comment()
		case p, more := <-pieces:
			if !more || ctx.Err() != nil {
				return
			}
			last, err = send(p)
		}
		if last || err != nil {
			return
		}
	}
}
