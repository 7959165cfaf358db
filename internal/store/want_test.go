package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

func TestWantMakesDueAtOnce(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		sb := intend(t, s, intent("c1"))
		g := lease(t, db, sb.ID, "holder")
		noError(t, db.SetDue(t.Context(), g.Lease, store.Due{Want: sandbox.WantRunning}, time.Time{}))
		after, err := s.Want(t.Context(), sb.ID, sandbox.WantStopped, "asked to stop", "request")
		noError(t, err)
		if after.Want != sandbox.WantStopped || after.Generation != g.Lease.Epoch {
			t.Errorf("row is %+v", after)
		}
		near(t, "due_at", after.DueAt, time.Now())
		_, err = s.Want(t.Context(), store.NewID(), sandbox.WantStopped, "", "")
		wantCode(t, err, api.CodeNotFound)
	})
}

func TestDeleteIsFinalAndIdempotent(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		sb := intend(t, s, intent("c1"))
		first, err := s.Delete(t.Context(), sb.ID, false, "unwanted", "request")
		noError(t, err)
		if !first.Deleted() || first.Want != sandbox.WantGone {
			t.Errorf("deleted row is %+v", first)
		}
		second, err := s.Delete(t.Context(), sb.ID, false, "again", "request")
		noError(t, err)
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("second delete changed the row:\n%s", diff)
		}
		_, err = s.Want(t.Context(), sb.ID, sandbox.WantRunning, "", "")
		wantCode(t, err, api.CodeDeleted)
		_, err = s.ByID(t.Context(), sb.ID)
		wantCode(t, err, api.CodeDeleted)
		_, err = s.ByOwner(t.Context(), sandbox.OwnerConversation, "c1")
		wantCode(t, err, api.CodeNotFound)
		noError(t, s.Touch(t.Context(), sb.ID))
		grave, err := s.ByIDOrDeleted(t.Context(), sb.ID)
		noError(t, err)
		if diff := cmp.Diff(first, grave); diff != "" {
			t.Errorf("tombstone changed:\n%s", diff)
		}
		_, err = s.Delete(t.Context(), store.NewID(), false, "", "")
		wantCode(t, err, api.CodeNotFound)
	})
}

func TestSkippedSaveIsForgottenByTheNextWish(t *testing.T) {
	testkit.Proves(t, "O1")
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		sb := intend(t, s, intent("c1"))
		want := func(what string, got sandbox.Sandbox, w sandbox.Want, skip bool) {
			t.Helper()
			read, err := s.ByIDOrDeleted(t.Context(), sb.ID)
			noError(t, err)
			if diff := cmp.Diff(got, read); diff != "" || got.Want != w || got.SkipSave != skip {
				t.Errorf("after %s: want %s, skip the save %v; read\n%s", what, got.Want, got.SkipSave, diff)
			}
		}
		terminate := func(skip bool) sandbox.Sandbox {
			got, err := s.Terminate(t.Context(), sb.ID, skip, "not needed", "request")
			noError(t, err)
			return got
		}
		want("terminate", terminate(false), sandbox.WantGone, false)
		want("terminate without a save", terminate(true), sandbox.WantGone, true)
		g := lease(t, db, sb.ID, "holder")
		want("a change of state", commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventEnd}), sandbox.WantGone, true)
		want("a use", intend(t, s, intent("c1")), sandbox.WantRunning, false)
		terminate(true)
		stopped, err := s.Want(t.Context(), sb.ID, sandbox.WantStopped, "", "")
		noError(t, err)
		want("a wish", stopped, sandbox.WantStopped, false)
		seen := terminate(true)
		lapsed, done, err := s.WantIfIdle(t.Context(), seen, sandbox.WantArchived, "", "timer")
		noError(t, err)
		if !done {
			t.Fatal("the timer lost against nobody")
		}
		want("a timer", lapsed, sandbox.WantArchived, false)
		gone, err := s.Delete(t.Context(), sb.ID, true, "", "")
		noError(t, err)
		want("delete without a save", gone, sandbox.WantGone, true)
		_, err = s.Terminate(t.Context(), sb.ID, false, "", "")
		wantCode(t, err, api.CodeDeleted)
		_, err = db.In("rival").Terminate(t.Context(), sb.ID, false, "", "")
		wantCode(t, err, api.CodeNotFound)
	})
}

