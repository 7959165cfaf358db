package project_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/project"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

func TestFirstEnsureMakesTheProject(t *testing.T) {
	testkit.Proves(t, "P8", "O1")
	onBoth(t, func(w *world) {
		ctx := w.t.Context()
		_, err := w.Projects.Get(ctx, "p")
		fails(w.t, err, api.CodeNotFound)
		spec := sandbox.Spec{Metadata: map[string]string{"team": "x"}}
		made, created, err := w.Projects.Ensure(ctx, "p", spec, "")
		if err != nil || !created || made.State != sandbox.Running || made.Owner.Kind != sandbox.OwnerProject {
			w.t.Fatalf("made %+v, %v, %v", made, created, err)
		}
		again, created, err := w.Projects.Ensure(ctx, "p", spec, "")
		if err != nil || created || again.ID != made.ID {
			w.t.Errorf("the second time %+v, %v, %v", again, created, err)
		}
		_, _, err = w.Projects.Ensure(ctx, "p", sandbox.Spec{Metadata: map[string]string{"team": "y"}}, "")
		fails(w.t, err, api.CodeSpecMismatch)
		if got := w.get("p"); got.ID != made.ID {
			w.t.Errorf("got %s, made %s", got.ID, made.ID)
		}
	})
}

func TestManyAtOnceGetOneSandbox(t *testing.T) {
	testkit.Proves(t, "P1", "O1")
	onBoth(t, func(w *world) {
		var wg sync.WaitGroup
		ids := make([]string, 20)
		for i := range ids {
			wg.Go(func() { ids[i] = w.ensure("p").ID })
		}
		wg.Wait()
		slices.Sort(ids)
		live, err := w.fake.Live()
		if len(slices.Compact(ids)) != 1 || err != nil || len(live) != 1 {
			w.t.Errorf("sandboxes %v, instances %v, %v", ids, live, err)
		}
	})
}

func TestAnotherTenantsProjectIsAnother(t *testing.T) {
	onBoth(t, func(w *world) {
		ctx, mine := w.t.Context(), w.ensure("p")
		rival := w.of("rival")
		_, err := rival.Get(ctx, "p")
		fails(w.t, err, api.CodeNotFound)
		_, err = rival.Delete(ctx, "p", false)
		fails(w.t, err, api.CodeNotFound)
		theirs, created, err := rival.Ensure(ctx, "p", sandbox.Spec{}, "")
		if err != nil || !created || theirs.ID == mine.ID {
			w.t.Errorf("%+v, %v, %v", theirs, created, err)
		}
		if s, err := rival.Delete(ctx, "p", false); err != nil || s.State != sandbox.Terminated {
			w.t.Errorf("deleted %+v, %v", s, err)
		}
		if s := w.get("p"); s.State != sandbox.Running {
			w.t.Errorf("mine is %s", s.State)
		}
	})
}

// A project's life in the words of its API.
func TestLifeOfAProject(t *testing.T) {
	testkit.Proves(t, "P1", "P8", "O7")
	onBoth(t, func(w *world) {
		ctx, p := w.t.Context(), w.Projects
		made := w.ensure("p")
		if s, err := p.Restart(ctx, "p"); err != nil || s.State != sandbox.Running || s.ID != made.ID || s.Instance != made.Instance {
			w.t.Errorf("restarted %+v, %v", s, err)
		}
		s, err := p.Terminate(ctx, "p", false)
		if err != nil || s.State != sandbox.Terminated || s.Instance != "" || s.ID != made.ID || s.Deleted() {
			w.t.Errorf("terminated %+v, %v", s, err)
		}
		if word := w.get("p").State.ProjectStatus(); word != "TERMINATED" {
			w.t.Errorf("status %s", word)
		}
		if s := w.ensure("p"); s.ID != made.ID || s.Incarnation != 2 {
			w.t.Errorf("revived as %+v", s)
		}
		if s, err := p.Delete(ctx, "p", true); err != nil || s.State != sandbox.Terminated || !s.Deleted() {
			w.t.Errorf("deleted %+v, %v", s, err)
		}
		for name, err := range map[string]error{
			"get": second(p.Get(ctx, "p")), "restart": second(p.Restart(ctx, "p")), "terminate": second(p.Terminate(ctx, "p", false)),
			"delete": second(p.Delete(ctx, "p", false)), "look": second(p.Inspect(ctx, "p")), "reconcile": second(p.Reconcile(ctx, "p")),
		} {
			if fault.CodeOf(err) != api.CodeNotFound || !strings.Contains(err.Error(), `"p"`) {
				w.t.Errorf("%s of a project that is deleted: %v", name, err)
			}
		}
		if s := w.ensure("p"); s.ID == made.ID {
			w.t.Error("the tombstone came back")
		}
	})
}

