package httpapi

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
)

// vault is a Restorer that remembers what it saved.
type vault struct {
	mu    sync.Mutex
	saved []string
}

func (v *vault) Restore(_ context.Context, s sandbox.Sandbox, _ driver.ID) (sandbox.SyncMark, error) {
	return sandbox.SyncMark{Version: s.Synced.Version, Incarnation: s.Incarnation}, nil
}

func (v *vault) Save(_ context.Context, s sandbox.Sandbox) (sandbox.SyncMark, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.saved = append(v.saved, s.Owner.ID)
	return sandbox.SyncMark{Version: "v1", Incarnation: s.Incarnation}, nil
}

// saving gives the engine a vault.
func (v *vault) saving(o *Options) {
	o.changeEngine(func(e *engine.Options) { e.Restorer = v })
	o.Saves = true
}

func TestSandboxIsTerminatedAndRevived(t *testing.T) {
	testkit.Proves(t, "O1")
	s := newSite(t)
	made := into[api.Sandbox](s.post(sandboxesPath, `{"name":"box"}`).is(http.StatusCreated))
	for range 2 {
		ended := into[api.Sandbox](s.post(sandboxesPath+"/box/terminate", "").is(http.StatusOK))
		if ended.State != "terminated" || ended.Instance != "" || ended.DeletedAt != nil {
			t.Errorf("ended %+v", ended)
		}
	}
	again := into[api.Sandbox](s.post("/api/v1/sandbox/box/start", "").is(http.StatusOK))
	if again.ID != made.ID || again.State != "running" || again.Incarnation != 2 {
		t.Errorf("revived %+v", again)
	}
	s.post(sandboxesPath+"/box/terminate?sync=maybe", "").fails(api.CodeInvalidRequest)
	s.post(sandboxesPath+"/none/terminate", "").fails(api.CodeNotFound)
	away := s.fake.On(fake.Destroy).Fail(fake.ErrUnreachable)
	s.post(sandboxesPath+"/box/terminate", "").fails(api.CodeDriverUnreachable)
	away.Off()
}

// What cannot be saved is not archived: it says so, and what to do instead.
func TestArchiveNeedsAPlaceToSaveIn(t *testing.T) {
	s := newSite(t)
	s.post(sandboxesPath, `{"name":"box"}`).is(http.StatusCreated)
	if p := s.post(sandboxesPath+"/box/archive", "").fails(api.CodeUnsupported); p.Hint == api.CodeUnsupported.Info().Hint {
		t.Errorf("hint %q", p.Hint)
	}
	if got := into[api.Sandbox](s.get(sandboxesPath + "/box")); got.State != "running" || got.Want != "running" {
		t.Errorf("now %+v", got)
	}
}

func TestLastVersionIsSavedUnlessSkipped(t *testing.T) {
	testkit.Proves(t, "O7")
	v := &vault{}
	s := newSite(t, v.saving)
	for _, name := range []string{"archived", "ended", "skipped", "gone", "gone-skipped"} {
		s.post(sandboxesPath, `{"name":"`+name+`"}`).is(http.StatusCreated)
	}
	for _, id := range []string{"p-ended", "p-skipped", "p-gone", "p-gone-skipped"} {
		s.ensured(id)
	}
	if got := into[api.Sandbox](s.post(sandboxesPath+"/archived/archive", "").is(http.StatusOK)); got.State != "archived" {
		t.Errorf("archived: %+v", got)
	}
	s.post(sandboxesPath+"/ended/terminate", "").is(http.StatusOK)
	s.post(sandboxesPath+"/skipped/terminate?sync=false", "").is(http.StatusOK)
	s.remove(sandboxesPath + "/gone").is(http.StatusNoContent)
	s.remove(sandboxesPath + "/gone-skipped?sync=false").is(http.StatusNoContent)
	s.remove(at("p-ended") + "?sync=true").is(http.StatusOK)
	s.remove(at("p-skipped") + "?sync=false").is(http.StatusOK)
	s.remove(projectsPath + "/p-gone").is(http.StatusNoContent)
	s.remove(projectsPath + "/p-gone-skipped?sync=false").is(http.StatusNoContent)
	if want := []string{"archived", "ended", "gone", "p-ended", "p-gone"}; !slices.Equal(v.saved, want) {
		t.Errorf("saved %v, want %v", v.saved, want)
	}
	if why := s.explained("archived"); why.Sandbox.State != "archived" || len(why.Keeps) != 4 {
		t.Errorf("explained %+v", why)
	}
}

func TestSweepIsForOperators(t *testing.T) {
	testkit.Proves(t, "O8")
	onBoth(t, func(t *testing.T, s *site) {
		operator := s.newKey(auth.DefaultTenant, api.ScopeAdmin)
		sweep := func(key, body string) answer {
			return s.do(call{method: "POST", path: "/api/v1/sweep", key: key, body: body})
		}
		sweep(s.admin, "").fails(api.CodeForbidden)
		sweep(s.newKey(auth.DefaultTenant, api.ScopeWrite), "").fails(api.CodeForbidden)
		sweep(operator, `{"dry":true}`).fails(api.CodeInvalidRequest)

		made := into[api.Sandbox](s.post(sandboxesPath, `{"name":"box"}`).is(http.StatusCreated))
		if got := into[api.Sweep](sweep(operator, "").is(http.StatusOK)); len(got.Drivers) != 1 || got.Drivers[0].Instances != 1 || len(got.Drivers[0].Findings) != 0 || got.DryRun {
			t.Errorf("nothing to find: %+v", got)
		}
		if err := s.fake.Vanish(driver.ID(made.Instance)); err != nil {
			t.Fatal(err)
		}
		dry := into[api.Sweep](sweep(operator, `{"dry_run":true}`).is(http.StatusOK))
		want := api.SweepFinding{Kind: "missing", SandboxID: made.ID, Instance: made.Instance, Action: "kept", Detail: "a dry run"}
		if !dry.DryRun || len(dry.Drivers[0].Findings) != 1 || dry.Drivers[0].Findings[0] != want {
			t.Errorf("dry run: %+v", dry)
		}
		if got := into[api.Sweep](sweep(operator, "").is(http.StatusOK)); len(got.Drivers[0].Findings) != 1 || got.Drivers[0].Findings[0].Action != "settled" {
			t.Errorf("found: %+v", got)
		}
		if got := into[api.Sandbox](s.get(sandboxesPath + "/box")); got.State != "running" || got.Incarnation != 2 {
			t.Errorf("settled as %+v", got)
		}
		away := s.fake.On(fake.List).Fail(fake.ErrUnreachable)
		if got := into[api.Sweep](sweep(operator, "").is(http.StatusOK)); got.Drivers[0].Error == "" {
			t.Errorf("unreadable: %+v", got)
		}
		away.Off()
	})
}
