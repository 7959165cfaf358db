package engine_test

import (
	"context"
	"errors"
	"sync"
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

// twin is another server on the same database and driver.
func (s *server) twin(change ...func(*engine.Options)) *server {
	o := s.Options()
	o.Holder = store.NewID()
	for _, c := range change {
		c(&o)
	}
	return &server{engine.New(o), s.db, s.fake}
}

// sleeper is a twin that dozes off, once, when its work comes to the point.
func (s *server) sleeper(point string) (twin *server, asleep chan struct{}, wake func()) {
	asleep, awake := make(chan struct{}), make(chan struct{})
	var once sync.Once
	twin = s.twin(func(o *engine.Options) {
		o.At = func(at string, _ sandbox.Sandbox) {
			if at == point {
				once.Do(func() { close(asleep); <-awake })
			}
		}
	})
	return twin, asleep, sync.OnceFunc(func() { close(awake) })
}

// inBackground ensures the owner's sandbox and says how it went.
func (s *server) inBackground(o sandbox.Owner) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, _, err := s.Ensure(context.Background(), engine.Request{Owner: o, Actor: "test"})
		done <- err
	}()
	return done
}

func shortLease(t *testing.T) place {
	at := onSQLite(t)
	at.LeaseTTL = time.Second
	return at
}

// A holder sleeps through the end of its lease over a sandbox that a failed create left. When it wakes,
// the instance it finds is its successor's, and stays.
func TestHolderThatSleptEndsNothingOfItsSuccessor(t *testing.T) {
	testkit.Proves(t, "O2")
	srv := shortLease(t).open(t)
	away := srv.fake.On(fake.Any).Fail(errAway)
	if _, _, err := srv.Ensure(t.Context(), engine.Request{Owner: project("a")}); err == nil {
		t.Fatal("no error")
	}
	away.Off()
	sleeper, asleep, wake := srv.sleeper("after-lease")
	defer wake()
	slept := sleeper.inBackground(project("a"))
	<-asleep
	won := srv.ensure(t, project("a"))
	wake()
	if err := <-slept; err != nil {
		t.Error(err)
	}
	srv.one(t, won)
}

// deaf is a driver that finishes a create whose caller is gone.
type deaf struct{ *fake.Driver }

func (d deaf) Create(ctx context.Context, spec driver.Spec) (driver.Status, error) {
	return d.Driver.Create(context.WithoutCancel(ctx), spec)
}

// A holder that is cut off sleeps inside its create; the sandbox is deleted and there is no instance to find. Only
// the holder itself can end the instance that it makes when it wakes.
func TestHolderThatSleptEndsWhatItMade(t *testing.T) {
	testkit.Proves(t, "O2")
	srv := shortLease(t).open(t)
	asleep, awake := make(chan struct{}), make(chan struct{})
	wake := sync.OnceFunc(func() { close(awake) })
	defer wake()
	srv.fake.On(fake.Create).Do(func() { close(asleep); <-awake }).Times(1)
	slept := srv.twin(func(o *engine.Options) {
		o.Store = noRenewal{o.Store}
		o.Drivers = map[string]driver.Driver{"fake": deaf{srv.fake}}
	}).inBackground(project("a"))
	<-asleep
	sb := srv.row(t, project("a"))
	gone, err := srv.Delete(t.Context(), "default", sb.ID, "test", false)
	if err != nil || gone.State != sandbox.Terminated {
		t.Fatalf("%s, %v", gone.State, err)
	}
	wake()
	if err := <-slept; err != nil {
		t.Error(err)
	}
	calls, err := srv.fake.Log()
	if err != nil {
		t.Fatal(err)
	}
	if n := fake.Effects(calls, fake.Create); n != 2 {
		t.Fatalf("%d instances were made; the sleeper's should be one of 2", n)
	}
	if ids := srv.live(t)[sb.ID]; len(ids) > 0 {
		t.Errorf("the deleted sandbox still has %v", ids)
	}
	srv.one(t, srv.row(t, project("a"))) // its owner asked, and got a new one
}

// lostReply is a store whose answer to the commit of an instance never comes, and which cannot renew
// until it is healed.
type lostReply struct {
	engine.Store
	committed, healed chan struct{}
	once              sync.Once
}

