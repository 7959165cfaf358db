package stream

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/internal/readahead"
)

// flushes is a client that counts how often it was sent something, and how long it had to take it.
type flushes struct {
	*httptest.ResponseRecorder
	count     int
	deadline  time.Time
	deadlines int
	least     time.Duration // that it had
	hold      chan struct{} // what it waits for before it takes the first
}

func newFlushes() *flushes {
	return &flushes{ResponseRecorder: httptest.NewRecorder(), least: time.Hour, hold: make(chan struct{})}
}

func (f *flushes) FlushError() error {
	f.least = min(f.least, time.Until(f.deadline))
	if f.count++; f.count == 1 {
		<-f.hold
	}
	return nil
}

func (f *flushes) SetWriteDeadline(at time.Time) error {
	f.deadline = at
	f.deadlines++
	return nil
}

// relayTo relays the pieces until they, the context or the server end.
func relayTo(ctx, ending context.Context, out *Writer, pieces *readahead.Reader[string]) {
	Relay(ctx, ending, out, pieces, func(p readahead.Piece[string]) (bool, error) { return false, out.AddJSON("1", []byte(p.Value)) })
}

// Events that are there together are sent together, up to a bound.
func TestReadyEventsAreSentTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFlushes()
		out := NewWriter(w)
		const count = 100
		relayTo(t.Context(), t.Context(), out, readahead.Read(t.Context(), func(yield func(string, error) bool) {
			for seq := int64(1); seq <= count && yield(`{"type":"text"}`, nil); seq++ {
				if seq == 1 {
					synctest.Wait() // it is being sent
				}
			}
			close(w.hold)
		}, sizeOf))
		if n := strings.Count(w.Body.String(), "\n\n"); n != count || w.count != 2 {
			t.Errorf("%d events were sent in %d parts", n, w.count)
		}
		if err := out.AddJSON("", make([]byte, sendSize)); err != nil || w.count != 3 {
			t.Errorf("a long event waits for others, %v", err)
		}
	})
}

// A silent stream shows signs of life, always has its time to be taken, and ends with the server.
func TestSilentStreamLivesAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFlushes()
		ending, end := context.WithCancel(t.Context())
		close(w.hold)
		over := make(chan struct{})
		go func() {
			defer close(over)
			relayTo(t.Context(), ending, NewWriter(w), readahead.Read(t.Context(), func(func(string, error) bool) { <-ending.Done() }, sizeOf))
		}()
		const beats = 10
		<-time.After(beats*beat + beat/2)
		end()
		<-over
		if got := w.Body.String(); got != strings.Repeat(": berth\n\n", beats) || w.count != beats {
			t.Errorf("in %d parts: %q", w.count, got)
		}
		if w.least < eventTime || w.deadlines >= beats {
			t.Errorf("the client had %v at least; the deadline was set %d times", w.least, w.deadlines)
		}
	})
}

func sizeOf(text string) int { return len(text) }

// Line breaks between the tokens of JSON end no line of a frame.
func TestFrameIsOneLine(t *testing.T) {
	w := httptest.NewRecorder()
	out := NewWriter(w)
	first := out.AddJSON("a.1", []byte("{\"a\":\r"), []byte("\n1}"))
	out.Comment()
	if err := errors.Join(first, out.Add("", map[string]string{"b": "\n"}), out.Flush(), out.Flush()); err != nil {
		t.Fatal(err)
	}
	if got := w.Body.String(); got != "id: a.1\ndata: {\"a\":  1}\n\n: berth\n\ndata: {\"b\":\"\\n\"}\n\n" {
		t.Errorf("%q", got)
	}
	if err := out.Add("", func() {}); err == nil {
		t.Error("a value that is no JSON was added")
	}
}
