package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
)

var errAway = &driver.TransientError{Err: errors.New("provider is away")}

func TestEnsureCreatesThenReuses(t *testing.T) {
	testkit.Proves(t, "O1")
	onBoth(t, func(t *testing.T, at place) {
		srv := at.open(t)
		first, created, err := srv.Ensure(t.Context(), engine.Request{Owner: project("a"), Actor: "test"})
		if err != nil || !created || first.State != sandbox.Running || first.Incarnation != 1 {
			t.Fatalf("%+v, created %v, %v", first, created, err)
		}
		again, created, err := srv.Ensure(t.Context(), engine.Request{Owner: project("a"), Actor: "test"})
		if err != nil || created || again.ID != first.ID || srv.creates(t) != 1 {
			t.Fatalf("%+v, created %v, %v", again, created, err)
		}
		srv.one(t, again)
	})
}

func TestOneFlightPerOwner(t *testing.T) {
	testkit.Proves(t, "O3")
	const callers = 32
	onBoth(t, func(t *testing.T, at place) {
		var made, flights atomic.Int64
		srv := at.open(t, func(o *engine.Options) {
			o.At = func(point string, _ sandbox.Sandbox) {
				if point == "shared-run" {
					flights.Add(1)
				}
			}
		})
		srv.fake.On(fake.Create).Slow(100 * time.Millisecond)
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				_, created, err := srv.Ensure(t.Context(), engine.Request{Owner: project("a"), Actor: "test"})
				if err != nil {
					t.Error(err)
				}
				if created {
					made.Add(1)
				}
			})
		}
		wg.Wait()
		if made.Load() != 1 || srv.creates(t) != 1 {
			t.Errorf("%d callers got that they created it, the driver saw %d creates", made.Load(), srv.creates(t))
		}
		// A caller that comes when the first flight has just ended may begin a second, empty one.
		if n := flights.Load(); n > callers/4 {
			t.Errorf("%d flights for %d callers", n, callers)
		}
	})
}

func TestLostReplyCostsNoSecondCreate(t *testing.T) {
	testkit.Proves(t, "O1")
	srv := onSQLite(t).open(t)
	srv.fake.On(fake.Create).Fail(errAway).After().Times(1)
	srv.one(t, srv.ensure(t, project("a")))
	calls, err := srv.fake.Log()
	if err != nil {
		t.Fatal(err)
	}
	if n := fake.Effects(calls, fake.Create); n != 1 {
		t.Errorf("%d instances were made", n)
	}
}

func TestOtherSpecIsRefused(t *testing.T) {
	srv := onSQLite(t).open(t)
	id := "01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10"
	owner := sandbox.Owner{Tenant: "default", Kind: sandbox.OwnerSandbox, ID: "box"}
	made := engine.Request{Owner: owner, ID: id, Name: "box", Spec: sandbox.Spec{Profile: "lite", Env: map[string]string{"A": "1"}}}
	if _, created, err := srv.Ensure(t.Context(), made); err != nil || !created {
		t.Fatal(created, err)
	}
	byID := sandbox.Owner{Tenant: "default", Kind: sandbox.OwnerSandbox, ID: id}
	for name, c := range map[string]struct {
		r    engine.Request
		want api.Code
	}{
		"nothing given":    {engine.Request{Owner: owner}, ""},
		"same again":       {made, ""},
		"by id alone":      {engine.Request{Owner: byID, ID: id}, ""},
		"new id if new":    {engine.Request{Owner: owner, NewID: "01970e4b-7f5c-7d31-9d0a-000000000000"}, ""},
		"other profile":    {engine.Request{Owner: owner, Spec: sandbox.Spec{Profile: "full"}}, api.CodeSpecMismatch},
		"other env":        {engine.Request{Owner: owner, Spec: sandbox.Spec{Env: map[string]string{"A": "2"}}}, api.CodeSpecMismatch},
		"other metadata":   {engine.Request{Owner: owner, Spec: sandbox.Spec{Metadata: map[string]string{"x": "y"}}}, api.CodeSpecMismatch},
		"unknown template": {engine.Request{Owner: owner, Spec: sandbox.Spec{Template: "nope"}}, api.CodeUnknownTemplate},
		"unknown driver":   {engine.Request{Owner: owner, Spec: sandbox.Spec{Driver: "nope"}}, api.CodeUnknownDriver},
		"unknown profile":  {engine.Request{Owner: owner, Spec: sandbox.Spec{Profile: "nope"}}, api.CodeUnknownProfile},
		"bad owner":        {engine.Request{Owner: project("")}, api.CodeInvalidID},
	} {
		_, created, err := srv.Ensure(t.Context(), c.r)
		if created || (err == nil) != (c.want == "") || err != nil && fault.CodeOf(err) != c.want {
			t.Errorf("%s: created %v, %v", name, created, err)
		}
	}
}

