package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
)

// moody is a saver that may refuse or hang.
type moody struct {
	saver
	refuses, hangs atomic.Bool
	tried          atomic.Int64
}

func (m *moody) Save(ctx context.Context, s sandbox.Sandbox) (sandbox.SyncMark, error) {
	m.tried.Add(1)
	switch {
	case m.hangs.Load():
		<-ctx.Done()
		return s.Synced, ctx.Err()
	case m.refuses.Load():
		return s.Synced, errors.New("the store refuses")
	}
	return m.saver.Save(ctx, s)
}

func inMemoryMoody() (*virtual, *moody) {
	m := &moody{}
	v := inMemory(func(o *engine.Options) { o.Restorer = m })
	m.saver = saver{v}
	return v, m
}

func (v *virtual) change(t *testing.T, s sandbox.Sandbox) {
	t.Helper()
	if err := v.mem.RecordChange(t.Context(), s.Owner.Tenant, s.ID, true, 30*time.Second); err != nil {
		t.Fatal(err)
	}
}

func TestWorkOutsideTurnsIsSaved(t *testing.T) {
	testkit.Proves(t, "S18")
	synctest.Test(t, func(t *testing.T) {
		v := inMemory()
		defer v.run(t)()
		s := v.ensure(t, sandbox.OwnerProject, "p")
		v.change(t, s)
		pass(25 * time.Second)
		if n := v.saves.Load(); n != 0 {
			t.Fatalf("saved %d times before it was quiet", n)
		}
		pass(15 * time.Second)
		if row := v.row(t, s.ID); v.saves.Load() != 1 || !row.UnsavedSince.IsZero() || row.Synced.Version != "v1" || row.State != sandbox.Running {
			t.Fatalf("%d saves, %+v", v.saves.Load(), row)
		}
		// It never rests: changes wait five minutes and no longer.
		for range 40 {
			v.change(t, s)
			pass(10 * time.Second)
		}
		if n := v.saves.Load(); n != 2 {
			t.Errorf("%d saves of a workspace that was never quiet for 400 s", n-1)
		}
		pass(10 * time.Minute)
		if n := v.saves.Load(); n != 3 || !v.row(t, s.ID).UnsavedSince.IsZero() {
			t.Errorf("%d saves in the end", n)
		}
	})
}

func TestASaveIsLeftToTheTurnThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := inMemory()
		defer v.run(t)()
		s := v.ensure(t, sandbox.OwnerConversation, "0197fb61-0000-7000-8000-000000000001")
		release := v.HandleOn(s, "test").Hold(t.Context(), engine.HoldTurn)
		v.change(t, s)
		pass(10 * time.Minute)
		if n := v.saves.Load(); n != 0 {
			t.Errorf("saved %d times while a turn ran", n)
		}
		release()
		pass(time.Minute)
		if n := v.saves.Load(); n != 1 {
			t.Errorf("saved %d times after it", n)
		}
	})
}

func TestASaveThatFailsStopsNothing(t *testing.T) {
	testkit.Proves(t, "S18")
	synctest.Test(t, func(t *testing.T) {
		v, m := inMemoryMoody()
		defer v.run(t)()
		m.refuses.Store(true)
		s := v.ensure(t, sandbox.OwnerProject, "p")
		v.change(t, s)
		pass(5 * time.Minute)
		row := v.row(t, s.ID)
		if f := row.SaveFailure; f == nil || f.Attempts < 3 || !strings.Contains(f.Message, "the store refuses") {
			t.Fatalf("recorded: %+v", f)
		}
		if row.State != sandbox.Running || row.Failure != nil || row.UnsavedSince.IsZero() {
			t.Fatalf("%+v", row)
		}
		// A stop goes on without it, and the save is made from the stopped instance.
		if _, err := v.HandleOn(row, "test").Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		m.refuses.Store(false)
		pass(3 * time.Minute)
		if row := v.row(t, s.ID); row.State != sandbox.Stopped || !row.UnsavedSince.IsZero() || row.SaveFailure != nil || v.saves.Load() != 1 {
			t.Errorf("%d saves, %+v", v.saves.Load(), row)
		}
	})
}

