package engine_test

import (
	"context"
	"fmt"
	"iter"
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
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// through is a server whose driver is the fake behind something else.
func (s *server) through(wrap func(driver.Driver) driver.Driver) *server {
	return s.twin(func(o *engine.Options) { o.Drivers = map[string]driver.Driver{"fake": wrap(s.fake)} })
}

// lagging is a driver whose list still shows what was destroyed.
type lagging struct {
	driver.Driver
	mu       sync.Mutex
	ghosts   []driver.Status
	destroys int
}

func (l *lagging) Destroy(ctx context.Context, id driver.ID) error {
	st, err := l.Inspect(ctx, id)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.destroys++
	if err == nil {
		l.ghosts = append(l.ghosts, st)
	}
	return l.Driver.Destroy(ctx, id)
}

func (l *lagging) List(ctx context.Context, sel driver.Selector) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		for st, err := range l.Driver.List(ctx, sel) {
			if !yield(st, err) {
				return
			}
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, st := range l.ghosts {
			if st.Key.Sandbox == sel.Sandbox && !yield(st, nil) {
				return
			}
		}
	}
}

func TestListThatLagsCostsOneDestroy(t *testing.T) {
	testkit.Proves(t, "O4")
	srv := onSQLite(t).open(t)
	blind, lost := srv.fake.On(fake.List).Fail(errAway), srv.fake.On(fake.Create).Fail(errAway).After()
	lag := new(lagging)
	far := srv.through(func(d driver.Driver) driver.Driver { lag.Driver = d; return lag })
	if _, _, err := far.Ensure(t.Context(), engine.Request{Owner: project("a")}); err == nil {
		t.Fatal("no error")
	}
	blind.Off()
	lost.Off()
	srv.one(t, far.ensure(t, project("a")))
	if lag.destroys != 1 {
		t.Errorf("%d destroys of one leftover", lag.destroys)
	}
}

// noStop is a driver that cannot stop an instance.
type noStop struct{ driver.Driver }

// At a driver that cannot stop, a stopped sandbox is one that was saved and ended, and comes back.
func TestDriverThatCannotStop(t *testing.T) {
	testkit.Proves(t, "O4")
	srv := onSQLite(t).open(t)
	far := srv.through(func(d driver.Driver) driver.Driver { return noStop{d} })
	sb := far.ensure(t, project("a"))
	if _, err := srv.db.In("default").Want(t.Context(), sb.ID, sandbox.WantStopped, "test", "test"); err != nil {
		t.Fatal(err)
	}
	far.reconcile(t, func() error {
		if got := srv.row(t, project("a")); got.State != sandbox.Archived {
			return fmt.Errorf("still %s", got.State)
		}
		return nil
	})
	back := far.ensure(t, project("a"))
	if back.Incarnation != 2 {
		t.Errorf("came back as incarnation %d", back.Incarnation)
	}
	srv.one(t, back)
}

func TestDeleteEndsAnInstanceInAnyPhase(t *testing.T) {
	testkit.Proves(t, "O6")
	for _, phase := range []driver.Phase{driver.PhaseStarting, driver.PhaseUnknown, driver.PhaseFrozen, driver.PhaseStopped, driver.PhaseFailed} {
		srv := onSQLite(t).open(t)
		sb := srv.ensure(t, project("a"))
		if err := srv.fake.Become(driver.ID(sb.Instance), phase, "image pull back-off"); err != nil {
			t.Fatal(err)
		}
		gone, err := srv.Delete(t.Context(), "default", sb.ID, "test", false)
		if live := srv.live(t); err != nil || gone.State != sandbox.Terminated || len(live) > 0 {
			t.Errorf("%s: %s, %v, left %v", phase, gone.State, err, live)
		}
	}
}

func TestVanishedInstanceIsReplacedUnderTheSameSandbox(t *testing.T) {
	testkit.Proves(t, "O4")
	onBoth(t, func(t *testing.T, at place) {
		srv := at.open(t, func(o *engine.Options) {
			o.Policy = func(sandbox.Sandbox) sandbox.Policy { return sandbox.Policy{ProbeEvery: time.Millisecond} }
		})
		sb := srv.ensure(t, project("a"))
		if err := srv.fake.Vanish(driver.ID(sb.Instance)); err != nil {
			t.Fatal(err)
		}
		srv.reconcile(t, func() error {
			if got := srv.row(t, project("a")); got.State != sandbox.Running || got.Incarnation != 2 {
				return fmt.Errorf("%s, incarnation %d", got.State, got.Incarnation)
			}
			return nil
		})
		got := srv.row(t, project("a"))
		if got.ID != sb.ID || got.DestroyedAt.IsZero() {
			t.Errorf("the loss was not recorded: %+v", got)
		}
		srv.one(t, got)
	})
}