func (l *lostReply) Commit(ctx context.Context, lease store.Lease, c sandbox.Change, due store.Due) (sandbox.Sandbox, error) {
	s, err := l.Store.Commit(ctx, lease, c, due)
	if err == nil && c.Event == sandbox.EventReady {
		l.once.Do(func() { close(l.committed) })
		<-ctx.Done()
		return sandbox.Sandbox{}, ctx.Err()
	}
	return s, err
}

func (l *lostReply) Renew(ctx context.Context, lease store.Lease) error {
	select {
	case <-l.healed:
		return l.Store.Renew(ctx, lease)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A holder's commit goes through, but its answer is lost and so is its lease. The instance is recorded:
// it is not the holder's to end any more.
func TestRecordedInstanceSurvivesALostReply(t *testing.T) {
	testkit.Proves(t, "O2")
	srv := shortLease(t).open(t)
	l := &lostReply{Store: srv.Options().Store, committed: make(chan struct{}), healed: make(chan struct{})}
	cut := srv.twin(func(o *engine.Options) { o.Store = l })
	done := cut.inBackground(project("a"))
	<-l.committed
	sb := srv.row(t, project("a"))
	testkit.Eventually(t, 30*time.Second, func() error { return srv.leaseIsFree(t, sb.ID) })
	close(l.healed)
	if err := <-done; err != nil {
		t.Error(err)
	}
	srv.one(t, srv.row(t, project("a")))
}

type noRenewal struct{ engine.Store }

func (noRenewal) Renew(context.Context, store.Lease) error {
	return fault.Errorf("renew lease", api.CodeStoreUnavailable, "cut off")
}

// A holder that cannot renew stops acting when its lease has run out, in the middle of a driver call.
func TestHolderStopsActingWhenItsLeaseRunsOut(t *testing.T) {
	testkit.Proves(t, "O2")
	srv := shortLease(t).open(t)
	begun := make(chan struct{})
	srv.fake.On(fake.Create).Do(func() { close(begun) }).Slow(time.Hour).Times(1)
	done := srv.twin(func(o *engine.Options) { o.Store = noRenewal{o.Store} }).inBackground(project("a"))
	<-begun
	won := srv.ensure(t, project("a"))
	if err := <-done; err != nil {
		t.Error(err)
	}
	srv.one(t, won)
}

// skewed is a store whose database is ahead of this process's clock.
type skewed struct {
	engine.Store
	ahead time.Duration
}

func (k skewed) fix(s sandbox.Sandbox) sandbox.Sandbox {
	s.ActiveAt = s.ActiveAt.Add(k.ahead)
	return s
}

func (k skewed) RequestSandbox(ctx context.Context, tenant string, in store.SandboxRequest) (sandbox.Sandbox, bool, error) {
	s, created, err := k.Store.RequestSandbox(ctx, tenant, in)
	return k.fix(s), created, err
}

func (k skewed) Sandbox(ctx context.Context, id string) (sandbox.Sandbox, error) {
	s, err := k.Store.Sandbox(ctx, id)
	return k.fix(s), err
}

func (k skewed) Lease(ctx context.Context, kind, id, holder string) (store.Grant, error) {
	g, err := k.Store.Lease(ctx, kind, id, holder)
	g.Lease.Until, g.Sandbox = g.Lease.Until.Add(k.ahead), k.fix(g.Sandbox)
	return g, err
}

func (k skewed) Commit(ctx context.Context, l store.Lease, c sandbox.Change, due store.Due) (sandbox.Sandbox, error) {
	s, err := k.Store.Commit(ctx, l, c, due)
	return k.fix(s), err
}

// Whatever this machine's clock says, one use of a sandbox that cannot start is one failure.
func TestFailuresAreCountedByTheDatabasesClock(t *testing.T) {
	testkit.Proves(t, "O6")
	for _, ahead := range []time.Duration{-time.Hour, time.Hour} {
		srv := onSQLite(t).open(t)
		srv.fake.On(fake.Create).Fail(driver.ErrQuota)
		far := srv.twin(func(o *engine.Options) { o.Store = skewed{o.Store, ahead} })
		if _, _, err := far.Ensure(t.Context(), engine.Request{Owner: project("a")}); !errors.Is(err, driver.ErrQuota) {
			t.Errorf("got %v", err)
		}
		if n := srv.creates(t); n != 1 {
			t.Errorf("the database %s ahead: %d creates for one use", ahead, n)
		}
	}
}
