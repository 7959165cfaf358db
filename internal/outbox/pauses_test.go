package outbox_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/internal/outbox"
	"github.com/berthdev/berth/internal/store"
)

// shelf is an outbox of one message in memory, with a clock that tests move.
type shelf struct {
	mu    sync.Mutex
	m     store.Message
	due   time.Time
	there bool
	down  bool
}

var errDown = errors.New("the database is away")

func (s *shelf) ClaimMessages(_ context.Context, c store.Claiming) ([]store.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down:
		return nil, errDown
	case !s.there || time.Now().Before(s.due):
		return nil, nil
	}
	s.m.Attempts++
	s.due = time.Now().Add(c.TTL)
	return []store.Message{s.m}, nil
}

func (s *shelf) RemoveMessage(context.Context, store.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return errDown
	}
	s.there = false
	return nil
}

func (s *shelf) Retry(_ context.Context, _ store.Message, after time.Duration, cause string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return errDown
	}
	s.due, s.m.LastError = time.Now().Add(after), cause
	return nil
}

func (s *shelf) set(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// Pauses grow from a second to an hour, and never end. Deliveries to a part of Berth are tried every minute: after an
// outage of hours a message must not wait for an hour more.
func TestPausesGrow(t *testing.T) {
	for name, longest := range map[string]time.Duration{"others": time.Hour, "own": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { pausesGrow(t, longest) })
		})
	}
}

func pausesGrow(t *testing.T, longest time.Duration) {
	s := &shelf{there: true, m: store.Message{ID: "m", Kind: "message"}}
	o := outbox.New(s, slog.New(slog.DiscardHandler))
	times := make(chan time.Time, 1000)
	deliver := func(ctx context.Context, _ store.Message) error {
		times <- time.Now()
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > time.Minute {
			t.Error("a delivery has no end")
		}
		return errors.New("no")
	}
	if longest == time.Hour {
		o.Register("message", deliver)
	} else {
		o.RegisterOwn("message", 0, deliver)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go o.Run(ctx)
	last := <-times
	for attempt := range 40 {
		next := <-times
		want := min(time.Second<<min(attempt, 12), longest)
		if d := next.Sub(last); d < want/2 || d > want+2*time.Second {
			t.Errorf("pause %d is %s, not about %s", attempt+1, d, want)
		}
		last = next
	}
}

// A delivery that could not be written down is repeated when the database is back.
func TestDeliveryIsRepeatedIfItWasNotWrittenDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{there: true, m: store.Message{ID: "m", Kind: "message"}}
		o := outbox.New(s, slog.New(slog.DiscardHandler))
		delivered := make(chan int64, 10)
		o.Register("message", func(_ context.Context, m store.Message) error {
			s.set(m.Attempts == 1)
			delivered <- m.Attempts
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go o.Run(ctx)
		<-delivered
		time.Sleep(10 * time.Minute) // the bubble's clock
		s.set(false)
		if n := <-delivered; n != 2 {
			t.Errorf("attempt %d", n)
		}
		synctest.Wait()
		if s.there {
			t.Error("the message is still there")
		}
		if err := o.Flush(ctx, "a"); err != nil {
			t.Error(err)
		}
		s.set(true)
		if err := o.Flush(ctx, "a"); !errors.Is(err, errDown) {
			t.Error(err)
		}
	})
}
