package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// diary is what was done at the end of sandboxes, in order. It is the hooks and two finalizers.
type diary struct {
	mu    sync.Mutex
	done  []string
	fail  map[string]error // by finalizer
	after func(what string)
}

func (d *diary) write(what string) error {
	d.mu.Lock()
	err := d.fail[what]
	if err == nil {
		d.done = append(d.done, what)
	}
	d.mu.Unlock()
	if d.after != nil {
		d.after(what)
	}
	return err
}

func (d *diary) read() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.done, " ")
}

func (d *diary) refuse(what string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = map[string]error{what: err}
}

func (d *diary) ColdStart(ctx context.Context, _ *engine.Handle, pull func(context.Context) error) error {
	return pull(ctx)
}
func (d *diary) Terminate(context.Context, *engine.Handle) error { return d.write("hook") }

func (d *diary) finalizer(name string) engine.Finalizer {
	return engine.Finalizer{Name: name, Do: func(context.Context, sandbox.Sandbox) error { return d.write(name) }}
}

func (d *diary) keep(o *engine.Options) {
	o.Hooks, o.Finalizers = d, []engine.Finalizer{d.finalizer("previews"), d.finalizer("holds")}
}

// inState are ways to have a sandbox in each state, with a real store: a holder that does nothing more,
// or a driver that refuses.
var inState = map[sandbox.State]func(t *testing.T, srv *server){
	sandbox.Pending: func(t *testing.T, srv *server) { srv.wish(t, "a") },
	sandbox.Creating: func(t *testing.T, srv *server) {
		srv.fake.On(fake.Create).Fail(errors.New("connection reset")).After().Times(1)
		list := srv.fake.On(fake.List).Fail(errAway)
		_, _, _ = srv.Ensure(t.Context(), engine.Request{Owner: project("a")})
		list.Off()
	},
	sandbox.Running: func(t *testing.T, srv *server) { srv.ensure(t, project("a")) },
	sandbox.Unhealthy: func(t *testing.T, srv *server) {
		srv.ensure(t, project("a"))
		srv.commit(t, sandbox.Change{Event: sandbox.EventSick, Failure: &sandbox.Failure{At: time.Now(), Want: sandbox.WantRunning, Attempts: 1}})
	},
	sandbox.Stopping: func(t *testing.T, srv *server) {
		sb := srv.ensure(t, project("a"))
		srv.fake.On(fake.Stop).Fail(errAway).Times(3)
		_, _ = srv.Handle("default", sb.ID, "test").Stop(t.Context())
	},
	sandbox.Stopped: func(t *testing.T, srv *server) {
		sb := srv.ensure(t, project("a"))
		_, _ = srv.Handle("default", sb.ID, "test").Stop(t.Context())
	},
	sandbox.Starting: func(t *testing.T, srv *server) {
		sb := srv.ensure(t, project("a"))
		_, _ = srv.Handle("default", sb.ID, "test").Stop(t.Context())
		srv.commit(t, sandbox.Change{Event: sandbox.EventStart})
	},
	sandbox.Archived: func(t *testing.T, srv *server) {
		sb := srv.ensure(t, project("a"))
		_, _ = srv.Handle("default", sb.ID, "test").Archive(t.Context())
	},
	sandbox.Terminating: func(t *testing.T, srv *server) {
		sb := srv.ensure(t, project("a"))
		srv.fake.On(fake.Destroy).Fail(errAway).Times(3)
		_, _ = srv.Handle("default", sb.ID, "test").Terminate(t.Context(), false)
	},
	sandbox.Terminated: func(t *testing.T, srv *server) {
		sb := srv.ensure(t, project("a"))
		_, _ = srv.Handle("default", sb.ID, "test").Terminate(t.Context(), false)
	},
	sandbox.Failed: func(t *testing.T, srv *server) {
		sb := srv.ensure(t, project("a"))
		if err := srv.fake.Become(driver.ID(sb.Instance), driver.PhaseFailed, "disk is gone"); err != nil {
			t.Fatal(err)
		}
		_, _ = srv.Handle("default", sb.ID, "test").Reconcile(t.Context())
	},
}

