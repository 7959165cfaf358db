package httpapi

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/internal/ahead"
	"github.com/berthdev/berth/internal/turn"
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
func relayTo(ctx context.Context, a *Handler, out *events, pieces *ahead.Reader[turn.Event]) {
	relay(ctx, a, out, pieces, func(p ahead.Piece[turn.Event]) (bool, error) { return addTurnEvent(ctx, out, "a", p, false) })
}

func served(t *testing.T) *Handler {
	a := &Handler{}
	a.ending, a.end = context.WithCancel(t.Context())
	return a
}

// Events that are there together are sent together, up to a bound.
func TestReadyEventsAreSentTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFlushes()
		out := newEvents(w)
		const count = 100
		relayTo(t.Context(), served(t), out, ahead.Read(t.Context(), func(yield func(turn.Event, error) bool) {
			for seq := int64(1); seq <= count && yield(turn.Event{Seq: seq, Data: []byte(`{"type":"text"}`)}, nil); seq++ {
				if seq == 1 {
					synctest.Wait() // it is being sent
				}
			}
			close(w.hold)
		}, eventSize))
		if n := strings.Count(w.Body.String(), "\n\n"); n != count || w.count != 2 {
			t.Errorf("%d events were sent in %d parts", n, w.count)
		}
		if err := out.addJSON("", make([]byte, sendSize)); err != nil || w.count != 3 {
			t.Errorf("a long event waits for others, %v", err)
		}
	})
}

// A silent stream shows signs of life, always has its time to be taken, and ends with the server.
func TestSilentStreamLivesAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a := newFlushes(), served(t)
		close(w.hold)
		over := make(chan struct{})
		go func() {
			defer close(over)
			relayTo(t.Context(), a, newEvents(w), ahead.Read(t.Context(), func(func(turn.Event, error) bool) { <-a.ending.Done() }, eventSize))
		}()
		const beats = 10
		<-time.After(beats*beat + beat/2)
		a.end()
		<-over
		if got := w.Body.String(); got != strings.Repeat(": berth\n\n", beats) || w.count != beats {
			t.Errorf("in %d parts: %q", w.count, got)
		}
		if w.least < eventTime || w.deadlines >= beats {
			t.Errorf("the client had %v at least; the deadline was set %d times", w.least, w.deadlines)
		}
	})
}

func eventSize(e turn.Event) int { return len(e.Data) }
