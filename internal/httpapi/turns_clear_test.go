package httpapi

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// What would end a turn is refused while it runs, unless forced: then the turn finishes first.
func TestTurnHoldsItsSandbox(t *testing.T) {
	testkit.Proves(t, "C3", "H4")
	w := newTalks(t)
	box := into[api.Sandbox](w.post(sandboxesPath, `{"name":"box"}`).is(http.StatusCreated))
	path, _ := w.new(`{"sandbox_id":"box"}`)
	for _, base := range []string{sandboxesPath, "/api/v1/sandbox"} {
		for verb, state := range map[string]string{"stop": "stopped", "restart": "running", "terminate": "terminated"} {
			s := w.prompt(path+"/messages", "a wait:never")
			s.upTo("a")
			one := base + "/" + box.ID + "/" + verb
			w.post(one, "").fails(api.CodeTurnRunning)
			w.post(one+"?force=false", "").fails(api.CodeTurnRunning)
			before := into[api.Sandbox](w.get(sandboxesPath + "/box").is(http.StatusOK))
			if before.State != "running" || before.Want != "running" || before.TurnID != s.turn() {
				t.Errorf("after a refused %s: %+v", verb, before)
			}
			w.at = func(string) { // with the hooks of the turn the sandbox runs
				if sb, err := w.db.In("acme").ByID(t.Context(), box.ID); err != nil || sb.State != "running" || sb.Want != "running" {
					t.Errorf("while the turn finishes, its sandbox is %s, asked to be %s: %v", sb.State, sb.Want, err)
				}
			}
			got := into[api.Sandbox](w.post(one+"?force=true", "").is(http.StatusOK))
			if got.State != state || !slices.Contains(w.finished(), s.turn()) {
				t.Errorf("after %s: %+v", verb, got)
			}
			events := s.rest()
			if end := events[len(events)-1]; end.Status != api.TurnCancelled || end.Message != "asked to "+verb+" its sandbox" {
				t.Errorf("%+v", end)
			}
			w.at = nil
		}
	}
	w.post(sandboxesPath+"/box/archive?force=true", "").fails(api.CodeUnsupported) // nothing is saved here
	s := w.prompt(path+"/messages", "a wait:never")
	s.upTo("a")
	w.post(sandboxesPath+"/box/archive", "").fails(api.CodeTurnRunning)
	w.post(sandboxesPath+"/box/start?force=true", "").fails(api.CodeInvalidRequest)
	// Deleting needs no force.
	w.remove(sandboxesPath + "/box").is(http.StatusNoContent)
	if events := s.rest(); events[len(events)-1].Status != api.TurnCancelled {
		t.Errorf("%+v", events)
	}
	w.post(path+"/messages", promptBody("x")).fails(api.CodeDeleted)
	if n := len(w.finished()); n != 7 {
		t.Errorf("hooks ran after %d turns, of 7", n)
	}
}

func TestTurnHoldsItsProject(t *testing.T) {
	testkit.Proves(t, "C3")
	w := newTalks(t)
	project := into[api.ProjectSandbox](w.post(projectsPath+"/p/sandbox", "").is(http.StatusCreated))
	path, _ := w.new(`{"sandbox_id":"` + project.SandboxID + `"}`)
	begin := func() turnWatcher {
		s := w.prompt(path+"/messages", "a wait:never")
		s.upTo("a")
		return s
	}
	for _, c := range []struct{ method, path string }{
		{http.MethodPost, projectsPath + "/p/sandbox/restart"}, {http.MethodDelete, projectsPath + "/p/sandbox"},
	} {
		s := begin()
		w.do(call{method: c.method, path: c.path, key: w.write}).fails(api.CodeTurnRunning)
		w.do(call{method: c.method, path: c.path + "?force=true", key: w.write}).is(http.StatusOK)
		s.rest()
	}
	s := begin()
	w.remove(projectsPath + "/p").is(http.StatusNoContent)
	s.rest()
	if n := len(w.finished()); n != 3 {
		t.Errorf("hooks ran after %d turns, of 3", n)
	}
}

// A turn that does not end holds no deletion up.
func TestDeafTurnDoesNotHoldUpADelete(t *testing.T) {
	w := newTalks(t, func(o *Options) { o.DeleteWait = time.Second })
	w.post(sandboxesPath, `{"name":"box"}`).is(http.StatusCreated)
	path, _ := w.new(`{"sandbox_id":"box"}`)
	s := w.prompt(path+"/messages", "a deaf:x")
	s.upTo("a")
	if got := w.remove(sandboxesPath + "/box"); got.status != http.StatusNoContent && got.status != http.StatusAccepted {
		t.Errorf("%d %s", got.status, got.body)
	}
	w.agents.open("x")
	s.rest()
}

func TestForcedStopWaitsNoLongerThanItsRequest(t *testing.T) {
	w := newTalks(t, func(o *Options) { o.RequestTimeout = time.Second })
	w.post(sandboxesPath, `{"name":"box"}`).is(http.StatusCreated)
	path, _ := w.new(`{"sandbox_id":"box"}`)
	s := w.prompt(path+"/messages", "a deaf:x")
	s.upTo("a")
	w.post(sandboxesPath+"/box/stop?force=true", "").fails(api.CodeTimeout)
	if got := into[api.Sandbox](w.get(sandboxesPath + "/box").is(http.StatusOK)); got.Want != "running" {
		t.Errorf("%+v", got)
	}
	w.agents.open("x")
	s.rest()
}