// commit writes a change as a holder that then dies.
func (s *server) commit(t *testing.T, c sandbox.Change) {
	t.Helper()
	sb := s.row(t, project("a"))
	grant, err := s.db.Leases().Lease(t.Context(), store.LeaseSandbox, sb.ID, "dead")
	if err == nil {
		c.Instance = sb.Instance
		_, err = s.db.Commit(t.Context(), grant.Lease, c, store.Due{At: time.Now().Add(time.Hour), Want: sb.Want})
	}
	if err == nil {
		err = s.db.Leases().Release(t.Context(), grant.Lease)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestDeleteFromEveryStateThereIs(t *testing.T) {
	testkit.Proves(t, "O1", "O6")
	for _, state := range sandbox.States {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, at place) {
				var d diary
				srv := at.open(t, d.keep, func(o *engine.Options) { o.Restorer = restorer{} })
				inState[state](t, srv)
				sb := srv.row(t, project("a"))
				if sb.State != state {
					t.Fatalf("it is %s, not %s", sb.State, state)
				}
				gone, err := srv.Delete(t.Context(), "default", sb.ID, "test", false)
				if err != nil || gone.State != sandbox.Terminated || !gone.Deleted() || len(gone.Finalizers) > 0 || gone.Failure != nil {
					t.Errorf("%+v, %v", gone, err)
				}
				if live := srv.live(t); len(live) > 0 {
					t.Errorf("left %v", live)
				}
				want := "hook previews holds"
				if sb.Instance == "" && state != sandbox.Terminated && state != sandbox.Archived {
					want = "previews holds" // nothing was ever there to tell that it ends
				}
				if got := d.read(); !strings.HasPrefix(want+" previews holds", got) || got == "" {
					t.Errorf("done: %q", got)
				}
				next := srv.ensure(t, project("a"))
				if next.ID == sb.ID {
					t.Error("revived")
				}
			})
		})
	}
}

// A finalizer that fails is tried again and is seen to; what was done before it is not done again, and
// what comes after it waits.
func TestFailingFinalizerIsRetriedAndVisible(t *testing.T) {
	testkit.Proves(t, "O1", "O6")
	synctest.Test(t, func(t *testing.T) {
		var d diary
		v := inMemory(d.keep)
		defer v.run(t)()
		s := v.ensure(t, sandbox.OwnerProject, "x")
		d.refuse("previews", errors.New("proxy is away"))
		if got, err := v.Delete(t.Context(), "default", s.ID, "test", false); err != nil || got.State != sandbox.Terminating {
			t.Errorf("%s, %v", got.State, err)
		}
		pass(time.Hour)
		got := v.row(t, s.ID)
		if got.State != sandbox.Terminating || got.Failure == nil || !strings.Contains(got.Failure.Message, "finalizer previews: proxy is away") || got.Failure.Attempts < 10 {
			t.Errorf("%s, %+v", got.State, got.Failure)
		}
		if left := strings.Join(got.Finalizers, " "); left != "previews holds archive" {
			t.Errorf("left to do: %q", left)
		}
		if d.read() != "hook" || len(v.boxes.all(driver.Selector{})) > 0 {
			t.Errorf("done: %q, and there is %v", d.read(), v.boxes.all(driver.Selector{}))
		}
		if ahead := v.Upcoming(got); len(ahead) != 1 || ahead[0].What != "work" {
			t.Errorf("%+v", ahead)
		}
		d.refuse("", nil)
		pass(2 * time.Minute)
		if got := v.row(t, s.ID); got.State != sandbox.Terminated || got.Failure != nil || d.read() != "hook previews holds" {
			t.Errorf("%s, %+v, done: %q", got.State, got.Failure, d.read())
		}
	})
}