func TestFailedCreateLeavesNothingAndIsTriedOnNextUse(t *testing.T) {
	testkit.Proves(t, "O6")
	onBoth(t, func(t *testing.T, at place) {
		srv := at.open(t)
		refuse := srv.fake.On(fake.Create).Fail(driver.ErrQuota).After()
		_, _, err := srv.Ensure(t.Context(), engine.Request{Owner: project("a"), Actor: "test"})
		if fault.CodeOf(err) != api.CodeCreateFailed {
			t.Fatalf("got %v", err)
		}
		if live := srv.live(t); len(live) > 0 {
			t.Errorf("left behind: %v", live)
		}
		if sb := srv.row(t, project("a")); sb.State != sandbox.Failed || sb.Failure == nil || sb.Failure.Attempts != 1 {
			t.Fatalf("%+v", sb)
		}
		refuse.Off()
		srv.one(t, srv.ensure(t, project("a")))
	})
}

func TestReconcileRetriesAFailureOnlySoOften(t *testing.T) {
	testkit.Proves(t, "O6")
	srv := onSQLite(t).open(t)
	srv.fake.On(fake.Create).Fail(driver.ErrQuota)
	if _, _, err := srv.Ensure(t.Context(), engine.Request{Owner: project("a"), Actor: "test"}); err == nil {
		t.Fatal("no error")
	}
	srv.reconcile(t, func() error {
		if sb := srv.row(t, project("a")); sb.Failure.Attempts != 3 || !sb.DueAt.IsZero() {
			return fmt.Errorf("%+v, due %s", sb.Failure, sb.DueAt)
		}
		return nil
	})
	if n := srv.creates(t); n != 3 {
		t.Errorf("%d creates", n)
	}
}

func TestUnreachableDriverChangesNothing(t *testing.T) {
	testkit.Proves(t, "O4")
	srv := onSQLite(t).open(t)
	sb := srv.ensure(t, project("a"))
	away := srv.fake.On(fake.Any).Fail(errAway)
	if _, err := srv.db.In("default").Want(t.Context(), sb.ID, sandbox.WantStopped, "test", "test"); err != nil {
		t.Fatal(err)
	}
	if r, err := srv.Reconcile(t.Context()); err != nil || r.Failed != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	away.Off()
	srv.one(t, sb)
	srv.reconcile(t, func() error {
		if got := srv.row(t, project("a")); got.State != sandbox.Stopped || got.Instance != sb.Instance {
			return fmt.Errorf("%s with %s", got.State, got.Instance)
		}
		return nil
	})
	back := srv.ensure(t, project("a"))
	if back.Instance != sb.Instance || back.State != sandbox.Running {
		t.Errorf("a stopped sandbox came back as %+v", back)
	}
}

