package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

const ours = "installation-of-these-tests"

func installed(o *engine.Options) { o.Installation = ours }

// sweep sweeps once and returns what was found at the driver, as "kind action" words.
func (s *server) sweep(t *testing.T, o engine.SweepOptions) (engine.DriverSweep, string) {
	t.Helper()
	sw, err := s.Sweep(t.Context(), o)
	if err != nil || len(sw.Drivers) != 1 {
		t.Fatalf("%+v, %v", sw, err)
	}
	return sw.Drivers[0], found(sw.Drivers[0])
}

func found(d engine.DriverSweep) string {
	var words []string
	for _, f := range d.Found {
		words = append(words, f.Kind+" "+f.Action)
	}
	return strings.Join(words, ", ")
}

// Creates take up to three times the grace, half of that with an instance that no record names yet, while
// another server sweeps all the time over a list with foreign, damaged and nameless entries, of which
// every third reading breaks off. Nothing that lives is ended.
func TestSweepsEndNothingThatLives(t *testing.T) {
	testkit.Proves(t, "O8")
	const grace = 60 * time.Millisecond
	onBoth(t, func(t *testing.T, at place) {
		srv := at.open(t, installed)
		owners := names(testkit.Size(t, "i4.creates"))
		dawdle := func() { <-time.After(rand.N(3 * grace / 2)) }
		srv.fake.On(fake.Create).Do(dawdle)
		srv.fake.On(fake.Create).After().Do(dawdle)
		strangers := srv.strangers(t)
		reaper := srv.twin(func(o *engine.Options) {
			o.Drivers = map[string]driver.Driver{"fake": &nameless{Driver: o.Drivers["fake"]}}
		})
		ctx, cancel := context.WithCancel(t.Context())
		sweeps, swept := 0, make(chan struct{})
		go func() {
			defer close(swept)
			for ; ctx.Err() == nil; sweeps++ {
				_, _ = reaper.Sweep(ctx, engine.SweepOptions{Grace: grace})
			}
		}()
		var g errgroup.Group
		g.SetLimit(32)
		for _, o := range owners {
			g.Go(func() error {
				_, _, err := srv.Ensure(context.Background(), engine.Request{Owner: project(o), Actor: "test"})
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		cancel()
		<-swept
		t.Logf("%d sweeps during %d creates", sweeps, len(owners))
		srv.exactlyOneEachBeside(t, owners, strangers)
		calls, err := srv.fake.Log()
		if err != nil {
			t.Fatal(err)
		}
		if n := fake.Effects(calls, fake.Destroy); n > 0 || sweeps < 3 {
			t.Errorf("%d instances were ended by %d sweeps", n, sweeps)
		}
	})
}

// exactlyOneEachBeside checks that each owner has its instance, made by one create, and that the strangers
// are where they were.
func (s *server) exactlyOneEachBeside(t *testing.T, owners []string, strangers []driver.ID) {
	t.Helper()
	if n := s.creates(t); n != len(owners)+len(strangers) {
		t.Errorf("%d creates for %d owners beside %d strangers", n, len(owners), len(strangers))
	}
	for _, o := range owners {
		sb := s.row(t, project(o))
		if sb.State != sandbox.Running || sb.Incarnation != 1 {
			t.Errorf("%s is %s as incarnation %d", o, sb.State, sb.Incarnation)
		}
		s.one(t, sb)
	}
	all, err := s.fake.Live()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range strangers {
		if !slices.ContainsFunc(all, func(st driver.Status) bool { return st.ID == id }) {
			t.Errorf("%s is gone", id)
		}
	}
}

// strangers puts instances at the driver that are not ours, or not readable as ours.
func (s *server) strangers(t *testing.T) (ids []driver.ID) {
	t.Helper()
	for i, labels := range []map[string]string{nil, {engine.LabelInstallation: "another's"}, {engine.LabelInstallation: ours}} {
		st := s.orphan(t, i+1, labels)
		ids = append(ids, st.ID)
	}
	if err := s.fake.ForgetKey(ids[2]); err != nil {
		t.Fatal(err)
	}
	if err := s.fake.Litter("rubbish", []byte("{")); err != nil {
		t.Fatal(err)
	}
	return ids
}

// orphan puts an instance at the driver that no record claims.
func (s *server) orphan(t *testing.T, n int, labels map[string]string) driver.Status {
	t.Helper()
	key := driver.Key{Sandbox: fmt.Sprintf("0197fb61-0000-7000-8000-%012d", n), Incarnation: 1}
	st, err := s.fake.Create(t.Context(), driver.Spec{Key: key, Tenant: "default", Labels: labels})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// nameless is a driver whose lists have an entry without an id, and of which every third breaks off.
type nameless struct {
	driver.Driver
	n atomic.Int64
}

func (l *nameless) List(ctx context.Context, sel driver.Selector) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		if sel.Sandbox != "" {
			l.Driver.List(ctx, sel)(yield)
			return
		}
		if !yield(driver.Status{Key: driver.Key{Sandbox: "0197fb61-0000-7000-8000-00000000dead", Incarnation: 1}, Labels: map[string]string{engine.LabelInstallation: ours}}, nil) {
			return
		}
		left := -1
		if l.n.Add(1)%3 == 0 {
			left = 2
		}
		for st, err := range l.Driver.List(ctx, sel) {
			if left == 0 {
				yield(driver.Status{}, errAway)
				return
			}
			left--
			if !yield(st, err) {
				return
			}
		}
	}
}

func (l *nameless) Destroy(ctx context.Context, id driver.ID) error {
	if id == "" {
		panic("asked to end an instance without a name")
	}
	return l.Driver.Destroy(ctx, id)
}

// Our own orphan is ended after the grace and not before; an instance of another installation, or without a label,
// never.
func TestOrphansAreEndedAfterTheGrace(t *testing.T) {
	testkit.Proves(t, "O8")
	synctest.Test(t, func(t *testing.T) {
		v := inMemory(installed)
		orphan := func(n int, labels map[string]string) driver.ID {
			key := driver.Key{Sandbox: fmt.Sprintf("0197fb61-0000-7000-8000-%012d", n), Incarnation: 1}
			st, err := v.boxes.Create(t.Context(), driver.Spec{Key: key, Labels: labels})
			if err != nil {
				t.Fatal(err)
			}
			return st.ID
		}
		mine, foreign, bare := orphan(1, map[string]string{engine.LabelInstallation: ours}), orphan(2, map[string]string{engine.LabelInstallation: "x"}), orphan(3, nil)
		live := func(id driver.ID) bool { _, err := v.boxes.Inspect(t.Context(), id); return err == nil }
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go v.RunSweeps(ctx, 10*time.Minute, engine.SweepOptions{})
		pass(59 * time.Minute)
		if !live(mine) {
			t.Error("ended before the grace was over")
		}
		if sw, err := v.Sweep(ctx, engine.SweepOptions{DryRun: true}); err != nil || found(sw.Drivers[0]) != "orphan waits" || sw.Drivers[0].Foreign != 2 {
			t.Errorf("%+v, %v", sw, err)
		}
		pass(2 * time.Minute)
		if live(mine) {
			t.Error("not ended after the grace")
		}
		pass(100 * time.Hour)
		if !live(foreign) || !live(bare) {
			t.Error("a foreign instance was ended")
		}
		if n := counted(t, v.Options().Metrics, `sweep_findings_total{action="ended",kind="orphan"}`); n != 1 {
			t.Errorf("%d orphans were ended, says the counter", n)
		}
	})
}

// An instance that was an orphan and is one no more, or not this one any more, begins its grace anew.
func TestGraceBeginsAnew(t *testing.T) {
	testkit.Proves(t, "O8")
	synctest.Test(t, func(t *testing.T) {
		v := inMemory(installed)
		s := v.ensure(t, sandbox.OwnerProject, "x")
		row := *v.mem.rows[s.ID]
		sweep := func() string {
			sw, err := v.Sweep(t.Context(), engine.SweepOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return found(sw.Drivers[0])
		}
		delete(v.mem.rows, s.ID) // the database of the day before
		if got := sweep(); got != "orphan waits" {
			t.Errorf("%q", got)
		}
		pass(50 * time.Minute)
		v.mem.rows[s.ID] = &row
		if got := sweep(); got != "" {
			t.Errorf("%q", got)
		}
		delete(v.mem.rows, s.ID)
		pass(30 * time.Minute)
		if got := sweep(); got != "orphan waits" {
			t.Errorf("claimed since: %q", got)
		}
		pass(59 * time.Minute)
		next := engine.New(v.Options()) // a server that has just been started has seen nothing
		if sw, err := next.Sweep(t.Context(), engine.SweepOptions{}); err != nil || found(sw.Drivers[0]) != "orphan waits" {
			t.Errorf("%+v, %v", sw, err)
		}
	})
}

// blind is a store that cannot be read in parts.
type blind struct {
	engine.Store
	placed, sandbox bool
}

var errBlind = fault.Errorf("read", "store_unavailable", "no answer")

func (b *blind) ListInstances(ctx context.Context, d, host, after string, limit int) ([]store.InstanceRecord, error) {
	if b.placed {
		return nil, errBlind
	}
	return b.Store.ListInstances(ctx, d, host, after, limit)
}

func (b *blind) Sandbox(ctx context.Context, id string) (sandbox.Sandbox, error) {
	if b.sandbox {
		return sandbox.Sandbox{}, errBlind
	}
	return b.Store.Sandbox(ctx, id)
}

// What cannot be read is not empty: not the driver's list, nor the records.
func TestUnreadableIsNotEmpty(t *testing.T) {
	testkit.Proves(t, "O8")
	srv := onSQLite(t).open(t, installed)
	for i := range 5 {
		srv.ensure(t, project(fmt.Sprint(i)))
	}
	before := srv.live(t)
	for name, c := range map[string]struct {
		list            int // entries before the list breaks off; negative: it does not
		placed, sandbox bool
	}{
		"list":        {0, false, false},
		"half a list": {3, false, false},
		"claims":      {-1, true, false},
		"records":     {-1, false, true},
		"all records": {-1, true, true},
	} {
		far := srv.twin(func(o *engine.Options) { o.Store = &blind{o.Store, c.placed, c.sandbox} })
		cut := srv.fake.On(fake.List)
		if c.list >= 0 {
			cut.FailAfter(c.list, errAway)
		}
		for range 2 { // the second time, whatever was taken for an orphan is one for long enough
			sw, err := far.Sweep(t.Context(), engine.SweepOptions{Grace: time.Nanosecond})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range sw.Drivers[0].Found {
				if f.Action != engine.ActionFailed {
					t.Errorf("%s: %+v", name, f)
				}
			}
			if (sw.Drivers[0].Err == nil) != (name == "records") {
				t.Errorf("%s: %v", name, sw.Drivers[0].Err)
			}
		}
		cut.Off()
		if after := srv.live(t); !maps.EqualFunc(before, after, slices.Equal) {
			t.Fatalf("%s: there was %v, and is %v", name, before, after)
		}
	}
	for i := range 5 {
		if sb := srv.row(t, project(fmt.Sprint(i))); sb.State != sandbox.Running || sb.Incarnation != 1 {
			t.Errorf("%s as incarnation %d", sb.State, sb.Incarnation)
		}
	}
}

// Only a driver's own not-found makes an instance lost, whatever it does not list and however else its
// answer about it fails.
func TestOnlyNotFoundIsLost(t *testing.T) {
	testkit.Proves(t, "O4", "O8")
	srv := onSQLite(t).open(t)
	sb := srv.ensure(t, project("a"))
	h := srv.Handle("default", sb.ID, "test")
	far := srv.through(func(d driver.Driver) driver.Driver { return &forgetful{d} })
	for _, err := range []error{errAway, errors.New("500"), context.DeadlineExceeded, driver.ErrUnauthenticated, driver.ErrInvalid} {
		away := srv.fake.On(fake.Inspect).Fail(err)
		got, err := far.Handle("default", sb.ID, "test").Reconcile(t.Context())
		if err != nil || got.Incarnation != 1 || got.State != sandbox.Running {
			t.Errorf("%s as incarnation %d, %v", got.State, got.Incarnation, err)
		}
		away.Off()
	}
	srv.one(t, sb)
	if _, err := h.Reconcile(t.Context()); err != nil {
		t.Error(err)
	}
}

// forgetful is a driver that lists nothing.
type forgetful struct{ driver.Driver }

func (*forgetful) List(context.Context, driver.Selector) iter.Seq2[driver.Status, error] {
	return func(func(driver.Status, error) bool) {}
}

// An entry of our own sandbox without an id is not to be acted on, and not to be passed over: there may
// be an instance behind it.
func TestEntryWithoutAnIDIsWaitedFor(t *testing.T) {
	testkit.Proves(t, "O8")
	srv := onSQLite(t).open(t)
	srv.fake.On(fake.Create).Fail(driver.ErrQuota).Times(1)
	if _, _, err := srv.Ensure(t.Context(), engine.Request{Owner: project("a")}); err == nil {
		t.Fatal("no error")
	}
	sb := srv.row(t, project("a"))
	far := srv.through(func(d driver.Driver) driver.Driver { return &anonymous{d, sb.ID} })
	before := srv.creates(t)
	if _, _, err := far.Ensure(t.Context(), engine.Request{Owner: project("a")}); fault.CodeOf(err) != "driver_unreachable" || !strings.Contains(err.Error(), "without its id") {
		t.Errorf("got %v", err)
	}
	if srv.creates(t) != before {
		t.Error("made another beside it")
	}
	srv.one(t, srv.ensure(t, project("a")))
}

// anonymous is a driver that lists an instance of a sandbox without its id.
type anonymous struct {
	driver.Driver
	sandbox string
}

func (a *anonymous) List(ctx context.Context, sel driver.Selector) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		_ = yield(driver.Status{Key: driver.Key{Sandbox: a.sandbox, Incarnation: 1}, Phase: driver.PhaseRunning}, nil)
	}
}