// A hook that fails at the end is logged, and holds up nothing.
func TestFailingTerminateHookHoldsUpNothing(t *testing.T) {
	testkit.Proves(t, "H3")
	var (
		d diary
		j journal
	)
	d.refuse("hook", errors.New("no such webhook"))
	srv := onSQLite(t).open(t, d.keep, withJournal(&j))
	sb := srv.ensure(t, project("a"))
	if got, err := srv.Delete(t.Context(), "default", sb.ID, "test", false); err != nil || got.State != sandbox.Terminated || d.read() != "previews holds" {
		t.Errorf("%s, %v, done: %q", got.State, err, d.read())
	}
	if said := j.entries("terminate hook"); len(said) != 1 || said[0]["error"] != "no such webhook" {
		t.Errorf("%v", said)
	}
}

// A holder dies between a finalizer and its record: its successor does that one again, and no other.
func TestFinalizerIsRepeatedOnlyIfItsRecordWasLost(t *testing.T) {
	testkit.Proves(t, "O1", "O2")
	var d diary
	srv := shortLease(t).open(t, d.keep)
	sb := srv.ensure(t, project("a"))
	asleep, awake := make(chan struct{}), make(chan struct{})
	defer close(awake)
	var slept atomic.Bool
	d.after = func(what string) {
		if what == "previews" && slept.CompareAndSwap(false, true) {
			close(asleep)
			<-awake
		}
	}
	dying := srv.twin(func(o *engine.Options) { o.Store = cutOff{o.Store, &slept} })
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-asleep; cancel() }()
	_, _ = dying.Delete(ctx, "default", sb.ID, "test", false)
	testkit.Eventually(t, 30*time.Second, func() error { return srv.leaseIsFree(t, sb.ID) })
	srv.reconcile(t, func() error {
		if got := srv.rows(t)[0]; got.State != sandbox.Terminated {
			return fmt.Errorf("it is %s", got.State)
		}
		return nil
	})
	if got := d.read(); got != "hook previews previews holds" {
		t.Errorf("done: %q", got)
	}
}

// cutOff is a store that cannot be reached to renew a lease once it is so.
type cutOff struct {
	engine.Store
	off *atomic.Bool
}

func (c cutOff) Renew(ctx context.Context, l store.Lease) error {
	if c.off.Load() {
		return noRenewal{}.Renew(ctx, l)
	}
	return c.Store.Renew(ctx, l)
}

// A finalizer that no configuration knows any more does not keep a sandbox from ending.
func TestUnknownFinalizerIsLetGo(t *testing.T) {
	testkit.Proves(t, "O1")
	var d diary
	srv := onSQLite(t).open(t, d.keep)
	sb := srv.ensure(t, project("a"))
	d.refuse("previews", errors.New("proxy is away"))
	if got, _ := srv.Delete(t.Context(), "default", sb.ID, "test", false); got.State != sandbox.Terminating {
		t.Fatalf("it is %s", got.State)
	}
	older := srv.twin(func(o *engine.Options) { o.Finalizers, o.Hooks = nil, nil })
	older.reconcile(t, func() error {
		if got := srv.rows(t)[0]; got.State != sandbox.Terminated {
			return fmt.Errorf("it is %s", got.State)
		}
		return nil
	})
}

