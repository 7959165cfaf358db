package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/berthdev/berth/internal/ahead"
)

const (
	beat      = 15 * time.Second // between signs of life of a silent stream
	eventTime = 30 * time.Second // for a client to take what is sent at once, at least
	renewTime = 15 * time.Second // a deadline is good for so much longer, so that not every event needs a new one
	sendSize  = 64 << 10         // about how much is sent at once
)

// events writes server-sent events: unnamed, so that a plain EventSource sees them, each one line of
// JSON, in which no output can look like the frame around it. What is added is sent by flush, so that events
// which are there together travel together.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	buf     *bytes.Buffer // what is not sent yet; nil: nothing
	until   time.Time     // the connection's deadline
}

// buffers are for those streams that have something to send: most have nothing at a time, and keep none.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func newEvents(w http.ResponseWriter) *events {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies are not to wait for more
	return &events{w: w, control: http.NewResponseController(w)}
}

// done lets go of the connection, which may serve others.
func (s *events) done() { _ = s.control.SetWriteDeadline(time.Time{}) }

// add adds an event. An empty id leaves the reader's place where it is.
func (s *events) add(id string, event any) error {
	data, err := json.Marshal(event)
	if err != nil {
		return err
	}
	return s.addJSON(id, data)
}

// addJSON adds an event that is JSON already, in one part or more. Line breaks can only stand between its
// tokens, where a space does as well.
func (s *events) addJSON(id string, parts ...[]byte) error {
	b := s.buffer()
	if id != "" {
		b.WriteString("id: ")
		b.WriteString(id)
		b.WriteByte('\n')
	}
	b.WriteString("data: ")
	begin := b.Len()
	for _, part := range parts {
		b.Write(part)
	}
	unbroken(b.Bytes()[begin:])
	b.WriteString("\n\n")
	if b.Len() < sendSize {
		return nil
	}
	return s.flush()
}

// comment adds a sign of life.
func (s *events) comment() { s.buffer().WriteString(": berth\n\n") }

func (s *events) buffer() *bytes.Buffer {
	if s.buf == nil {
		s.buf = buffers.Get().(*bytes.Buffer)
	}
	return s.buf
}

// unbroken makes one line of a text.
func unbroken(text []byte) {
	for _, end := range []byte("\n\r") {
		for i := bytes.IndexByte(text, end); i >= 0; i = bytes.IndexByte(text, end) {
			text[i] = ' '
		}
	}
}

// flush sends what was added, and gives up on a client that does not take it.
func (s *events) flush() error {
	b := s.buf
	if b == nil {
		return nil
	}
	s.buf = nil
	if now := time.Now(); s.until.Sub(now) < eventTime {
		s.until = now.Add(eventTime + renewTime)
		_ = s.control.SetWriteDeadline(s.until) // recorders have none
	}
	_, err := s.w.Write(b.Bytes())
	if b.Cap() <= 2*sendSize { // one long event is no reason to keep as much
		b.Reset()
		buffers.Put(b)
	}
	if err != nil {
		return err
	}
	return s.control.Flush()
}

// relay sends the pieces as they come, and signs of life between them, until the last one is sent, or the
// client or the server goes.
func relay[T any](ctx context.Context, a *Handler, out *events, from *ahead.Reader[T], add func(ahead.Piece[T]) (last bool, err error)) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for last := false; !last; {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-a.ending.Done():
			return
		case <-tick.C:
			out.comment()
		case <-from.News:
			if ctx.Err() != nil {
				return
			}
			last, err = addAll(from, add)
		}
		if err != nil || out.flush() != nil {
			return
		}
	}
}

// addAll adds all pieces that are there.
func addAll[T any](from *ahead.Reader[T], add func(ahead.Piece[T]) (last bool, err error)) (last bool, err error) {
	pieces, over := from.Take()
	defer clear(pieces) // nobody keeps what was sent
	for _, p := range pieces {
		if last, err = add(p); last || err != nil {
			return last, err
		}
	}
	return over, nil
}
