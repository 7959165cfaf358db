package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// An instance that its record does not name is left to the holder of the lease. When that is gone, the
// sweep has it settled.
func TestStrayOfAPausedHolder(t *testing.T) {
	testkit.Proves(t, "O8", "O2")
	at := onSQLite(t)
	at.LeaseTTL = 10 * time.Second // the first sweep comes before its end, also on a busy machine
	srv := at.open(t, installed)
	sleeper, asleep, wake := srv.sleeper("after-create")
	defer wake()
	cut := sleeper.twin(func(o *engine.Options) { o.Store = noRenewal{o.Store} })
	done := cut.inBackground(project("a"))
	<-asleep
	sb := srv.row(t, project("a"))
	first := srv.live(t)[sb.ID]
	if _, got := srv.sweep(t, engine.SweepOptions{Grace: time.Nanosecond}); got != "stray waits" {
		t.Errorf("%q", got)
	}
	if now := srv.live(t)[sb.ID]; !slices.Equal(now, first) {
		t.Errorf("there was %v, and is %v", first, now)
	}
	testkit.Eventually(t, time.Minute, func() error { return srv.leaseIsFree(t, sb.ID) })
	if _, got := srv.sweep(t, engine.SweepOptions{Grace: time.Nanosecond}); got != "stray settled" {
		t.Errorf("%q", got)
	}
	now := srv.row(t, project("a"))
	if now.State != sandbox.Running || now.Incarnation != 2 {
		t.Errorf("%s as incarnation %d", now.State, now.Incarnation)
	}
	srv.one(t, now)
	wake()
	if err := <-done; err != nil {
		t.Error(err)
	}
	srv.one(t, srv.row(t, project("a")))
}

// A late create of a sandbox that was deleted since, whose maker died: no scan reads the tombstone
// again but the sweep.
func TestLateCreateOfADeletedSandboxIsSwept(t *testing.T) {
	testkit.Proves(t, "O8")
	onBoth(t, func(t *testing.T, at place) {
		srv := at.open(t, installed)
		sb := srv.ensure(t, project("a"))
		if _, err := srv.Delete(t.Context(), "default", sb.ID, "test", true); err != nil {
			t.Fatal(err)
		}
		if _, err := srv.fake.Create(t.Context(), driver.Spec{Key: driver.Key{Sandbox: sb.ID, Incarnation: 1}, Tenant: "default"}); err != nil {
			t.Fatal(err)
		}
		if _, got := srv.sweep(t, engine.SweepOptions{}); got != "stray settled" {
			t.Errorf("%q", got)
		}
		if live := srv.live(t); len(live) > 0 {
			t.Errorf("left %v", live)
		}
		if row := srv.rows(t)[0]; row.State != sandbox.Terminated || !row.Deleted() {
			t.Errorf("%+v", row)
		}
	})
}