// A delete whose last save goes on failing is given up after its time, and the history says so; a
// terminate keeps the volume for as long as it takes.
func TestLastSaveThatFails(t *testing.T) {
	testkit.Proves(t, "O1")
	synctest.Test(t, func(t *testing.T) {
		v := inMemory(func(o *engine.Options) { o.Restorer = new(refusingSaver) })
		defer v.run(t)()
		kept, deleted, skipped := v.ensure(t, sandbox.OwnerProject, "kept"), v.ensure(t, sandbox.OwnerProject, "deleted"), v.ensure(t, sandbox.OwnerProject, "skipped")
		if _, err := v.Handle("default", kept.ID, "test").Terminate(t.Context(), false); fault.CodeOf(err) != api.CodeSyncFailed || !strings.Contains(err.Error(), "bucket is on fire") {
			t.Errorf("terminate: %v", err)
		}
		if s, err := v.Delete(t.Context(), "default", skipped.ID, "test", true); err != nil || s.State != sandbox.Terminated {
			t.Errorf("delete without a save: %s, %v", s.State, err)
		}
		began := time.Now()
		if s, err := v.Delete(t.Context(), "default", deleted.ID, "test", false); err != nil || s.State != sandbox.Running || s.Failure == nil {
			t.Errorf("delete: %s, %+v, %v", s.State, s.Failure, err)
		}
		pass(9 * time.Minute)
		if s := v.row(t, deleted.ID); s.State != sandbox.Running || s.Failure.Attempts < 5 {
			t.Errorf("after nine minutes: %s, %+v", s.State, s.Failure)
		}
		pass(time.Hour)
		if d := v.since(deleted.ID, began, sandbox.EventEnded); d < 10*time.Minute || d > 12*time.Minute {
			t.Errorf("gone after %s", d)
		}
		history := v.history(deleted.ID)
		i := slices.IndexFunc(history, func(h sandbox.Transition) bool { return h.Event == sandbox.EventEnd })
		if why := history[i].Reason; !strings.Contains(why, "given up") || !strings.Contains(why, "bucket is on fire") {
			t.Errorf("the history says %q", why)
		}
		pass(24 * time.Hour)
		if s := v.row(t, kept.ID); s.State != sandbox.Running || s.Instance != kept.Instance || s.Failure == nil {
			t.Errorf("terminated: %s, %+v", s.State, s.Failure)
		}
		// The user skips the save, or goes on using it.
		if s, err := v.Handle("default", kept.ID, "test").Terminate(t.Context(), true); err != nil || s.State != sandbox.Terminated {
			t.Errorf("%s, %v", s.State, err)
		}
		if back := v.ensure(t, sandbox.OwnerProject, "kept"); back.ID != kept.ID || back.Incarnation != 2 {
			t.Errorf("%+v", back)
		}
	})
}

// Deletes race with uses, with each other, and with the engine's own passes, at a driver that loses
// answers and cannot always be asked. A deleted sandbox ends soon and for good, and leaves nothing.
func TestDeletesRacingUses(t *testing.T) {
	testkit.Proves(t, "O1", "O6")
	onBoth(t, func(t *testing.T, at place) {
		srv := at.open(t, func(o *engine.Options) { o.Restorer, o.WorkTimeout = restorer{}, 3*time.Minute })
		srv.fake.On(fake.Create).Slow(5 * time.Millisecond)
		srv.fake.On(fake.Create).After().Matching(func(driver.Key) bool { return rand.N(2) == 0 }).Fail(errors.New("connection reset"))
		srv.fake.On(fake.List).Matching(func(driver.Key) bool { return rand.N(2) == 0 }).Fail(errors.New("connection reset"))
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan struct{})
		go func() { defer close(ran); srv.Run(ctx, 5*time.Millisecond) }()
		owners := names(testkit.Size(t, "i14.deletes"))
		var (
			g    errgroup.Group
			mu   sync.Mutex
			took []time.Duration
		)
		g.SetLimit(32)
		for _, o := range owners {
			g.Go(func() error { return srv.deleteAndUse(project(o), &mu, &took) })
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		testkit.Eventually(t, 3*time.Minute, func() error {
			for _, sb := range srv.rows(t) {
				if sb.Deleted() && sb.State != sandbox.Terminated {
					return fmt.Errorf("%s is %s: %+v", sb.ID, sb.State, sb.Failure)
				}
			}
			return nil
		})
		cancel()
		<-ran
		srv.Quiesce(t.Context())
		t.Logf("%d deletes: p99 %s", len(took), p99(took))
		srv.goneForGood(t)
	})
}