func TestDeleteIsFinal(t *testing.T) {
	testkit.Proves(t, "O1")
	onBoth(t, func(t *testing.T, at place) {
		srv := at.open(t)
		sb := srv.ensure(t, project("a"))
		gone, err := srv.Delete(t.Context(), "default", sb.ID, "test", false)
		if err != nil || gone.State != sandbox.Terminated || len(srv.live(t)) != 0 {
			t.Fatalf("%+v, %v, left %v", gone, err, srv.live(t))
		}
		if _, _, err := srv.Ensure(t.Context(), engine.Request{Owner: sb.Owner, ID: sb.ID}); !errors.Is(err, fault.ErrDeleted) {
			t.Errorf("a deleted id came back: %v", err)
		}
		next := srv.ensure(t, sb.Owner)
		if next.ID == sb.ID {
			t.Error("the tombstone was revived")
		}
		if again, err := srv.Delete(t.Context(), "default", sb.ID, "test", false); err != nil || again.State != sandbox.Terminated {
			t.Errorf("a second delete: %+v, %v", again, err)
		}
		if _, err := srv.Delete(t.Context(), "other", next.ID, "test", false); !errors.Is(err, fault.ErrNotFound) {
			t.Errorf("another tenant's delete: %v", err)
		}
	})
}

func TestDeleteGoesOnWhenTheCallerLeaves(t *testing.T) {
	srv := onSQLite(t).open(t)
	sb := srv.ensure(t, project("a"))
	away := srv.fake.On(fake.Any).Fail(errAway)
	got, err := srv.Delete(t.Context(), "default", sb.ID, "test", false)
	if err != nil || got.State == sandbox.Terminated {
		t.Fatalf("%+v, %v", got, err)
	}
	away.Off()
	srv.reconcile(t, func() error {
		if live := srv.live(t); len(live) > 0 {
			return fmt.Errorf("left: %v", live)
		}
		return nil
	})
}