// A record that names an instance which is gone is brought in line with that, and a running one recovers;
// a dry run finds the same and changes nothing.
func TestRecordsWithoutAnInstance(t *testing.T) {
	testkit.Proves(t, "O8")
	onBoth(t, func(t *testing.T, at place) {
		srv := at.open(t, installed)
		up, down := srv.ensure(t, project("up")), srv.ensure(t, project("down"))
		srv.ensure(t, project("well"))
		if _, err := srv.Handle("default", down.ID, "test").Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		orphan := srv.orphan(t, 1, map[string]string{engine.LabelInstallation: ours})
		for _, id := range []sandbox.InstanceID{up.Instance, down.Instance} {
			if err := srv.fake.Vanish(driver.ID(id)); err != nil {
				t.Fatal(err)
			}
		}
		srv.orphan(t, 2, nil)
		if _, got := srv.sweep(t, engine.SweepOptions{DryRun: true, Grace: time.Nanosecond}); got != "missing kept, missing kept, orphan waits" {
			t.Errorf("dry: %q", got)
		}
		before, rows := srv.live(t), srv.rows(t)
		d, got := srv.sweep(t, engine.SweepOptions{DryRun: true, Grace: time.Nanosecond})
		if got != "missing kept, missing kept, orphan kept" || d.Instances != 3 || d.Foreign != 1 || d.Err != nil {
			t.Errorf("dry: %q, %+v", got, d)
		}
		if after := srv.live(t); !maps.EqualFunc(before, after, slices.Equal) || fmt.Sprint(srv.rows(t)) != fmt.Sprint(rows) {
			t.Errorf("a dry run changed %v to %v, or the records", before, after)
		}
		if _, got := srv.sweep(t, engine.SweepOptions{Grace: time.Nanosecond}); got != "missing settled, missing settled, orphan ended" {
			t.Errorf("%q", got)
		}
		if now := srv.row(t, project("up")); now.State != sandbox.Running || now.Incarnation != 2 || now.DestroyedAt.IsZero() {
			t.Errorf("%+v", now)
		} else {
			srv.one(t, now)
		}
		if now := srv.row(t, project("down")); now.State != sandbox.Terminated || now.Instance != "" || now.DestroyedAt.IsZero() {
			t.Errorf("%+v", now)
		}
		if now := srv.row(t, project("well")); now.Incarnation != 1 {
			t.Errorf("%+v", now)
		}
		if len(srv.live(t)[orphan.Key.Sandbox]) > 0 {
			t.Error("the orphan lives")
		}
		if _, got := srv.sweep(t, engine.SweepOptions{}); got != "" {
			t.Errorf("and then: %q", got)
		}
	})
}

// A record that came, and one that went, between the two readings does not count as a finding.
func TestSweepLooksTwice(t *testing.T) {
	testkit.Proves(t, "O8")
	srv := onSQLite(t).open(t, installed)
	goes := srv.ensure(t, project("goes"))
	var once sync.Once
	far := srv.twin(func(o *engine.Options) {
		o.Store = &between{o.Store, func() {
			once.Do(func() {
				srv.ensure(t, project("comes"))
				if _, err := srv.Delete(t.Context(), "default", goes.ID, "test", true); err != nil {
					t.Error(err)
				}
			})
		}}
	})
	if _, got := far.sweep(t, engine.SweepOptions{DryRun: true}); got != "" {
		t.Errorf("%q", got)
	}
}

// between does something between the driver's list and the reading of the records.
type between struct {
	engine.Store
	do func()
}

func (b *between) ListInstances(ctx context.Context, d, host, after string, limit int) ([]store.InstanceRecord, error) {
	page, err := b.Store.ListInstances(ctx, d, host, after, limit)
	b.do()
	again, _ := b.Store.ListInstances(ctx, d, host, after, limit)
	return append(page, again...), err
}

