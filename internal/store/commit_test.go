package store_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

func TestStaleHolderWritesNothing(t *testing.T) {
	testkit.Proves(t, "O2")
	onBoth(t, func(t *testing.T, h harness) {
		h.opts.LeaseTTL = short
		db, old, now := stalled(t, h)
		ready := sandbox.Change{Event: sandbox.EventReady, Instance: "i-old", Actor: "request"}
		_, err := db.Commit(t.Context(), old, ready, store.Due{Want: sandbox.WantRunning})
		wantCode(t, err, api.CodeStale)
		illegal := sandbox.Change{Event: sandbox.EventArchive, Actor: "request"}
		_, err = db.Commit(t.Context(), old, illegal, store.Due{})
		wantCode(t, err, api.CodeStale) // stale comes before illegal
		wantCode(t, db.SetDue(t.Context(), old, store.Due{Want: sandbox.WantRunning}, time.Now()), api.CodeStale)
		after, err := db.Sandbox(t.Context(), now.Sandbox.ID)
		noError(t, err)
		if diff := cmp.Diff(now.Sandbox, after); diff != "" {
			t.Errorf("a stale holder changed the row:\n%s", diff)
		}
		entries, _, err := db.In(acme).History(t.Context(), now.Sandbox.ID, 0, 0)
		noError(t, err)
		if len(entries) != 2 {
			t.Errorf("history has %d entries, want those of intent and begin", len(entries))
		}
		commit(t, db, now.Lease, sandbox.Change{Event: sandbox.EventReady, Instance: "i-new", Actor: "request"})
	})
}

func TestCommitsRacingATakeoverAreFenced(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		dbs := h.replicas(t, 2)
		for _, owner := range names(20, "owner") {
			sb := intend(t, dbs[0].In(acme), intent(owner))
			old := lease(t, dbs[0], sb.ID, "one")
			commit(t, dbs[0], old.Lease, sandbox.Change{Event: sandbox.EventBegin, Actor: "request"})
			noError(t, dbs[0].Leases().Release(t.Context(), old.Lease)) // it does not know that it lost it
			var seen, last atomic.Value
			race(2, func(i int) {
				if i == 0 {
					_, err := dbs[0].Commit(t.Context(), old.Lease, sandbox.Change{Event: sandbox.EventReady, Instance: "i-" + sandbox.InstanceID(owner)}, store.Due{})
					if err != nil && !errors.Is(err, fault.ErrStale) {
						t.Error(err)
					}
					last.Store(err == nil)
					return
				}
				g, err := dbs[1].Leases().Lease(t.Context(), store.LeaseSandbox, sb.ID, "two")
				if err != nil || !g.OK {
					t.Errorf("takeover: %+v, %v", g, err)
				}
				seen.Store(g.Sandbox.State)
			})
			committed := last.Load().(bool)
			if state := seen.Load(); committed != (state == sandbox.Running) {
				t.Errorf("successor saw %s although the old holder's commit succeeded: %v", state, committed)
			}
		}
	})
}

func TestCommitWritesTheWholeChange(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		sb := intend(t, s, intent("c1"))
		g := lease(t, db, sb.ID, "holder")
		begun := commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventBegin, Actor: "request"})
		if begun.State != sandbox.Creating || begun.Incarnation != 1 || !begun.DueAt.IsZero() {
			t.Errorf("after begin: %+v", begun)
		}
		due := time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
		ran, err := db.Commit(t.Context(), g.Lease, sandbox.Change{
			Event: sandbox.EventReady, Instance: "i-1", Synced: sandbox.SyncMark{Version: "v1", Incarnation: 1}, Actor: "request",
		}, store.Due{At: due, Want: sandbox.WantRunning})
		noError(t, err)
		if ran.State != sandbox.Running || ran.Instance != "i-1" || ran.Synced.Version != "v1" || ran.Synced.Incarnation != 1 || !ran.DueAt.Equal(due) {
			t.Errorf("after ready: %+v", ran)
		}
		near(t, "started_at", ran.StartedAt, time.Now())
		failed := &sandbox.Failure{Code: api.CodeDriverRefused, Message: "no \x00 room", At: due, Want: sandbox.WantRunning, Attempts: 2, Final: true}
		commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventSick, Instance: "i-1"})
		broken := commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventFail, Instance: "i-1", Failure: failed})
		if diff := cmp.Diff(failed, broken.Failure); diff != "" {
			t.Errorf("failure (-want +got):\n%s", diff)
		}
		commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventEnd, Instance: "i-1"})
		ended := commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventEnded})
		if ended.State != sandbox.Terminated || ended.Instance != "" || ended.Failure != nil {
			t.Errorf("after the end: %+v", ended)
		}
		near(t, "destroyed_at", ended.DestroyedAt, time.Now())
		read, err := s.ByID(t.Context(), sb.ID)
		noError(t, err)
		if diff := cmp.Diff(ended, read); diff != "" {
			t.Errorf("committed and read differ:\n%s", diff)
		}
	})
}

