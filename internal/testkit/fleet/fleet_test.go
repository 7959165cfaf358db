package fleet_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/testkit/fleet"
)

func TestServersAreKilledStoppedPausedAndStarted(t *testing.T) {
	t.Parallel()
	f := fleet.New(t, fleet.Options{Replicas: 2, Apart: true})
	if _, _, err := f.Client(0).Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "box"}); err != nil {
		t.Fatal(err)
	}
	first := f.PID(0)
	f.Kill(0)
	if f.PID(0) != 0 || f.Address(0) != "" {
		t.Errorf("a killed server has the pid %d and the address %q", f.PID(0), f.Address(0))
	}
	if _, err := f.Client(0, client.WithAttempts(1)).Sandboxes.Get(t.Context(), "box"); codeOf(err) != api.CodeServerUnreachable {
		t.Errorf("a killed server answers %v", err)
	}
	for range 3 { // the balancer may start with the killed server
		if _, err := f.Any(client.WithAttempts(1)).Sandboxes.Get(t.Context(), "box"); err != nil {
			t.Error(err)
		}
	}
	if err := f.Start(0); err != nil || f.PID(0) == first {
		t.Errorf("started again with pid %d: %v", f.PID(0), err)
	}
	f.Pause(1)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := f.Client(1).Sandboxes.Get(ctx, "box"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused server answers %v", err)
	}
	f.Resume(1)
	if _, err := f.Client(1).Sandboxes.Get(t.Context(), "box"); err != nil {
		t.Error(err)
	}
	if err := f.Stop(1); err != nil {
		t.Error(err)
	}
	if err := f.Stop(1); err != nil {
		t.Errorf("a second stop: %v", err)
	}
	f.Pause(1) // no server runs there
}

func TestServerThatCannotStartSaysSo(t *testing.T) {
	t.Parallel()
	f := fleet.New(t, fleet.Options{Faulty: true})
	if err := f.Start(0); err == nil || !strings.Contains(err.Error(), "one runs") {
		t.Errorf("a second server in one place: %v", err)
	}
	f.Kill(0)
	f.Database.Cut()
	if err := f.Start(0); err == nil || !strings.Contains(err.Error(), "ended before it was ready") {
		t.Errorf("a server without its database: %v", err)
	}
	if err := errors.Join(f.Database.Heal(), f.Start(0)); err != nil {
		t.Error(err)
	}
}

func TestServersInThisProcess(t *testing.T) {
	t.Parallel()
	f := fleet.New(t, fleet.Options{Replicas: 2, Here: true})
	made, _, err := f.Client(0).Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "box"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.Client(1).Sandboxes.Get(t.Context(), "box")
	if err != nil || got.ID != made.ID {
		t.Errorf("%+v, %v", got, err)
	}
	if err := errors.Join(f.Stop(0), f.Start(0)); err != nil || f.PID(0) != 0 {
		t.Errorf("%v; pid %d", err, f.PID(0))
	}
	if _, err := f.Client(0).Sandboxes.Get(t.Context(), "box"); err != nil {
		t.Error(err)
	}
}

func TestUnsettledFindsWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	f := fleet.New(t, fleet.Options{SQLite: true, Here: true})
	c := f.Any()
	if err := f.Unsettled(t.Context()); err != nil {
		t.Errorf("with nothing there: %v", err)
	}
	missing, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "missing"})
	if err == nil {
		_, _, err = c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "fine"})
	}
	if err != nil {
		t.Fatal(err)
	}
	const nobodys = "01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10"
	_, err = f.Driver.Create(t.Context(), driver.Spec{Key: driver.Key{Sandbox: nobodys, Incarnation: 1}, Tenant: "default"})
	if err != nil {
		t.Fatal(err)
	}
	blind := fake.SetFaults(f.Dir, []fake.Fault{{Error: "error"}}) // otherwise a sweep may repair the differences
	if err := errors.Join(blind, f.Driver.Vanish(driver.ID(missing.Instance))); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Sandboxes.Stop(t.Context(), "fine"); err == nil {
		t.Fatal("stopped, and the driver cannot be reached")
	}
	err = f.Unsettled(t.Context())
	for _, want := range []string{missing.ID + " (missing) is running and names", "the driver has []", "nobody has the sandbox " + nobodys, "(fine) is stopping and wanted stopped"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if err := fake.SetFaults(f.Dir, nil); err != nil {
		t.Error(err)
	}
}