func TestCallerMayLeaveTheWorkGoesOn(t *testing.T) {
	srv := onSQLite(t).open(t)
	started := make(chan struct{})
	srv.fake.On(fake.Create).Do(func() { close(started) }).Slow(100 * time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	_, _, err := srv.Ensure(ctx, engine.Request{Owner: project("a"), Actor: "test"})
	if fault.CodeOf(err) != api.CodeTimeout {
		t.Fatalf("got %v", err)
	}
	srv.one(t, srv.ensure(t, project("a")))
	if n := srv.creates(t); n != 1 {
		t.Errorf("%d creates", n)
	}
}

func TestQuiesceWaitsForWorkThatOutlivedItsCaller(t *testing.T) {
	testkit.Proves(t, "X4")
	srv := onSQLite(t).open(t)
	started := make(chan struct{})
	srv.fake.On(fake.Create).Do(func() { close(started) }).Slow(100 * time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if _, _, err := srv.Ensure(ctx, engine.Request{Owner: project("a"), Actor: "test"}); err == nil {
		t.Fatal("the caller did not leave")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	srv.Quiesce(ended) // returns although work is left
	srv.Quiesce(t.Context())
	if sb := srv.row(t, project("a")); sb.State != sandbox.Running {
		t.Errorf("still %s", sb.State)
	}
}

func TestCheckNamesTheDriverThatDoesNotAnswer(t *testing.T) {
	srv := onSQLite(t).open(t)
	if c := srv.Check(t.Context()); len(c) != 1 || c[0].Status != "ok" {
		t.Errorf("%+v", c)
	}
	srv.fake.On(fake.Any).Fail(fake.ErrUnreachable)
	if c := srv.Check(t.Context()); len(c) != 1 || c[0].Status != "failed" || c[0].Fix == "" {
		t.Errorf("%+v", c)
	}
}

func TestRunLooksEveryInterval(t *testing.T) {
	srv := onSQLite(t).open(t)
	sb := srv.ensure(t, project("a"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); srv.Run(ctx, time.Millisecond) }()
	if _, err := srv.db.In("default").Want(ctx, sb.ID, sandbox.WantStopped, "test", "test"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		if got := srv.row(t, project("a")); got.State != sandbox.Stopped {
			return fmt.Errorf("still %s", got.State)
		}
		return nil
	})
	cancel()
	<-ended
}

// A timer's wish goes through the same work; a use in between makes it void.
func TestTimerStopsAndArchivesWhatNobodyUses(t *testing.T) {
	var timers atomic.Pointer[sandbox.Timers]
	timers.Store(new(sandbox.Timers))
	srv := onSQLite(t).open(t, func(o *engine.Options) {
		o.Restorer = restorer{}
		o.Policy = func(sandbox.Sandbox) sandbox.Policy { return sandbox.Policy{Timers: *timers.Load()} }
	})
	sb := srv.ensure(t, project("a"))
	timers.Store(&sandbox.Timers{Stop: time.Millisecond, Archive: 2 * time.Millisecond, Delete: time.Hour})
	if _, err := srv.db.In("default").Want(t.Context(), sb.ID, sandbox.WantRunning, "test", "test"); err != nil {
		t.Fatal(err) // makes it due
	}
	srv.reconcile(t, func() error {
		if got := srv.row(t, project("a")); got.State != sandbox.Archived {
			return fmt.Errorf("still %s", got.State)
		}
		return nil
	})
	if live := srv.live(t); len(live) > 0 {
		t.Errorf("archived, and the driver still has %v", live)
	}
	timers.Store(new(sandbox.Timers))
	got := srv.ensure(t, project("a"))
	if got.Incarnation != 2 {
		t.Errorf("came back as incarnation %d", got.Incarnation)
	}
}

func TestBrokenInstanceIsKeptForAPerson(t *testing.T) {
	testkit.Proves(t, "O4")
	srv := onSQLite(t).open(t, func(o *engine.Options) {
		o.Policy = func(sandbox.Sandbox) sandbox.Policy { return sandbox.Policy{ProbeEvery: time.Millisecond} }
	})
	sb := srv.ensure(t, project("a"))
	if err := srv.fake.Become(driver.ID(sb.Instance), driver.PhaseFailed, "disk is gone"); err != nil {
		t.Fatal(err)
	}
	srv.reconcile(t, func() error {
		if got := srv.row(t, project("a")); got.State != sandbox.Failed {
			return fmt.Errorf("still %s", got.State)
		}
		return nil
	})
	srv.one(t, srv.row(t, project("a")))
}

type restorer struct{ err error }

func (r restorer) Restore(context.Context, sandbox.Sandbox, driver.ID) (sandbox.SyncMark, error) {
	return sandbox.SyncMark{Version: "v1"}, r.err
}
func (r restorer) Save(context.Context, sandbox.Sandbox) (sandbox.SyncMark, error) {
	return sandbox.SyncMark{Version: "v2"}, r.err
}

func TestFailedRestoreCleansUpWhatItMade(t *testing.T) {
	boom := errors.New("bucket is on fire")
	srv := onSQLite(t).open(t, func(o *engine.Options) { o.Restorer = restorer{boom} })
	_, _, err := srv.Ensure(t.Context(), engine.Request{Owner: project("a"), Actor: "test"})
	if !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	if live := srv.live(t); len(live) > 0 {
		t.Errorf("left %v", live)
	}
}

func TestRestoredVersionIsRecorded(t *testing.T) {
	srv := onSQLite(t).open(t, func(o *engine.Options) { o.Restorer = restorer{} })
	if sb := srv.ensure(t, project("a")); sb.Synced.Version != "v1" {
		t.Errorf("synced %+v", sb.Synced)
	}
}

func TestDriversWordsDoNotCarryTheEnvironmentAway(t *testing.T) {
	testkit.Proves(t, "E5")
	const canary = "canary-8d1f-of-the-environment"
	srv := onSQLite(t).open(t)
	srv.fake.On(fake.Create).Fail(fmt.Errorf("bad value %s: %w", canary, driver.ErrInvalid))
	_, _, err := srv.Ensure(t.Context(), engine.Request{Owner: project("a"), Spec: sandbox.Spec{Env: map[string]string{"TOKEN": canary}}})
	if err == nil || strings.Contains(err.Error(), canary) || !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	sb := srv.row(t, project("a"))
	history, _, err := srv.db.In("default").History(t.Context(), sb.ID, 10, 0)
	if err != nil {
		t.Fatal(err)
	}
	if kept := fmt.Sprint(sb.Failure, history); strings.Contains(kept, canary) || !strings.Contains(kept, "bad value") {
		t.Errorf("kept %s", kept)
	}
}