func second[T any](_ T, err error) error { return err }

// A look compares and changes nothing; reconcile acts on it.
func TestLookAndReconcile(t *testing.T) {
	testkit.Proves(t, "P1")
	onBoth(t, func(w *world) {
		ctx, p := w.t.Context(), w.Projects
		made := w.ensure("p")
		l, err := p.Inspect(ctx, "p")
		if err != nil || !l.Healthy() || !l.Agrees() || len(l.Would) != 0 {
			w.t.Errorf("well: %+v, %v", l, err)
		}
		if err := w.fake.Vanish(driver.ID(made.Instance)); err != nil {
			w.t.Fatal(err)
		}
		for range 2 { // the first changed nothing
			l, err = p.Inspect(ctx, "p")
			if err != nil || l.Healthy() || l.Agrees() || l.Seen.Sight != sandbox.Missing || len(l.Would) == 0 || l.Sandbox.State != sandbox.Running {
				w.t.Errorf("lost: %+v, %v", l, err)
			}
		}
		l, err = p.Reconcile(ctx, "p")
		if err != nil || !l.Healthy() || !l.Agrees() || l.Sandbox.Incarnation != 2 || l.Sandbox.ID != made.ID {
			w.t.Errorf("reconciled: %+v, %v", l, err)
		}
		away := w.fake.On(fake.List).Fail(fake.ErrUnreachable)
		l, err = p.Inspect(ctx, "p")
		if err != nil || l.Healthy() || l.Seen.Sight != sandbox.Unreachable {
			w.t.Errorf("unreachable: %+v, %v", l, err)
		}
		away.Off()
		if got := w.get("p"); got.Incarnation != 2 || got.State != sandbox.Running {
			w.t.Errorf("what cannot be seen was taken for lost: %+v", got)
		}
	})
}

func TestReadingIsNoUse(t *testing.T) {
	onBoth(t, func(w *world) {
		ctx, p := w.t.Context(), w.Projects
		w.ensure("p")
		w.unused("acme", "p", time.Hour)
		before := w.get("p").ActiveAt
		_, _, err := p.List(ctx, "RUNNING", store.Page{})
		for _, err := range []error{second(p.Get(ctx, "p")), second(p.Inspect(ctx, "p")), second(p.Reconcile(ctx, "p")), err} {
			if err != nil {
				w.t.Error(err)
			}
		}
		if after := w.get("p").ActiveAt; !after.Equal(before) {
			w.t.Errorf("last used %v, before it was read %v", after, before)
		}
		if w.ensure("p"); !w.get("p").ActiveAt.After(before) {
			w.t.Error("ensuring is no use")
		}
	})
}

func TestIDsOfProjects(t *testing.T) {
	for _, id := range []string{"p", "org/repo", `a\b`, "a b", "Größe", "日本", "a%2Fb", "?q#f", strings.Repeat("x", 255), "a..b", "Sandboxes", "mcp"} {
		if err := project.CheckID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"", strings.Repeat("x", 256), "a\nb", "a\x00b", "\xff", "\u200b", "sandboxes", ".", "..", "...", "a/..", "../a", "a//b", "/a", "a/", "a/./b"} {
		fails(t, project.CheckID(id), api.CodeInvalidID)
	}
	w := newWorld(t, store.Options{DataDir: t.TempDir()})
	ctx := t.Context()
	_, _, err := w.Projects.Ensure(ctx, "..", sandbox.Spec{}, "")
	fails(t, err, api.CodeInvalidID)
	_, err = w.Projects.Get(ctx, "sandboxes")
	fails(t, err, api.CodeInvalidID)
}

// A project's sandbox has no timers.
func TestNothingStopsAProjectByItself(t *testing.T) {
	testkit.Proves(t, "T6")
	onBoth(t, func(w *world) {
		w.ensure("p")
		w.unused("acme", "p", 1000*time.Hour)
		w.exec(`update sandboxes set due_at = %s`, time.Hour)
		if _, err := w.engine.Reconcile(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		if s := w.get("p"); s.State != sandbox.Running || s.Want != sandbox.WantRunning {
			w.t.Errorf("%s, asked to be %s", s.State, s.Want)
		}
	}, func(o *engine.Options) { o.Restorer = &safe{} })
}
