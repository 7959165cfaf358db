package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

func TestStumbleRecordsTheReasonAndNothingElse(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		sb := intend(t, db.In(acme), intent("a"))
		g := lease(t, db, sb.ID, "holder")
		f := sandbox.Failure{Code: api.CodeDriverRefused, Message: "no", At: time.Now().UTC().Truncate(time.Microsecond), Want: sb.Want, Attempts: 2}
		at := time.Now().Add(time.Hour)
		noError(t, db.RecordFailure(t.Context(), g.Lease, f, store.Due{At: at, Want: sb.Want, UsedAt: g.Sandbox.ActiveAt}, time.Time{}))
		got, err := db.Sandbox(t.Context(), sb.ID)
		noError(t, err)
		if got.Failure == nil || *got.Failure != f || got.State != sb.State || got.DueAt.Before(at.Add(-time.Second)) {
			t.Errorf("%+v, %+v", got, got.Failure)
		}
		history, _, err := db.In(acme).History(t.Context(), sb.ID, 10, 0)
		noError(t, err)
		if len(history) != 1 {
			t.Errorf("%d entries in the history, want the first wish alone", len(history))
		}
		noError(t, db.Leases().Release(t.Context(), g.Lease))
		lease(t, db, sb.ID, "another")
		wantCode(t, db.RecordFailure(t.Context(), g.Lease, f, store.Due{}, time.Time{}), api.CodeStale)
	})
}

func TestStumbleRecordsTheProbe(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		sb := intend(t, db.In(acme), intent("a"))
		g := lease(t, db, sb.ID, "holder")
		probed := time.Now().UTC().Truncate(time.Microsecond)
		for _, at := range []time.Time{probed, {}} { // none given keeps the last one
			noError(t, db.RecordFailure(t.Context(), g.Lease, sandbox.Failure{Code: api.CodeUnhealthy, Message: "no answer"}, store.Due{}, at))
			got, err := db.Sandbox(t.Context(), sb.ID)
			noError(t, err)
			if !got.ProbedAt.Equal(probed) {
				t.Errorf("probed at %v, want %v", got.ProbedAt, probed)
			}
		}
	})
}

func TestUseUnderAHolderStaysDue(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		sb := intend(t, db.In(acme), intent("a"))
		g := lease(t, db, sb.ID, "holder")
		intend(t, db.In(acme), intent("a")) // the same wish again, which counts as a use
		later := store.Due{At: time.Now().Add(time.Hour), Want: sb.Want, UsedAt: g.Sandbox.ActiveAt}
		noError(t, db.SetDue(t.Context(), g.Lease, later, time.Time{}))
		got, err := db.Sandbox(t.Context(), sb.ID)
		noError(t, err)
		if time.Until(got.DueAt) > time.Minute {
			t.Errorf("due only at %s, although it was used since", got.DueAt)
		}
	})
}

func TestTombstoneCannotBeHeld(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		sb := intend(t, db.In(acme), intent("a"))
		noError(t, db.Holds().Hold(t.Context(), sb.ID, "turn", "1", time.Now().Add(time.Hour)))
		_, err := db.In(acme).Delete(t.Context(), sb.ID, false, "", "")
		noError(t, err)
		if err := db.Holds().Hold(t.Context(), sb.ID, "turn", "1", time.Now().Add(time.Hour)); !errors.Is(err, fault.ErrDeleted) {
			t.Errorf("got %v", err)
		}
	})
}