// deleteAndUse has an owner's sandbox deleted while others use it, for the first time or not.
func (s *server) deleteAndUse(o sandbox.Owner, mu *sync.Mutex, took *[]time.Duration) error {
	ctx := context.Background()
	sb, _, err := s.db.In("default").RequestSandbox(ctx, store.SandboxRequest{Kind: o.Kind, Owner: o.ID, Spec: s.Options().Defaults, Want: sandbox.WantRunning})
	if err != nil {
		return err
	}
	use := func() error {
		_, _, err := s.Ensure(ctx, engine.Request{Owner: o, Actor: "use"})
		if err != nil && !strings.Contains(err.Error(), "connection reset") && !slices.Contains([]api.Code{api.CodeBusy, api.CodeDeleting}, fault.CodeOf(err)) {
			return err
		}
		return nil
	}
	var g errgroup.Group
	g.Go(use)
	g.Go(use)
	g.Go(func() error {
		<-time.After(rand.N(60 * time.Millisecond))
		for began := time.Now(); ; <-time.After(5 * time.Millisecond) {
			now, err := s.Engine.Delete(ctx, "default", sb.ID, "delete", false)
			if err != nil || now.State == sandbox.Terminated {
				mu.Lock()
				defer mu.Unlock()
				*took = append(*took, time.Since(began))
				return err
			}
			if time.Since(began) > 60*time.Second {
				return fmt.Errorf("%s is %s after %s: %+v", sb.ID, now.State, time.Since(began), now.Failure)
			}
		}
	})
	g.Go(use)
	return g.Wait()
}

// goneForGood fails if anything is left of a deleted sandbox, or was begun after its delete, or if an
// owner has more than one that is not deleted.
func (s *server) goneForGood(t *testing.T) {
	t.Helper()
	live, owners := s.live(t), map[string]int{}
	for _, sb := range s.rows(t) {
		if !sb.Deleted() {
			owners[sb.Owner.ID]++
			continue
		}
		if len(live[sb.ID]) > 0 {
			t.Errorf("deleted, and the driver has %v", live[sb.ID])
		}
		history, _, err := s.db.In("default").History(t.Context(), sb.ID, 1000, 0)
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(history)
		deleted := slices.IndexFunc(history, func(h sandbox.Transition) bool { return h.Event == "" && h.Actor == "delete" })
		for _, h := range history[deleted+1:] {
			if h.Event == sandbox.EventBegin || h.Event == sandbox.EventStart || h.Want != sandbox.WantGone {
				t.Errorf("after its delete: %+v", h)
			}
		}
	}
	for owner, n := range owners {
		if n > 1 {
			t.Errorf("%s has %d sandboxes", owner, n)
		}
	}
}

// Terminate ends instance and volume; a use during or after it gets the same sandbox with a new instance.
func TestTerminatedSandboxIsRevived(t *testing.T) {
	testkit.Proves(t, "O1", "V3")
	onBoth(t, func(t *testing.T, at place) {
		srv := at.open(t, func(o *engine.Options) { o.Restorer = restorer{} })
		sb := srv.ensure(t, project("a"))
		h := srv.Handle("default", sb.ID, "test")
		ended, err := h.Terminate(t.Context(), false)
		if err != nil || ended.State != sandbox.Terminated || ended.Instance != "" || ended.Synced.Version != "v2" || len(srv.live(t)) > 0 {
			t.Fatalf("%+v, %v, left %v", ended, err, srv.live(t))
		}
		back := srv.ensure(t, project("a"))
		if back.ID != sb.ID || back.Incarnation != 2 || back.Instance == sb.Instance {
			t.Errorf("%+v", back)
		}
		srv.one(t, back)

		slow, begun, goOn := srv.fake.On(fake.Destroy), make(chan struct{}), make(chan struct{})
		slow.Do(func() { close(begun); <-goOn }).Times(1)
		terminated := make(chan error, 1)
		go func() { _, err := h.Terminate(context.Background(), true); terminated <- err }()
		<-begun
		used := srv.inBackground(project("a"))
		close(goOn)
		if err := <-used; err != nil {
			t.Errorf("the use during it: %v", err)
		}
		<-terminated // in time, or overtaken
		now := srv.ensure(t, project("a"))
		if now.ID != sb.ID || now.Incarnation != 3 {
			t.Errorf("%+v", now)
		}
		srv.one(t, now)
	})
}
