package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

func TestHoldsReachToTheLongest(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		sb := intend(t, db.In(acme), intent("c1"))
		held := func() time.Time {
			until, err := db.Holds().HeldUntil(t.Context(), sb.ID)
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
		noError(t, db.Holds().Hold(t.Context(), sb.ID, "turn", "1", now.Add(time.Hour)))
		noError(t, db.Holds().Hold(t.Context(), sb.ID, "terminal", "1", now.Add(2*time.Hour)))
		if until := held(); !until.Equal(now.Add(2 * time.Hour)) {
			t.Errorf("held until %v", until)
		}
		noError(t, db.Holds().Hold(t.Context(), sb.ID, "turn", "1", now.Add(3*time.Hour)))
		if until := held(); !until.Equal(now.Add(3 * time.Hour)) {
			t.Errorf("prolonged hold ends %v", until)
		}
		noError(t, db.Holds().DropHold(t.Context(), sb.ID, "turn", "1"))
		noError(t, db.Holds().DropHold(t.Context(), sb.ID, "turn", "1"))
		if until := held(); !until.Equal(now.Add(2 * time.Hour)) {
			t.Errorf("after the drop held until %v", until)
		}
		wantCode(t, db.Holds().Hold(t.Context(), store.NewID(), "turn", "1", now), api.CodeNotFound)
	})
}

func TestHoldsNeverDisturbAHolder(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		g := lease(t, db, intend(t, db.In(acme), intent("c1")).ID, "holder")
		noError(t, db.Holds().Hold(t.Context(), g.Sandbox.ID, "turn", "1", time.Now().Add(time.Hour)))
		after := commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventBegin})
		near(t, "held until", after.HeldUntil, time.Now().Add(time.Hour))
	})
}

func TestExpiredHoldsAreRemoved(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		sb := intend(t, db.In(acme), intent("c1"))
		for _, ref := range names(3, "past") {
			noError(t, db.Holds().Hold(t.Context(), sb.ID, "preview", ref, time.Now().Add(-time.Hour)))
		}
		noError(t, db.Holds().Hold(t.Context(), sb.ID, "turn", "1", time.Now().Add(time.Hour)))
		for _, want := range []int64{2, 1, 0} {
			if n, err := db.Holds().ExpireHolds(t.Context(), 2); err != nil || n != want {
				t.Errorf("removed %d holds (%v), want %d", n, err, want)
			}
		}
		until, err := db.Holds().HeldUntil(t.Context(), sb.ID)
		noError(t, err)
		near(t, "held until", until, time.Now().Add(time.Hour))
	})
}

func TestHoldsAreThoseThatLast(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		sb, other := intend(t, db.In(acme), intent("c1")), intend(t, db.In(acme), intent("c2"))
		now := time.Now().UTC().Truncate(time.Microsecond)
		noError(t, db.Holds().Hold(t.Context(), sb.ID, "turn", "1", now.Add(time.Hour)))
		noError(t, db.Holds().Hold(t.Context(), sb.ID, "terminal", "1", now.Add(2*time.Hour)))
		noError(t, db.Holds().Hold(t.Context(), sb.ID, "preview", "1", now.Add(-time.Hour)))
		noError(t, db.Holds().Hold(t.Context(), other.ID, "preview", "1", now.Add(time.Hour)))
		held, err := db.Holds().List(t.Context(), sb.ID)
		noError(t, err)
		want := []store.Held{{Kind: "terminal", Until: now.Add(2 * time.Hour)}, {Kind: "turn", Until: now.Add(time.Hour)}}
		if diff := cmp.Diff(want, held); diff != "" {
			t.Errorf("holds (-want +got):\n%s", diff)
		}
		if held, err := db.Holds().List(t.Context(), store.NewID()); err != nil || len(held) > 0 {
			t.Errorf("an unknown sandbox has the holds %v (%v)", held, err)
		}
	})
}

func TestDropAllEndsTheHoldsOfOne(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		sb, other := intend(t, db.In(acme), intent("c1")), intend(t, db.In(acme), intent("c2"))
		for _, id := range []string{sb.ID, other.ID} {
			noError(t, db.Holds().Hold(t.Context(), id, "turn", "1", time.Now().Add(time.Hour)))
			noError(t, db.Holds().Hold(t.Context(), id, "terminal", "1", time.Now().Add(time.Hour)))
		}
		for range 2 {
			noError(t, db.Holds().DropAll(t.Context(), sb.ID))
		}
		for id, want := range map[string]int{sb.ID: 0, other.ID: 2} {
			if held, err := db.Holds().List(t.Context(), id); err != nil || len(held) != want {
				t.Errorf("%d holds are left (%v), want %d", len(held), err, want)
			}
		}
	})
}

// A hold that is prolonged and dropped at once is there or not, and neither waits for the other for ever.
func TestHoldAndDropRace(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		dbs := h.replicas(t, 2)
		sb := intend(t, dbs[0].In(acme), intent("c1"))
		race(8, func(i int) {
			for range testkit.Size(t, "quota.steps") / 8 {
				var err error
				if i%2 == 0 {
					err = dbs[i/2%2].Holds().Hold(t.Context(), sb.ID, "turn", "1", time.Now().Add(time.Hour))
				} else {
					err = dbs[i/2%2].Holds().DropHold(t.Context(), sb.ID, "turn", "1")
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
		noError(t, dbs[0].Holds().DropHold(t.Context(), sb.ID, "turn", "1"))
		if held, err := dbs[0].Holds().List(t.Context(), sb.ID); err != nil || len(held) > 0 {
			t.Errorf("%v is left (%v)", held, err)
		}
	})
}
