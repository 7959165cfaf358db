package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
)

// machine is a server on another machine with its sandboxes, in the same database.
func (at place) machine(t *testing.T, host, url string) *server {
	t.Helper()
	at.FakeDir = t.TempDir()
	return at.open(t, func(o *engine.Options) {
		withHelpers(new(manned))(o)
		o.Host, o.AdvertiseURL, o.Restorer = host, url, restorer{}
	})
}

// runHost reports that the machine runs until the condition holds.
func (s *server) runHost(t *testing.T, until func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.RunHost(ctx, engine.SweepOptions{}) }()
	testkit.Eventually(t, 30*time.Second, until)
	cancel()
	<-ended
}

func (s *server) alive(t *testing.T, host string) func() error {
	return func() error {
		h, err := s.db.Hosts().Host(t.Context(), host)
		if err == nil && !h.Alive {
			err = fmt.Errorf("%+v", h)
		}
		return err
	}
}

// The answer about a sandbox of another machine names that machine's address, or what to do about it.
func TestWrongHostNamesTheOther(t *testing.T) {
	testkit.Proves(t, "X2")
	at := onPostgres(t)
	north, south, quiet := at.machine(t, "north", "https://north.example.com"), at.machine(t, "south", ""), at.machine(t, "quiet", "")
	north.ensure(t, project("a"))
	quiet.ensure(t, project("b"))
	refused := func(owner string, wants ...string) {
		t.Helper()
		_, _, err := south.Ensure(t.Context(), engine.Request{Owner: project(owner)})
		var e *fault.Error
		if !errors.As(err, &e) || e.Code != api.CodeWrongHost {
			t.Fatalf("%v", err)
		}
		for _, want := range wants {
			if !strings.Contains(e.Error()+" "+e.Hint, want) {
				t.Errorf("%q is not in %q, %q", want, e, e.Hint)
			}
		}
	}
	refused("a", "north", "berth host forget north")
	north.runHost(t, south.alive(t, "north"))
	quiet.runHost(t, south.alive(t, "quiet"))
	refused("a", "north at https://north.example.com", "Send the request to https://north.example.com")
	refused("b", "quiet", "advertise_url", "BERTH_ADVERTISE_URL")
}

// A machine is gone for good. Once it is forgotten its sandboxes start elsewhere, the deletes that waited for
// it are finished, and should it come back it stops what it had, and keeps the files.
func TestForgottenMachine(t *testing.T) {
	testkit.Proves(t, "O1", "O8", "S18", "X2")
	at := onPostgres(t)
	gone, here := at.machine(t, "gone", ""), at.machine(t, "here", "https://here.example.com")
	a, b, c := gone.ensure(t, project("a")), gone.ensure(t, project("b")), gone.ensure(t, project("c"))
	gone.Handle("default", a.ID, "user").Changed(t.Context())
	a, err := gone.db.Sandbox(t.Context(), a.ID)
	if err != nil || a.UnsavedSince.IsZero() {
		t.Fatalf("%+v, %v", a, err)
	}
	here.deleteBriefly(t, c)
	gone.runHost(t, here.alive(t, "gone"))
	if _, err := here.Forget(t.Context(), "gone", false, "admin"); fault.CodeOf(err) != api.CodeConflict {
		t.Fatalf("forgot a machine that runs: %v", err)
	}
	if _, err := here.Forget(t.Context(), "here", true, "admin"); fault.CodeOf(err) != api.CodeConflict {
		t.Errorf("the machine that answers: %v", err)
	}
	forgotten, err := here.Forget(t.Context(), "gone", true, "admin")
	if err != nil || len(forgotten) != 3 {
		t.Fatalf("%+v, %v", forgotten, err)
	}
	for _, f := range forgotten {
		if f.Err != nil || !f.Lost || f.Sandbox.Deleted() != (f.Sandbox.ID == c.ID) || f.Sandbox.Synced.Version != "v1" {
			t.Errorf("%+v", f)
		}
	}
	// Nothing of it is left to the old machine.
	reborn := here.ensure(t, project("a"))
	if reborn.ID != a.ID || reborn.Host != "here" || reborn.Incarnation != 2 {
		t.Errorf("reborn as %+v", reborn)
	}
	if !reborn.Lost.Since.Equal(a.UnsavedSince) || !strings.Contains(engine.Notice(a.ActiveAt, reborn), "were not saved and are lost") {
		t.Errorf("it lost changes since %v, and the record has %+v", a.UnsavedSince, reborn.Lost)
	}
	here.reconcile(t, func() error {
		sb, err := here.db.Sandbox(t.Context(), c.ID)
		if err == nil && sb.State != sandbox.Terminated {
			err = fmt.Errorf("the deleted one is %s", sb.State)
		}
		return err
	})
	if next := here.ensure(t, project("c")); next.ID == c.ID || next.Host != "here" {
		t.Errorf("the owner of the deleted one has %+v", next)
	}
	// It comes back.
	gone.runHost(t, here.alive(t, "gone"))
	left := gone.phases(t)
	if left[a.ID] != driver.PhaseStopped || left[c.ID] != "" || len(left) != 2 && len(left) != 1 {
		t.Errorf("the old machine has %v", left)
	}
	if _, _, err := gone.Ensure(t.Context(), engine.Request{Owner: project("a")}); fault.CodeOf(err) != api.CodeWrongHost {
		t.Errorf("the old machine answers %v", err)
	}
	// What it starts itself again is another incarnation; what was left stays as it is.
	sb, err := here.db.Sandbox(t.Context(), b.ID)
	if err != nil {
		t.Fatal(err)
	}
	if sb.Host == "" {
		if back := gone.ensure(t, project("b")); back.Host != "gone" || back.Incarnation != 2 || len(gone.live(t)[b.ID]) != 2 {
			t.Errorf("%+v; the machine has %v", back, gone.live(t)[b.ID])
		}
	}
	sweep, err := gone.Sweep(t.Context(), engine.SweepOptions{})
	if err != nil || len(sweep.Drivers[0].Found) == 0 || sweep.Drivers[0].Found[0].Kind != engine.FoundLeft || sweep.Drivers[0].Found[0].Action != engine.ActionKept {
		t.Errorf("%+v, %v", sweep, err)
	}
	// The delete of a sandbox ends what was left of it.
	if _, err := here.Delete(t.Context(), "default", a.ID, "test", true); err != nil {
		t.Fatal(err)
	}
	if _, err := gone.Sweep(t.Context(), engine.SweepOptions{}); err != nil {
		t.Fatal(err)
	}
	if left := gone.phases(t); left[a.ID] != "" {
		t.Errorf("the old machine still has %v", left)
	}
}

// phases are those of the first instance of each sandbox.
func (s *server) phases(t *testing.T) map[string]driver.Phase {
	t.Helper()
	all, err := s.fake.Live()
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]driver.Phase{}
	for _, st := range all {
		if st.Key.Incarnation == 1 {
			by[st.Key.Sandbox] = st.Phase
		}
	}
	return by
}
