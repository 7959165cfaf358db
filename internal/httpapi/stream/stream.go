package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/readahead"
)

const (
	beat      = 15 * time.Second // interval of comments on a silent stream
	eventTime = 30 * time.Second // minimum time for a client to read one write
	renewTime = 15 * time.Second // additional time of a deadline, so that not every event sets a new one
	sendSize  = 64 << 10         // approximate number of bytes in one write
)

// Writer writes server-sent events. The events have no name, so that a plain EventSource receives them. The data of
// each is one line of JSON, so that output cannot be mistaken for the event format. Flush sends the added events
// together.
type Writer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	buf     *bytes.Buffer // unsent events; nil: none
	until   time.Time     // the connection's deadline
}

// buffers is a pool of buffers for unsent events. Most streams have no unsent events and hold no buffer.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// NewWriter begins a stream of events as the answer.
func NewWriter(w http.ResponseWriter) *Writer {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies must not buffer the events
	return &Writer{w: w, control: http.NewResponseController(w)}
}

// Done removes the write deadline, because the connection may serve other requests afterwards.
func (s *Writer) Done() { _ = s.control.SetWriteDeadline(time.Time{}) }

// Add adds an event. With an empty id, the reader's position does not change.
func (s *Writer) Add(id string, event any) error {
	data, err := json.Marshal(event)
	if err != nil {
		return err
	}
	return s.AddJSON(id, data)
}

// AddJSON adds an event that is encoded as JSON already, in one or more parts. It replaces line breaks by spaces: in
// JSON they occur only between tokens.
func (s *Writer) AddJSON(id string, parts ...[]byte) error {
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
	return s.Flush()
}

// Comment adds a comment, which shows that the connection is alive.
func (s *Writer) Comment() { s.buffer().WriteString(": berth\n\n") }

func (s *Writer) buffer() *bytes.Buffer {
	if s.buf == nil {
		s.buf = buffers.Get().(*bytes.Buffer)
	}
	return s.buf
}

// unbroken replaces line breaks by spaces.
func unbroken(text []byte) {
	for _, end := range []byte("\n\r") {
		for i := bytes.IndexByte(text, end); i >= 0; i = bytes.IndexByte(text, end) {
			text[i] = ' '
		}
	}
}

// Flush sends the added events. It fails if the client does not read them in time.
func (s *Writer) Flush() error {
	b := s.buf
	if b == nil {
		return nil
	}
	s.buf = nil
	if now := time.Now(); s.until.Sub(now) < eventTime {
		s.until = now.Add(eventTime + renewTime)
		_ = s.control.SetWriteDeadline(s.until) // response recorders of tests have no deadlines
	}
	_, err := s.w.Write(b.Bytes())
	if b.Cap() <= 2*sendSize { // a buffer that grew for one long event is not kept
		b.Reset()
		buffers.Put(b)
	}
	if err != nil {
		return err
	}
	return s.control.Flush()
}

// Relay sends the pieces when they arrive, and comments in between, until the last piece is sent, the client
// disconnects or the server drains.
func Relay[T any](ctx, ending context.Context, out *Writer, from *readahead.Reader[T], add func(readahead.Piece[T]) (last bool, err error)) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for last := false; !last; {
		var err error
		select {
		case <-ctx.Done():
			sayEnd(ctx, out, add)
			return
		case <-ending.Done():
			return
		case <-tick.C:
			out.Comment()
		case <-from.News:
			if ctx.Err() != nil {
				sayEnd(ctx, out, add)
				return
			}
			last, err = addAll(from, add)
		}
		if err != nil || out.Flush() != nil {
			return
		}
	}
}

// sayEnd adds an error as the last event of a stream whose key has ended.
func sayEnd[T any](ctx context.Context, out *Writer, add func(readahead.Piece[T]) (last bool, err error)) {
	if why := exchange.KeyEnded(ctx); why != nil {
		_, _ = add(readahead.Piece[T]{Err: why}) // the client may be gone
		_ = out.Flush()
	}
}

// addAll adds all pieces that have arrived.
func addAll[T any](from *readahead.Reader[T], add func(readahead.Piece[T]) (last bool, err error)) (last bool, err error) {
	pieces, over := from.Take()
	defer clear(pieces) // releases the sent data
	for _, p := range pieces {
		if last, err = add(p); last || err != nil {
			return last, err
		}
	}
	return over, nil
}
