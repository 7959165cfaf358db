package driver_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

// busy is a driver whose calls take a second, and that counts how many there are at a time.
type busy struct {
	able
	mu        sync.Mutex
	now, most int
}

func newBusy() *busy {
	b := &busy{}
	b.call = func(context.Context, int) error {
		b.count(1)
		defer b.count(-1)
		<-time.After(time.Second)
		return nil
	}
	return b
}

func (b *busy) count(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now += n
	b.most = max(b.most, b.now)
}

func TestLimitHoldsCallsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := newBusy()
		d := driver.WithLimit(base, 3)
		stopper, _ := driver.As[driver.Stopper](d)
		begun := time.Now()
		var all sync.WaitGroup
		for i := range 12 {
			all.Go(func() {
				if i%2 == 0 {
					d.Destroy(t.Context(), "x")
				} else {
					stopper.Stop(t.Context(), "x")
				}
			})
		}
		all.Wait()
		if took := time.Since(begun); took != 4*time.Second || base.most != 3 {
			t.Errorf("12 calls took %v, at most %d at a time", took, base.most)
		}
	})
}

func TestLimitWaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := newBusy()
		base.entries = entriesOf("a")
		d := driver.WithLimit(base, 1)
		go d.Destroy(t.Context(), "x")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, listErr := list(ctx, d)
		for _, err := range []error{d.Destroy(ctx, "y"), listErr} {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		}
		synctest.Wait()
		if base.tries != 1 {
			t.Errorf("the driver was called %d times, want 1", base.tries)
		}
		time.Sleep(time.Second)
	})
}

// The loop over a List may call the driver even when there is one place only.
func TestLimitLetsListsLoopCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := newBusy()
		base.entries = entriesOf("a", "b", "c")
		d := driver.WithLimit(base, 1)
		var got []driver.ID
		for st, err := range d.List(t.Context(), driver.Selector{}) {
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Destroy(t.Context(), st.ID); err != nil {
				t.Fatal(err)
			}
			if got = append(got, st.ID); len(got) == 2 {
				break
			}
		}
		if !slices.Equal(got, []driver.ID{"a", "b"}) {
			t.Errorf("got %v", got)
		}
		if got, err := list(t.Context(), d); err != nil || len(got) != 3 {
			t.Errorf("after a List that was broken off: %v, %v", got, err)
		}
		if err := d.Destroy(t.Context(), "x"); err != nil {
			t.Error(err)
		}
	})
}

func TestLimitedListCutShortInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := newBusy()
		base.entries = entriesOf("a", "b")
		d := driver.WithLimit(base, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		for _, err := range d.List(ctx, driver.Selector{}) {
			last = err
			if err == nil {
				go d.Destroy(t.Context(), "x")
				synctest.Wait()
				cancel()
			}
		}
		if !errors.Is(last, context.Canceled) {
			t.Errorf("the List ended with %v", last)
		}
		time.Sleep(time.Second)
	})
}

func TestNoLimit(t *testing.T) {
	base := &stub{}
	if driver.WithLimit(base, 0) != driver.Driver(base) {
		t.Error("a limit of nothing is a limit")
	}
}