func TestWorkThatRunsOutOfTimeIsAFailure(t *testing.T) {
	testkit.Proves(t, "O6")
	srv := onSQLite(t).open(t, func(o *engine.Options) { o.WorkTimeout = 3 * time.Second })
	srv.fake.On(fake.Create).Slow(time.Hour)
	if _, _, err := srv.Ensure(t.Context(), engine.Request{Owner: project("a")}); err == nil {
		t.Fatal("no error")
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		if sb := srv.row(t, project("a")); sb.State != sandbox.Failed || sb.Failure == nil {
			return fmt.Errorf("%s, failure %v", sb.State, sb.Failure)
		}
		return nil
	})
}

func TestRemovedDriverIsSaid(t *testing.T) {
	srv := onSQLite(t).open(t)
	sb := srv.ensure(t, project("a"))
	without := srv.twin(func(o *engine.Options) { o.Drivers = nil })
	if _, _, err := without.Ensure(t.Context(), engine.Request{Owner: project("a")}); fault.CodeOf(err) != api.CodeUnknownDriver {
		t.Errorf("ensure: %v", err)
	}
	got, err := without.Delete(t.Context(), "default", sb.ID, "test", false)
	if err != nil || got.State != sandbox.Running || !got.Deleted() {
		t.Errorf("delete: %s, %v", got.State, err)
	}
	if due := time.Until(srv.rows(t)[0].DueAt); due < 30*time.Second {
		t.Errorf("looked at again in %s, though nothing can be done", due)
	}
}

func TestDeletedMeanwhileIsNotWhatWasAskedFor(t *testing.T) {
	testkit.Proves(t, "O1")
	srv := onSQLite(t).open(t)
	begun, release := make(chan struct{}), make(chan struct{})
	srv.fake.On(fake.Create).Do(func() { close(begun); <-release }).Times(1)
	first := srv.inBackground(project("a"))
	<-begun
	old := srv.row(t, project("a"))
	if _, err := srv.db.In("default").Delete(t.Context(), old.ID, false, "test", "test"); err != nil {
		t.Fatal(err)
	}
	second := srv.inBackground(project("a"))
	close(release)
	for _, done := range []<-chan error{first, second} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	got := srv.row(t, project("a"))
	if got.ID == old.ID || got.State != sandbox.Running {
		t.Errorf("%+v", got)
	}
	srv.one(t, got)
}

// slowIntend holds back the first wish.
type slowIntend struct {
	engine.Store
	in, out chan struct{}
	held    atomic.Bool
}

func (l *slowIntend) RequestSandbox(ctx context.Context, tenant string, in store.SandboxRequest) (sandbox.Sandbox, bool, error) {
	if l.held.CompareAndSwap(false, true) {
		close(l.in)
		<-l.out
	}
	return l.Store.RequestSandbox(ctx, tenant, in)
}

func TestRefusalOfOneRequestIsNotAnothers(t *testing.T) {
	testkit.Proves(t, "O3")
	srv := onSQLite(t).open(t)
	sb := srv.ensure(t, project("a"))
	if _, err := srv.db.In("default").Want(t.Context(), sb.ID, sandbox.WantStopped, "test", "test"); err != nil {
		t.Fatal(err)
	}
	held := &slowIntend{Store: srv.Options().Store, in: make(chan struct{}), out: make(chan struct{})}
	far := srv.twin(func(o *engine.Options) { o.Store = held })
	refused := make(chan error, 1)
	go func() {
		_, _, err := far.Ensure(context.Background(), engine.Request{Owner: project("a"), Spec: sandbox.Spec{Profile: "full"}})
		refused <- err
	}()
	<-held.in
	far.ensure(t, project("a"))
	close(held.out)
	if err := <-refused; fault.CodeOf(err) != api.CodeSpecMismatch {
		t.Errorf("got %v", err)
	}
}

func TestHungCallStopsNothingElse(t *testing.T) {
	srv := onSQLite(t).open(t)
	b := srv.ensure(t, project("b"))
	hung := make(chan struct{})
	srv.fake.On(fake.Create).Do(func() { close(hung) }).Slow(time.Hour).Times(1)
	srv.wish(t, "a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go srv.Run(ctx, 10*time.Millisecond)
	<-hung
	if _, err := srv.db.In("default").Want(ctx, b.ID, sandbox.WantStopped, "test", "test"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		if got := srv.row(t, project("b")); got.State != sandbox.Stopped {
			return fmt.Errorf("still %s", got.State)
		}
		return nil
	})
}

