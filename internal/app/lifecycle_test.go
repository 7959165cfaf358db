package app_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	driverlocal "github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// A sandbox that nobody uses stops by itself and keeps its files; a command that somebody waits for
// keeps the timer away; where there is no object store, archiving, which nothing could save the files for,
// never happens.
func TestUnusedSandboxStopsByItself(t *testing.T) {
	testkit.Proves(t, "T6")
	t.Parallel()
	env := local(t)
	file := filepath.Join(t.TempDir(), "berth.toml")
	if err := os.WriteFile(file, []byte("[templates.quick.timers]\nauto_stop = \"10s\"\nauto_archive = \"11s\"\nauto_delete = \"12s\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, append(env, "BERTH_CONFIG="+file, "BERTH_RECONCILE_INTERVAL=50ms", "BERTH_OBJECT_STORE=none"))
	c := p.client(t)
	b := make1(t, c, api.CreateSandbox{Name: "box", Template: "quick"})
	began := time.Now()
	b.says("echo kept > f; sleep 13; echo whole", "whole\n") // longer than the timer
	if since := time.Since(began); since < 13*time.Second {
		t.Fatalf("the command took %s", since)
	}
	// The timer begins anew with the end of the hold, which counted as use.
	testkit.Eventually(t, 3*time.Minute, func() error {
		got, err := c.Sandboxes.Get(t.Context(), "box")
		if err != nil || got.State != "stopped" {
			return fmt.Errorf("%s, %v", got.State, err)
		}
		return nil
	})
	var why string
	for tr, err := range c.Sandboxes.History(t.Context(), "box") {
		if err != nil {
			t.Fatal(err)
		}
		if tr.Event == "want" {
			why = tr.Actor + ": " + tr.Reason
			break
		}
	}
	if !strings.HasPrefix(why, "timer: not used for 10s") {
		t.Errorf("stopped by %s", why)
	}
	if got, err := c.Sandboxes.Get(t.Context(), "box"); err != nil || got.State != "stopped" || got.Want != "stopped" {
		t.Errorf("%+v, %v", got, err)
	}
	b.says("cat f", "kept\n")
}

// One more sandbox than a tenant may have is refused with words; the one that goes makes room at once.
func TestQuotaOfSandboxes(t *testing.T) {
	testkit.Proves(t, "E6")
	t.Parallel()
	onBoth(t, func(t *testing.T, env []string) {
		c := start(t, append(env, "BERTH_MAX_SANDBOXES_PER_TENANT=2")).client(t)
		for _, name := range []string{"a", "b", "a"} {
			if _, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		_, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "c"})
		if p := problem(err); p.Code != api.CodeQuotaExceeded || p.Status != 429 || !strings.Contains(p.Detail, "2 sandboxes") || !strings.Contains(p.Hint, "max_sandboxes_per_tenant") {
			t.Errorf("one too many: %+v, %v", p, err)
		}
		if err := c.Sandboxes.Delete(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "c"}); err != nil {
			t.Error(err)
		}
	})
}

// What a driver has and no record claims is found by the sweep; what the record has and the driver has
// not is made anew.
func TestSweepOfRealSandboxes(t *testing.T) {
	testkit.Proves(t, "O8")
	t.Parallel()
	env := local(t)
	p := start(t, append(env, "BERTH_SANDBOX_HEALTH_CHECK_INTERVAL=1h", "BERTH_SWEEP_INTERVAL=1s"))
	c := p.client(t)
	b := make1(t, c, api.CreateSandbox{Name: "box"})
	box, err := c.Sandboxes.Get(t.Context(), "box")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(strings.TrimPrefix(env[0], "BERTH_DATA_DIR="), "local")
	d, err := driverlocal.New(t.Context(), driverlocal.Options{Dir: dir, Tier: driverlocal.TierRoot, Exe: testkit.Binary(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(d.WaitIdle(t.Context()), d.Close()); err != nil {
			t.Error(err)
		}
	}()
	foreign, err := d.Create(t.Context(), driver.Spec{Key: driver.Key{Sandbox: store.NewID(), Incarnation: 1}, Labels: map[string]string{engine.LabelTemplate: "default"}})
	if err != nil {
		t.Fatal(err)
	}
	// The instance of the record goes behind Berth's back: the sweep finds it missing and makes another.
	if err := d.Destroy(t.Context(), driver.ID(box.Instance)); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		got, err := c.Sandboxes.Get(t.Context(), "box")
		if err != nil || got.State != "running" || got.Incarnation != 2 {
			return fmt.Errorf("%s, incarnation %d, %v", got.State, got.Incarnation, err)
		}
		return nil
	})
	b.says("echo here", "here\n")
	// What an earlier life left beside the present one is ended.
	stray, err := d.Create(t.Context(), driver.Spec{Key: driver.Key{Sandbox: box.ID, Incarnation: 1}})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		if st, err := d.Inspect(t.Context(), stray.ID); !errors.Is(err, driver.ErrNotFound) {
			return fmt.Errorf("%+v, %v", st, err)
		}
		return nil
	})
	b.says("echo still here", "still here\n")
	// Without our label it is somebody else's, however long it is there.
	if st, err := d.Inspect(t.Context(), foreign.ID); err != nil || st.Phase != driver.PhaseRunning {
		t.Errorf("another installation's instance: %+v, %v", st, err)
	}
}