func TestTouchRecordsUseToTheSecond(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		sb := intend(t, s, intent("c1"))
		read := func() time.Time {
			noError(t, s.Touch(t.Context(), sb.ID))
			now, err := s.ByID(t.Context(), sb.ID)
			noError(t, err)
			if !now.DueAt.Equal(sb.DueAt) {
				t.Fatal("use changed the due time")
			}
			return now.ActiveAt
		}
		if got := read(); got.Sub(sb.ActiveAt) != 0 && got.Sub(sb.ActiveAt) < time.Second {
			t.Errorf("use was recorded %v after the last one", got.Sub(sb.ActiveAt))
		}
		testkit.Eventually(t, 30*time.Second, func() error {
			if moved := read().Sub(sb.ActiveAt); moved < time.Second {
				return fault.Errorf("touch", api.CodeInternal, "moved by %v", moved)
			}
			return nil
		})
	})
}

func TestTimerLosesAgainstAnyUse(t *testing.T) {
	uses := map[string]func(t *testing.T, db *store.DB, sb sandbox.Sandbox){
		"nobody": func(*testing.T, *store.DB, sandbox.Sandbox) {},
		"a wish": func(t *testing.T, db *store.DB, sb sandbox.Sandbox) {
			_, err := db.In(acme).Want(t.Context(), sb.ID, sandbox.WantArchived, "", "")
			noError(t, err)
		},
		"the same wish": func(t *testing.T, db *store.DB, sb sandbox.Sandbox) { intend(t, db.In(acme), intent("c1")) },
		"a hold": func(t *testing.T, db *store.DB, sb sandbox.Sandbox) {
			noError(t, db.Holds().Hold(t.Context(), sb.ID, "turn", "1", time.Now().Add(time.Hour)))
		},
		"a delete": func(t *testing.T, db *store.DB, sb sandbox.Sandbox) {
			_, err := db.In(acme).Delete(t.Context(), sb.ID, false, "", "")
			noError(t, err)
		},
	}
	for name, use := range uses {
		t.Run(name, func(t *testing.T) {
			withDB(t, func(t *testing.T, db *store.DB) {
				s := db.In(acme)
				seen := intend(t, s, intent("c1"))
				use(t, db, seen)
				sb, done, err := s.WantIfIdle(t.Context(), seen, sandbox.WantStopped, "idle for 15m0s", "timer")
				noError(t, err)
				if done != (name == "nobody") {
					t.Fatalf("timer's wish granted: %v", done)
				}
				if done && (sb.Want != sandbox.WantStopped || !sb.ActiveAt.Equal(seen.ActiveAt)) {
					t.Errorf("row after the timer is %+v", sb)
				}
			})
		})
	}
}

func TestHistoryTellsEveryChangeOnce(t *testing.T) {
	testkit.Proves(t, "O6")
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		sb := intend(t, s, intent("c1"))
		intend(t, s, intent("c1")) // the same wish again is no change
		g := lease(t, db, sb.ID, "holder")
		commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventBegin, Reason: "first \x00 use\xff", Actor: "request"})
		commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventReady, Instance: "i-1", Reason: "it runs", Actor: "request"})
		_, err := s.Want(t.Context(), sb.ID, sandbox.WantStopped, "asked to stop", "request")
		noError(t, err)
		_, err = s.Delete(t.Context(), sb.ID, false, "unwanted", "request")
		noError(t, err)
		want := []sandbox.Transition{
			{Seq: 5, From: sandbox.Running, To: sandbox.Running, Want: sandbox.WantGone, Reason: "unwanted", Actor: "request", Generation: 1, Incarnation: 1, Instance: "i-1"},
			{Seq: 4, From: sandbox.Running, To: sandbox.Running, Want: sandbox.WantStopped, Reason: "asked to stop", Actor: "request", Generation: 1, Incarnation: 1, Instance: "i-1"},
			{Seq: 3, Event: sandbox.EventReady, From: sandbox.Creating, To: sandbox.Running, Want: sandbox.WantRunning, Reason: "it runs", Actor: "request", Generation: 1, Incarnation: 1, Instance: "i-1"},
			{Seq: 2, Event: sandbox.EventBegin, From: sandbox.Pending, To: sandbox.Creating, Want: sandbox.WantRunning, Reason: "first \uFFFD use\uFFFD", Actor: "request", Generation: 1, Incarnation: 1},
			{Seq: 1, From: sandbox.Pending, To: sandbox.Pending, Want: sandbox.WantRunning, Reason: "first use", Actor: "request"},
		}
		var got []sandbox.Transition
		for before := int64(0); ; {
			items, next, err := s.History(t.Context(), sb.ID, 2, before)
			noError(t, err)
			for _, item := range items {
				near(t, "time of the entry", item.At, time.Now())
				item.At = time.Time{}
				got = append(got, item)
			}
			if before = next; next == 0 {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
	})
}
