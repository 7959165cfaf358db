package project_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/project"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
)

func (w *world) clean(idle time.Duration, dry bool) map[string]project.Cleaned {
	w.t.Helper()
	all, more, err := w.Projects.Cleanup(w.t.Context(), idle, dry)
	if err != nil || more {
		w.t.Fatalf("more %v, %v", more, err)
	}
	by := map[string]project.Cleaned{}
	for _, c := range all {
		by[c.Sandbox.Owner.ID] = c
	}
	return by
}

// stale makes projects that were not used for hours, one that was, and one of another tenant.
func (w *world) stale(ids ...string) {
	w.t.Helper()
	for i, id := range ids {
		w.ensure(id)
		w.unused("acme", id, time.Duration(2+i)*time.Hour)
	}
	w.ensure("fresh")
	if _, _, err := w.of("rival").Ensure(w.t.Context(), "theirs", sandbox.Spec{}, ""); err != nil {
		w.t.Fatal(err)
	}
	w.unused("rival", "theirs", 9*time.Hour)
}

// Where nothing can be saved, cleaning up stops and keeps the files.
func TestCleanupStopsWhatCannotBeSaved(t *testing.T) {
	testkit.Proves(t, "P2")
	onBoth(t, func(w *world) {
		w.stale("a", "b")
		for _, c := range w.clean(time.Hour, true) {
			if c.Want != sandbox.WantStopped || c.Done || c.Err != nil {
				w.t.Errorf("a dry run would %+v", c)
			}
		}
		if s := w.get("a"); s.State != sandbox.Running {
			w.t.Errorf("a dry run made it %s", s.State)
		}
		done := w.clean(time.Hour, false)
		if len(done) != 2 || !done["a"].Done || !done["b"].Done || done["a"].Want != sandbox.WantStopped || done["a"].Sandbox.State != sandbox.Stopped {
			w.t.Errorf("cleaned %+v", done)
		}
		if s := w.get("a"); s.State != sandbox.Stopped || s.Instance == "" || time.Since(s.ActiveAt) < time.Hour {
			w.t.Errorf("after cleaning up: %s, instance %q, used %v", s.State, s.Instance, s.ActiveAt)
		}
		if got := w.clean(time.Hour, false); len(got) != 0 {
			w.t.Errorf("cleaned again: %+v", got)
		}
		if s := w.get("fresh"); s.State != sandbox.Running {
			w.t.Errorf("one in use is %s", s.State)
		}
		if s, err := w.of("rival").Get(w.t.Context(), "theirs"); err != nil || s.State != sandbox.Running {
			w.t.Errorf("another tenant's is %s, %v", s.State, err)
		}
		if s := w.ensure("a"); s.State != sandbox.Running || s.Incarnation != 1 {
			w.t.Errorf("the next use made %+v", s)
		}
	})
}

