package store_test

import (
	"testing"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

func TestChangesStayUnsavedUntilASaveThatBeganLater(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		sb := intend(t, s, intent("owner"))
		if !sb.UnsavedSince.IsZero() {
			t.Fatalf("a new sandbox is unsaved since %v", sb.UnsavedSince)
		}
		noError(t, s.RecordChange(t.Context(), sb.ID, true, time.Minute))
		changed := record(t, s, sb.ID)
		noError(t, s.RecordChange(t.Context(), sb.ID, true, time.Minute))
		again := record(t, s, sb.ID)
		if changed.UnsavedSince.IsZero() || !again.UnsavedSince.Equal(changed.UnsavedSince) || !again.ChangedAt.After(changed.ChangedAt) {
			t.Fatalf("first change %v, then %v; last change %v, then %v", changed.UnsavedSince, again.UnsavedSince, changed.ChangedAt, again.ChangedAt)
		}
		grant, err := db.Leases().Lease(t.Context(), store.LeaseSandbox, sb.ID, "saver")
		noError(t, err)
		mark := sandbox.SyncMark{Version: "v1", Incarnation: 1}

		// A mark that is no save leaves the changes unsaved.
		got, err := db.Syncs().RecordSync(t.Context(), grant.Lease, mark, time.Time{})
		noError(t, err)
		if !got.UnsavedSince.Equal(changed.UnsavedSince) {
			t.Errorf("no save made it unsaved since %v", got.UnsavedSince)
		}
		// A save that began before the last change does not have it.
		got, err = db.Syncs().RecordSync(t.Context(), grant.Lease, mark, again.ChangedAt)
		noError(t, err)
		if !got.UnsavedSince.Equal(again.ChangedAt) || got.Synced != mark {
			t.Errorf("after an earlier save: unsaved since %v, want %v; %v", got.UnsavedSince, again.ChangedAt, got.Synced)
		}
		// One that began before the first unsaved change has none of them.
		got, err = db.Syncs().RecordSync(t.Context(), grant.Lease, mark, again.ChangedAt.Add(-time.Hour))
		noError(t, err)
		if !got.UnsavedSince.Equal(again.ChangedAt) {
			t.Errorf("an old save moved it to %v", got.UnsavedSince)
		}
		if n, oldest, err := db.Syncs().CountUnsaved(t.Context()); err != nil || n != 1 || !oldest.Equal(again.ChangedAt) {
			t.Errorf("%d unsaved since %v, %v", n, oldest, err)
		}
		got, err = db.Syncs().RecordSync(t.Context(), grant.Lease, mark, again.ChangedAt.Add(time.Microsecond))
		noError(t, err)
		if !got.UnsavedSince.IsZero() {
			t.Errorf("after a later save: unsaved since %v", got.UnsavedSince)
		}
		if n, _, err := db.Syncs().CountUnsaved(t.Context()); err != nil || n != 0 {
			t.Errorf("%d unsaved, %v", n, err)
		}
	})
}

func TestAChangeMakesASandboxDueForItsSave(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		sb := intend(t, s, intent("owner"))
		grant, err := db.Leases().Lease(t.Context(), store.LeaseSandbox, sb.ID, "holder")
		noError(t, err)
		noError(t, db.SetDue(t.Context(), grant.Lease, store.Due{Want: sb.Want}, time.Time{}))
		noError(t, s.RecordChange(t.Context(), sb.ID, false, time.Minute))
		if got := record(t, s, sb.ID); !got.DueAt.IsZero() || !got.UnsavedSince.IsZero() || got.ChangedAt.IsZero() {
			t.Fatalf("a workspace that is not saved is due %v, unsaved since %v, changed %v", got.DueAt, got.UnsavedSince, got.ChangedAt)
		}
		noError(t, s.RecordChange(t.Context(), sb.ID, true, time.Minute))
		got := record(t, s, sb.ID)
		if d := got.DueAt.Sub(got.ChangedAt); d != time.Minute {
			t.Errorf("due %v after the change, want a minute", d)
		}
		noError(t, s.RecordChange(t.Context(), sb.ID, true, time.Second))
		if later := record(t, s, sb.ID); !later.DueAt.Equal(got.DueAt) {
			t.Errorf("a second change moved the due time to %v", later.DueAt)
		}
	})
}

func TestAStaleHolderDoesNotClearChanges(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		sb := intend(t, s, intent("owner"))
		noError(t, s.RecordChange(t.Context(), sb.ID, true, time.Minute))
		old, err := db.Leases().Lease(t.Context(), store.LeaseSandbox, sb.ID, "old")
		noError(t, err)
		noError(t, db.Leases().Release(t.Context(), old.Lease))
		_, err = db.Leases().Lease(t.Context(), store.LeaseSandbox, sb.ID, "new")
		noError(t, err)
		if _, err := db.Syncs().RecordSync(t.Context(), old.Lease, sandbox.SyncMark{Version: "v9"}, time.Now().Add(time.Hour)); err == nil {
			t.Error("a stale holder recorded a save")
		}
		if got := record(t, s, sb.ID); got.UnsavedSince.IsZero() || got.Synced.Version != "" {
			t.Errorf("unsaved since %v, version %q", got.UnsavedSince, got.Synced.Version)
		}
	})
}

func TestASecondDeleteSkipsTheSaveOfTheFirst(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		sb := intend(t, s, intent("owner"))
		_, err := s.Delete(t.Context(), sb.ID, false, "deleted", "test")
		noError(t, err)
		grant := lease(t, db, sb.ID, "holder")
		noError(t, db.SetDue(t.Context(), grant.Lease, store.Due{Want: sandbox.WantGone}, time.Time{}))
		got, err := s.Delete(t.Context(), sb.ID, true, "deleted", "test")
		noError(t, err)
		if !got.SkipSave || got.DueAt.IsZero() {
			t.Errorf("skips %v, due %v", got.SkipSave, got.DueAt)
		}
		again, err := s.Delete(t.Context(), sb.ID, false, "deleted", "test")
		noError(t, err)
		if !again.SkipSave {
			t.Error("a later plain delete asks for the save again")
		}
		entries, _, err := s.History(t.Context(), sb.ID, 10, 0)
		noError(t, err)
		if len(entries) != 3 || entries[0].Reason != "deleted without a last save" {
			t.Errorf("history: %+v", entries)
		}
	})
}

func record(t testing.TB, s store.Scope, id string) sandbox.Sandbox {
	t.Helper()
	sb, err := s.ByIDOrDeleted(t.Context(), id)
	noError(t, err)
	return sb
}
