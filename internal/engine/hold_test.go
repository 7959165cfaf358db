package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/internal/engine"
)

// holds is a store that counts holds and has nothing else.
type holds struct {
	engine.Store
	held, dropped int
}

func (h *holds) Hold(context.Context, string, string, string, time.Time) error {
	h.held++
	return nil
}

func (h *holds) DropHold(context.Context, string, string, string) error {
	h.dropped++
	return nil
}

func TestOnlyLongWorkHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := new(holds)
		h := engine.New(engine.Options{Store: db}).Handle("default", "s", "test")
		done := h.HoldLate(t.Context(), "exec")
		time.Sleep(5*time.Second - 1)
		done()
		time.Sleep(time.Minute)
		if db.held != 0 {
			t.Error("short work held the sandbox")
		}
		done = h.HoldLate(t.Context(), "exec")
		time.Sleep(5*time.Second + 1)
		synctest.Wait()
		if db.held != 1 || db.dropped != 0 {
			t.Errorf("held %d times, dropped %d times", db.held, db.dropped)
		}
		done()
		if db.dropped != 1 {
			t.Error("the hold was not dropped")
		}
	})
}