// What has run out is forgotten in pieces, and only that.
func TestSweepForgetsWhatHasRunOut(t *testing.T) {
	testkit.Proves(t, "O8")
	onBoth(t, func(t *testing.T, at place) {
		srv := at.open(t)
		sb := srv.ensure(t, project("a"))
		in, past, future := srv.db.In("default"), time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
		for i := range 3 {
			if err := srv.db.Holds().Hold(t.Context(), sb.ID, "turn", fmt.Sprint("old", i), past); err != nil {
				t.Fatal(err)
			}
			if err := in.Reservations().Reserve(t.Context(), store.QuotaTurns, fmt.Sprint("old", i), 100, past); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(srv.db.Holds().Hold(t.Context(), sb.ID, "turn", "new", future), in.Reservations().Reserve(t.Context(), store.QuotaTurns, "new", 100, future)); err != nil {
			t.Fatal(err)
		}
		keys := &manyKeys{Store: srv.Options().Store, left: 2500}
		far := srv.twin(func(o *engine.Options) { o.Store = keys })
		if sw, err := far.Sweep(t.Context(), engine.SweepOptions{DryRun: true}); err != nil || sw.Keys+sw.Holds+sw.Places > 0 || keys.left != 2500 {
			t.Errorf("dry: %+v, %v", sw, err)
		}
		sw, err := far.Sweep(t.Context(), engine.SweepOptions{})
		if err != nil || sw.Keys != 2500 || sw.Holds != 3 || sw.Places != 3 {
			t.Errorf("%+v, %v", sw, err)
		}
		if time.Since(keys.before) < 24*time.Hour {
			t.Errorf("keys of %s ago are forgotten", time.Since(keys.before))
		}
		if held, err := srv.db.Holds().HeldUntil(t.Context(), sb.ID); err != nil || held.Before(time.Now()) {
			t.Errorf("held until %s, %v", held, err)
		}
		if used, err := in.Reservations().QuotaUsed(t.Context(), store.QuotaTurns); err != nil || used != 1 {
			t.Errorf("%d places are taken, %v", used, err)
		}
	})
}

// manyKeys is a store with many idempotency keys that have run out.
type manyKeys struct {
	engine.Store
	left   int64
	before time.Time
}

func (m *manyKeys) ExpireKeys(_ context.Context, before time.Time, limit int) (int64, error) {
	n := min(m.left, int64(limit))
	m.left -= n
	m.before = before
	return n, nil
}

// A database that was restored from yesterday knows nothing of an incarnation that the driver has: that
// may have the only copy of a day's work. It is left alone and reported; a request ends it.
func TestIncarnationThatTheDatabaseForgot(t *testing.T) {
	testkit.Proves(t, "O8")
	onBoth(t, func(t *testing.T, at place) {
		srv := at.open(t, installed)
		sb := srv.ensure(t, project("a"))
		h := srv.Handle("default", sb.ID, "test")
		if _, err := srv.fake.Create(t.Context(), driver.Spec{Key: driver.Key{Sandbox: sb.ID, Incarnation: 3}, Tenant: "default", Labels: map[string]string{engine.LabelInstallation: ours}}); err != nil {
			t.Fatal(err)
		}
		if err := srv.fake.Vanish(driver.ID(sb.Instance)); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Reconcile(t.Context()); fault.CodeOf(err) != "conflict" || !strings.Contains(err.Error(), "was the database restored") {
			t.Errorf("got %v", err)
		}
		if _, got := srv.sweep(t, engine.SweepOptions{Grace: time.Nanosecond}); got != "missing failed, stray failed" {
			t.Errorf("%q", got)
		}
		if live := srv.live(t)[sb.ID]; len(live) != 1 {
			t.Errorf("there is %v", live)
		}
		if got := srv.row(t, project("a")); got.Failure == nil || !strings.Contains(got.Failure.Message, "incarnation 3") {
			t.Errorf("the record says %+v", got.Failure)
		}
		if got, err := h.Terminate(t.Context(), false); err != nil || got.State != sandbox.Terminated || len(srv.live(t)) > 0 {
			t.Errorf("%s, %v, left %v", got.State, err, srv.live(t))
		}
		srv.one(t, srv.ensure(t, project("a")))
	})
}

// A frozen instance that a lagging list does not show is not taken for ill.
func TestFrozenInstanceIsNotIll(t *testing.T) {
	testkit.Proves(t, "O4")
	srv, _ := hospital(t, onSQLite(t), func(o *engine.Options) {
		o.Drivers = map[string]driver.Driver{"fake": &blinking{o.Drivers["fake"].(answering)}}
	})
	sb := srv.ensure(t, project("a"))
	if err := srv.fake.Freeze(t.Context(), driver.ID(sb.Instance)); err != nil {
		t.Fatal(err)
	}
	if l, err := srv.Inspect(t.Context(), sb); err != nil || !l.Healthy() {
		t.Errorf("%+v, %v", l.Seen, err)
	}
}

// blinking is a driver with helpers that lists nothing.
type blinking struct{ answering }

func (*blinking) List(context.Context, driver.Selector) iter.Seq2[driver.Status, error] {
	return func(func(driver.Status, error) bool) {}
}

// A sweep whose context ended begins no more work.
func TestSweepEndsWithItsContext(t *testing.T) {
	testkit.Proves(t, "X4")
	srv := onSQLite(t).open(t)
	for i := range 5 {
		sb := srv.ensure(t, project(fmt.Sprint(i)))
		if err := srv.fake.Vanish(driver.ID(sb.Instance)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	srv.fake.On(fake.Create).Do(cancel)
	_, _ = srv.Sweep(ctx, engine.SweepOptions{})
	if n := srv.creates(t); n != 6 {
		t.Errorf("%d were made anew", n-5)
	}
}