// Where it can be saved, it is saved and ended, stopped ones too.
func TestCleanupSavesAndTerminates(t *testing.T) {
	testkit.Proves(t, "P2")
	vault := &safe{}
	onBoth(t, func(w *world) {
		w.stale("a", "b")
		if _, err := w.engine.Handle("acme", w.get("b").ID, "tester").Stop(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		w.unused("acme", "b", 5*time.Hour)
		vault.saved = nil
		done := w.clean(time.Hour, false)
		for _, id := range []string{"a", "b"} {
			if c := done[id]; !c.Done || c.Want != sandbox.WantGone || w.get(id).State != sandbox.Terminated {
				w.t.Errorf("%s: %+v, now %s", id, c, w.get(id).State)
			}
		}
		saved := vault.has()
		if slices.Sort(saved); !slices.Equal(saved, []string{"a", "b"}) {
			w.t.Errorf("saved %v", saved)
		}
		if s := w.ensure("a"); s.State != sandbox.Running || s.Incarnation != 2 || s.Synced.Version != "v1" {
			w.t.Errorf("the next use made %+v", s)
		}
	}, func(o *engine.Options) { o.Restorer = vault })
}

// A save that fails ends nothing.
func TestCleanupKeepsWhatCannotBeSavedNow(t *testing.T) {
	vault := &safe{err: errors.New("the store is full")}
	onBoth(t, func(w *world) {
		w.stale("a")
		c := w.clean(time.Hour, false)["a"]
		if s := w.get("a"); c.Done || c.Err == nil || s.State != sandbox.Running || s.Instance == "" {
			w.t.Errorf("%+v, now %s", c, s.State)
		}
	}, func(o *engine.Options) { o.Restorer = vault })
}

// A sandbox that is held, or used after it was listed, stays.
func TestCleanupLeavesWhatIsInUse(t *testing.T) {
	testkit.Proves(t, "P2")
	onBoth(t, func(w *world) {
		ctx := w.t.Context()
		w.stale("held", "used")
		if err := w.db.Holds().Hold(ctx, w.get("held").ID, "turn", "x", time.Now().Add(time.Hour)); err != nil {
			w.t.Fatal(err)
		}
		w.unused("acme", "held", 5*time.Hour)
		// It is used while the list is read.
		id := w.get("used").ID
		use := w.fake.On(fake.List).Matching(func(k driver.Key) bool { return k.Sandbox == id }).Times(1)
		use.Do(func() {
			if err := w.db.In("acme").Touch(ctx, id); err != nil {
				w.t.Error(err)
			}
		})
		if got := w.clean(time.Hour, false); len(got) != 0 {
			w.t.Errorf("cleaned %+v", got)
		}
		for _, id := range []string{"held", "used"} {
			if s := w.get(id); s.State != sandbox.Running || s.Want != sandbox.WantRunning {
				w.t.Errorf("%s is %s and asked to be %s", id, s.State, s.Want)
			}
		}
	})
}

// unstoppable is a driver without a word for stop.
type unstoppable struct{ driver.Driver }

func TestCleanupSaysWhatItCannotDo(t *testing.T) {
	onBoth(t, func(w *world) {
		w.stale("a")
		away := w.fake.On(fake.List).Fail(fake.ErrUnreachable)
		c := w.clean(time.Hour, false)["a"]
		fails(w.t, c.Err, api.CodeDriverUnreachable)
		away.Off()
		broken := w.fake.On(fake.Stop).Fail(fake.ErrUnreachable)
		c = w.clean(time.Hour, false)["a"]
		if c.Done || c.Err == nil || c.Want != sandbox.WantStopped {
			w.t.Errorf("a driver that does not stop it: %+v", c)
		}
		broken.Off()
		for _, idle := range []time.Duration{0, -time.Hour} {
			_, _, err := w.Projects.Cleanup(w.t.Context(), idle, false)
			fails(w.t, err, api.CodeInvalidRequest)
		}
		ended, cancel := context.WithCancel(w.t.Context())
		cancel()
		if _, _, err := w.Projects.Cleanup(ended, time.Hour, false); err == nil {
			w.t.Error("no error for a list that cannot be read")
		}
	})
	t.Run("a driver that cannot stop", func(t *testing.T) {
		onBoth(t, func(w *world) {
			w.stale("a")
			if got := w.clean(time.Hour, false); len(got) != 0 {
				w.t.Errorf("cleaned %+v", got)
			}
			if s := w.get("a"); s.State != sandbox.Running || s.Want != sandbox.WantRunning {
				w.t.Errorf("it is %s, asked to be %s", s.State, s.Want)
			}
		}, func(o *engine.Options) { o.Drivers["fake"] = unstoppable{o.Drivers["fake"]} })
	})
}

// One cleanup lets go of so many, and says that there are others.
func TestCleanupGoesOn(t *testing.T) {
	onSQLite(t, func(w *world) {
		const n = 130
		for i := range n {
			w.ensure(fmt.Sprintf("p%03d", i))
		}
		w.exec(`update sandboxes set active_at = %s`, 2*time.Hour)
		total := 0
		for rounds := 0; ; rounds++ {
			done, more, err := w.Projects.Cleanup(w.t.Context(), time.Hour, false)
			if err != nil || rounds > 3 {
				w.t.Fatalf("round %d: %v", rounds, err)
			}
			if total += len(done); !more {
				break
			}
			if len(done) < 100 {
				w.t.Errorf("more, after %d", len(done))
			}
		}
		if total != n {
			w.t.Errorf("cleaned %d of %d", total, n)
		}
	})
}
