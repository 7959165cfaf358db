package store_test

import (
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

func TestHoldsReachToTheLongest(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		sb := intend(t, db.In(acme), intent("c1"))
		held := func() time.Time {
			until, err := db.HeldUntil(t.Context(), sb.ID)
			noError(t, err)
			read, err := db.In(acme).ByID(t.Context(), sb.ID)
			noError(t, err)
			if !read.HeldUntil.Equal(until) {
				t.Fatalf("record says held until %v, holds until %v", read.HeldUntil, until)
			}
			return until
		}
		if until := held(); !until.IsZero() {
			t.Errorf("held until %v without a hold", until)
		}
		now := time.Now().Truncate(time.Microsecond)
		noError(t, db.Hold(t.Context(), sb.ID, "turn", "1", now.Add(time.Hour)))
		noError(t, db.Hold(t.Context(), sb.ID, "terminal", "1", now.Add(2*time.Hour)))
		if until := held(); !until.Equal(now.Add(2 * time.Hour)) {
			t.Errorf("held until %v", until)
		}
		noError(t, db.Hold(t.Context(), sb.ID, "turn", "1", now.Add(3*time.Hour)))
		if until := held(); !until.Equal(now.Add(3 * time.Hour)) {
			t.Errorf("prolonged hold ends %v", until)
		}
		noError(t, db.Drop(t.Context(), sb.ID, "turn", "1"))
		noError(t, db.Drop(t.Context(), sb.ID, "turn", "1"))
		if until := held(); !until.Equal(now.Add(2 * time.Hour)) {
			t.Errorf("after the drop held until %v", until)
		}
		wantCode(t, db.Hold(t.Context(), store.NewID(), "turn", "1", now), api.CodeNotFound)
	})
}

func TestHoldsNeverDisturbAHolder(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		g := lease(t, db, intend(t, db.In(acme), intent("c1")).ID, "holder")
		noError(t, db.Hold(t.Context(), g.Sandbox.ID, "turn", "1", time.Now().Add(time.Hour)))
		after := commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventBegin})
		near(t, "held until", after.HeldUntil, time.Now().Add(time.Hour))
	})
}

func TestExpiredHoldsAreRemoved(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		sb := intend(t, db.In(acme), intent("c1"))
		for _, ref := range names(3, "past") {
			noError(t, db.Hold(t.Context(), sb.ID, "preview", ref, time.Now().Add(-time.Hour)))
		}
		noError(t, db.Hold(t.Context(), sb.ID, "turn", "1", time.Now().Add(time.Hour)))
		for _, want := range []int64{2, 1, 0} {
			if n, err := db.ExpireHolds(t.Context(), 2); err != nil || n != want {
				t.Errorf("removed %d holds (%v), want %d", n, err, want)
			}
		}
		until, err := db.HeldUntil(t.Context(), sb.ID)
		noError(t, err)
		near(t, "held until", until, time.Now().Add(time.Hour))
	})
}