func TestDoublesFindsTwoAtOnce(t *testing.T) {
	create := func(box string, id driver.ID) fake.Call {
		return fake.Call{Op: fake.Create, Key: driver.Key{Sandbox: box}, ID: id, Effect: true, Outcome: "ok"}
	}
	destroy := func(id driver.ID, effect bool, outcome string) fake.Call {
		return fake.Call{Op: fake.Destroy, ID: id, Effect: effect, Outcome: outcome}
	}
	for name, c := range map[string]struct {
		calls []fake.Call
		found int
	}{
		"one each":                      {[]fake.Call{create("a", "a1"), create("b", "b1")}, 0},
		"one after the other":           {[]fake.Call{create("a", "a1"), destroy("a1", true, "ok"), create("a", "a2")}, 0},
		"a killed server was ending it": {[]fake.Call{create("a", "a1"), destroy("a1", false, ""), create("a", "a2")}, 0},
		"its end failed":                {[]fake.Call{create("a", "a1"), destroy("a1", false, "transient"), create("a", "a2")}, 1},
		"beside":                        {[]fake.Call{create("a", "a1"), create("a", "a2"), destroy("a1", true, "ok")}, 1},
		"asked twice, made once":        {[]fake.Call{create("a", "a1"), {Op: fake.Create, Key: driver.Key{Sandbox: "a"}, Outcome: "exists"}}, 0},
	} {
		if found := fleet.Doubles(c.calls); len(found) != c.found {
			t.Errorf("%s: %v", name, found)
		}
	}
	if n := fleet.Creates([]fake.Call{create("a", "a1"), create("a", "a2"), destroy("a1", true, "ok")}); n["a"] != 2 || len(n) != 1 {
		t.Errorf("creates %v", n)
	}
}

func TestOverlapsFindsTwoOfOneOwner(t *testing.T) {
	at := func(s int) time.Time {
		if s == 0 {
			return time.Time{}
		}
		return time.Unix(int64(s), 0)
	}
	life := func(owner, box string, from, to int) fake.Life {
		return fake.Life{ID: driver.ID(box), Key: driver.Key{Sandbox: box}, Labels: map[string]string{"berth.owner.kind": "project", "berth.owner.id": owner}, From: at(from), To: at(to)}
	}
	for name, c := range map[string]struct {
		lives []fake.Life
		found int
	}{
		"one after the other":        {[]fake.Life{life("p", "a", 1, 2), life("p", "b", 2, 3), life("p", "c", 4, 0)}, 0},
		"of two owners":              {[]fake.Life{life("p", "a", 1, 0), life("q", "b", 2, 0)}, 0},
		"a successor too early":      {[]fake.Life{life("p", "a", 1, 3), life("p", "b", 2, 0)}, 1},
		"beside one that stays":      {[]fake.Life{life("p", "a", 1, 0), life("p", "b", 2, 3)}, 1},
		"under one that lasted long": {[]fake.Life{life("p", "a", 1, 9), life("p", "b", 2, 3), life("p", "c", 4, 5)}, 2},
	} {
		if found := fleet.Overlaps(c.lives, nil); len(found) != c.found {
			t.Errorf("%s: %v", name, found)
		}
	}
	if found := fleet.Overlaps([]fake.Life{life("p", "a", 1, 3), life("p", "b", 2, 0)}, func(l fake.Life) bool { return l.ID == "b" }); len(found) != 0 {
		t.Errorf("a stray counts: %v", found)
	}
}