func TestCommitKeepsRecoveriesAndFinalizers(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		sb := intend(t, db.In(acme), intent("c1"))
		g := lease(t, db, sb.ID, "holder")
		commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventBegin})
		commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventReady, Instance: "i-1"})
		count := sandbox.Recoveries{Count: 3, Since: time.Now().UTC().Truncate(time.Microsecond)}
		want := func(what string, got sandbox.Sandbox, recovered sandbox.Recoveries, finalizers ...string) {
			t.Helper()
			read, err := db.Sandbox(t.Context(), sb.ID)
			noError(t, err)
			for how, sb := range map[string]sandbox.Sandbox{"committed": got, "read": read} {
				if diff := cmp.Diff(recovered, sb.Recovered); diff != "" || !slices.Equal(sb.Finalizers, finalizers) {
					t.Errorf("%s, %s: finalizers %q, recoveries\n%s", what, how, sb.Finalizers, diff)
				}
			}
		}
		sick := commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventSick, Instance: "i-1", Recovered: &count})
		want("sick", sick, count)
		want("well again", commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventReady, Instance: "i-1"}), count)
		sick = commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventSick, Instance: "i-1", Recovered: &sandbox.Recoveries{}})
		want("forgiven", sick, sandbox.Recoveries{})
		end := commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventEnd, Instance: "i-1", Finalizers: []string{"terminate", "instance", "pre\"views"}})
		want("ending", end, sandbox.Recoveries{}, "terminate", "instance", "pre\"views")
		end = commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventFinal, Instance: "i-1", Final: "instance"})
		want("one done", end, sandbox.Recoveries{}, "terminate", "pre\"views")
		again := lease(t, db, handedOver(t, db, g), "another") // who goes on where the first stopped
		want("taken over", again.Sandbox, sandbox.Recoveries{}, "terminate", "pre\"views")
		commit(t, db, again.Lease, sandbox.Change{Event: sandbox.EventFinal, Instance: "i-1", Final: "terminate"})
		end = commit(t, db, again.Lease, sandbox.Change{Event: sandbox.EventFinal, Instance: "i-1", Final: "pre\"views"})
		want("all done", end, sandbox.Recoveries{})
		want("ended", commit(t, db, again.Lease, sandbox.Change{Event: sandbox.EventEnded}), sandbox.Recoveries{})
	})
}

// handedOver ends a holder's lease.
func handedOver(t testing.TB, db *store.DB, g store.Grant) (id string) {
	t.Helper()
	noError(t, db.Leases().Release(t.Context(), g.Lease))
	return g.Lease.ID
}

func TestIllegalEventIsRefused(t *testing.T) {
	testkit.Proves(t, "O6")
	withDB(t, func(t *testing.T, db *store.DB) {
		sb := intend(t, db.In(acme), intent("c1"))
		g := lease(t, db, sb.ID, "holder")
		_, err := db.Commit(t.Context(), g.Lease, sandbox.Change{Event: sandbox.EventArchive}, store.Due{})
		wantCode(t, err, api.CodeIllegalTransition)
		after, err := db.Sandbox(t.Context(), sb.ID)
		noError(t, err)
		if diff := cmp.Diff(g.Sandbox, after); diff != "" {
			t.Errorf("a refused event changed the row:\n%s", diff)
		}
	})
}

func TestInstanceBelongsToOneSandbox(t *testing.T) {
	testkit.Proves(t, "O1")
	withDB(t, func(t *testing.T, db *store.DB) {
		claim := func(owner, driver string) error {
			in := intent(owner)
			in.Spec.Driver = driver
			g := lease(t, db, intend(t, db.In(acme), in).ID, "holder")
			commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventBegin})
			_, err := db.Commit(t.Context(), g.Lease, sandbox.Change{Event: sandbox.EventReady, Instance: "i-1"}, store.Due{})
			return err
		}
		noError(t, claim("a", "fake"))
		wantCode(t, claim("b", "fake"), api.CodeConflict)
		noError(t, claim("c", "local")) // another driver's names are its own
	})
}

func TestWishUnderAHolderStaysDue(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		later := store.Due{At: time.Now().Add(time.Hour), Want: sandbox.WantRunning}
		writes := map[string]func(store.Lease) error{
			"commit": func(l store.Lease) error {
				_, err := db.Commit(t.Context(), l, sandbox.Change{Event: sandbox.EventBegin}, later)
				return err
			},
			"set due": func(l store.Lease) error { return db.SetDue(t.Context(), l, later, time.Now()) },
		}
		for name, write := range writes {
			for _, wish := range []sandbox.Want{sandbox.WantRunning, sandbox.WantStopped} {
				sb := intend(t, s, intent(fmt.Sprint(name, wish)))
				g := lease(t, db, sb.ID, "holder")
				_, err := s.Want(t.Context(), sb.ID, wish, "changed my mind", "request")
				noError(t, err)
				noError(t, write(g.Lease))
				after, err := db.Sandbox(t.Context(), sb.ID)
				noError(t, err)
				if wish == sandbox.WantRunning {
					near(t, name+": planned due time", after.DueAt, later.At)
				} else {
					near(t, name+": due time of the wish", after.DueAt, time.Now())
				}
			}
		}
	})
}

func TestSetDueRecordsTheProbe(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		g := lease(t, db, intend(t, db.In(acme), intent("c1")).ID, "holder")
		probed := time.Now().Truncate(time.Microsecond).UTC()
		noError(t, db.SetDue(t.Context(), g.Lease, store.Due{Want: sandbox.WantRunning}, probed))
		noError(t, db.SetDue(t.Context(), g.Lease, store.Due{Want: sandbox.WantRunning}, time.Time{}))
		after, err := db.Sandbox(t.Context(), g.Sandbox.ID)
		noError(t, err)
		if !after.ProbedAt.Equal(probed) || !after.DueAt.IsZero() {
			t.Errorf("probed at %v, due at %v", after.ProbedAt, after.DueAt)
		}
	})
}