// wish records that the owner wants a sandbox, as a request does that dies right after.
func (s *server) wish(t *testing.T, owner string) {
	t.Helper()
	in := store.SandboxRequest{Kind: sandbox.OwnerProject, Owner: owner, Spec: s.Options().Defaults, Want: sandbox.WantRunning}
	if _, _, err := s.db.In("default").RequestSandbox(context.Background(), in); err != nil {
		t.Error(err)
	}
}

func TestReconcileBeginsNothingAfterItsContextEnded(t *testing.T) {
	testkit.Proves(t, "X4")
	srv := onSQLite(t).open(t, func(o *engine.Options) { o.Workers = 1 })
	for i := range 5 {
		srv.wish(t, fmt.Sprint("owner-", i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	srv.fake.On(fake.Create).Do(cancel)
	if _, err := srv.Reconcile(ctx); err == nil {
		t.Error("no error")
	}
	if n := srv.creates(t); n != 1 {
		t.Errorf("%d creates", n)
	}
}

// A use that comes while a failure is being written is not forgotten with it.
func TestUseDuringAFailureStaysDue(t *testing.T) {
	srv := onSQLite(t).open(t)
	refuse := srv.fake.On(fake.Create).Fail(driver.ErrUnauthenticated)
	var once sync.Once
	failing := srv.twin(func(o *engine.Options) {
		o.At = func(point string, s sandbox.Sandbox) {
			if point == "after-fail" {
				once.Do(func() { refuse.Off(); srv.wish(t, s.Owner.ID) })
			}
		}
	})
	if _, _, err := failing.Ensure(t.Context(), engine.Request{Owner: project("a")}); err == nil {
		t.Fatal("no error")
	}
	srv.reconcile(t, func() error {
		if got := srv.row(t, project("a")); got.State != sandbox.Running {
			return fmt.Errorf("still %s, due %s", got.State, got.DueAt)
		}
		return nil
	})
}

// A delete that the driver refuses says why, in the record and in the list of ending sandboxes, and is
// tried again ever more rarely.
func TestRefusedDeleteIsNotInvisible(t *testing.T) {
	testkit.Proves(t, "O6")
	onBoth(t, func(t *testing.T, at place) {
		srv := at.open(t)
		sb := srv.ensure(t, project("a"))
		refuse := srv.fake.On(fake.Destroy).Fail(driver.ErrUnauthenticated)
		got, err := srv.Delete(t.Context(), "default", sb.ID, "test", false)
		if err != nil || got.State != sandbox.Terminating || got.Failure == nil || got.Failure.Code != api.CodeDriverRefused {
			t.Fatalf("%s, %+v, %v", got.State, got.Failure, err)
		}
		ending, _, err := srv.db.In("default").Sandboxes(t.Context(), store.Filter{State: sandbox.Terminating}, store.Page{})
		if err != nil || len(ending) != 1 {
			t.Errorf("%d are listed as ending, %v", len(ending), err)
		}
		srv.reconcile(t, func() error {
			if got := srv.rows(t)[0]; got.Failure.Attempts < 3 {
				return fmt.Errorf("tried %d times", got.Failure.Attempts)
			}
			return nil
		})
		refuse.Off()
		srv.reconcile(t, func() error {
			if got := srv.rows(t)[0]; got.State != sandbox.Terminated || got.Failure != nil {
				return fmt.Errorf("%s, %v", got.State, got.Failure)
			}
			return nil
		})
	})
}

func TestEnvironmentGoesWithTheSandbox(t *testing.T) {
	testkit.Proves(t, "E5")
	onBoth(t, func(t *testing.T, at place) {
		srv := at.open(t)
		sb, _, err := srv.Ensure(t.Context(), engine.Request{Owner: project("a"), Spec: sandbox.Spec{Env: map[string]string{"TOKEN": "secret"}}})
		if err != nil || sb.Spec.Env["TOKEN"] != "secret" {
			t.Fatal(sb.Spec.Env, err)
		}
		gone, err := srv.Delete(t.Context(), "default", sb.ID, "test", false)
		if err != nil || len(gone.Spec.Env) > 0 {
			t.Errorf("a tombstone keeps %v, %v", gone.Spec.Env, err)
		}
	})
}