func TestASaveThatHangsHoldsUpNobody(t *testing.T) {
	testkit.Proves(t, "S18")
	synctest.Test(t, func(t *testing.T) {
		v, m := inMemoryMoody()
		defer v.run(t)()
		m.hangs.Store(true)
		s := v.ensure(t, sandbox.OwnerProject, "p")
		v.change(t, s)
		pass(time.Minute)
		if m.tried.Load() == 0 {
			t.Fatal("no save was tried")
		}
		begun := time.Now()
		v.ensure(t, sandbox.OwnerProject, "p")
		if d := time.Since(begun); d > 0 {
			t.Errorf("an ensure of the running sandbox took %v", d)
		}
		if got, err := v.HandleOn(v.row(t, s.ID), "test").Stop(t.Context()); err != nil || got.State != sandbox.Stopped {
			t.Fatal(got.State, err)
		}
		if d := time.Since(begun); d > 15*time.Second {
			t.Errorf("the stop took %v", d)
		}
		if row := v.row(t, s.ID); row.UnsavedSince.IsZero() {
			t.Error("what was not saved is recorded as saved")
		}
	})
}

// A caller gets its sandbox when it runs. A save that is due then is left to the background.
func TestAStartWaitsForNoSave(t *testing.T) {
	testkit.Proves(t, "S18")
	synctest.Test(t, func(t *testing.T) {
		v, m := inMemoryMoody()
		m.hangs.Store(true)
		s := v.ensure(t, sandbox.OwnerProject, "p")
		v.change(t, s)
		if got, err := v.HandleOn(v.row(t, s.ID), "test").Stop(t.Context()); err != nil || got.State != sandbox.Stopped {
			t.Fatal(got.State, err)
		}
		pass(time.Minute)
		begun := time.Now()
		v.ensure(t, sandbox.OwnerProject, "p")
		if d := time.Since(begun); d > 5*time.Second {
			t.Errorf("the start took %v", d)
		}
		m.hangs.Store(false)
		defer v.run(t)()
		pass(time.Minute)
		if row := v.row(t, s.ID); v.saves.Load() != 1 || !row.UnsavedSince.IsZero() {
			t.Errorf("%d saves, unsaved since %v", v.saves.Load(), row.UnsavedSince)
		}
	})
}

func TestAHangingLastSaveCanBeSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, m := inMemoryMoody()
		defer v.run(t)()
		m.hangs.Store(true)
		s := v.ensure(t, sandbox.OwnerProject, "p")
		v.change(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if got, err := v.Delete(ctx, "default", s.ID, "test", false); err != nil || got.State == sandbox.Terminated {
			t.Fatalf("%s, %v", got.State, err)
		}
		begun := time.Now()
		if got, err := v.Delete(t.Context(), "default", s.ID, "test", true); err != nil || got.State != sandbox.Terminated {
			t.Fatalf("%s, %v", got.State, err)
		}
		if d := time.Since(begun); d > 5*time.Second {
			t.Errorf("it took %v", d)
		}
	})
}

func TestWhatALostInstanceTookIsRecorded(t *testing.T) {
	testkit.Proves(t, "S18")
	synctest.Test(t, func(t *testing.T) {
		v := inMemory()
		defer v.run(t)()
		s := v.ensure(t, sandbox.OwnerProject, "p")
		v.change(t, s)
		pass(time.Minute)
		if err := v.boxes.Destroy(t.Context(), driver.ID(s.Instance)); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Minute)
		row := v.row(t, s.ID)
		if row.State != sandbox.Running || row.Incarnation != 2 || !row.Lost.At.IsZero() {
			t.Fatalf("everything was saved: %+v", row)
		}
		v.change(t, s)
		since := v.row(t, s.ID).UnsavedSince
		if err := v.boxes.Destroy(t.Context(), driver.ID(row.Instance)); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Minute)
		row = v.row(t, s.ID)
		if row.Incarnation != 3 || !row.Lost.Since.Equal(since) || row.Lost.At.IsZero() || !row.UnsavedSince.IsZero() {
			t.Errorf("lost %+v, want since %v; %+v", row.Lost, since, row)
		}
		found := false
		for _, h := range v.history(s.ID) {
			found = found || h.Event == sandbox.EventLost && strings.Contains(h.Reason, "were not saved and are lost")
		}
		if !found {
			t.Errorf("the history does not say so: %+v", v.history(s.ID))
		}
	})
}
