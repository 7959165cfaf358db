package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/testkit"
)

func (s *site) explained(ref string) api.Explanation {
	s.t.Helper()
	return into[api.Explanation](s.get(sandboxesPath + "/" + ref + "/explain").is(http.StatusOK))
}

func TestSandboxIsExplained(t *testing.T) {
	testkit.Proves(t, "O6")
	onBoth(t, func(t *testing.T, s *site) {
		e := s
		made := into[api.Sandbox](e.post(sandboxesPath, `{"name":"box"}`).is(http.StatusCreated))
		why := e.explained("box")
		if why.Sandbox.ID != made.ID || !strings.HasPrefix(why.Summary, "Running for ") || !strings.Contains(why.Summary, "it is stopped in 14 minutes unless it is used.") {
			t.Errorf("running: %s", why.Summary)
		}
		if len(why.Because) < 3 || why.Because[0].To != "running" || why.Left != nil || why.Holds != nil || len(why.Keeps) != 4 {
			t.Errorf("running: %+v", why)
		}
		ahead := map[string]api.Prospect{}
		for _, p := range why.Ahead {
			ahead[p.What] = p
		}
		if p := ahead["stop"]; p.At == nil || !strings.Contains(p.Why, "15m") {
			t.Errorf("stop: %+v", p)
		}
		if p := ahead["archive"]; p.At != nil || p.Off == "" {
			t.Errorf("archive, which is impossible: %+v", p)
		}

		if err := s.db.Holds().Hold(t.Context(), made.ID, "terminal", "x", time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if why = e.explained("box"); len(why.Holds) != 1 || why.Holds[0].Kind != "terminal" || !strings.Contains(why.Summary, "in use (terminal); it is stopped in 59 minutes") {
			t.Errorf("held: %+v %s", why.Holds, why.Summary)
		}

		e.post(sandboxesPath+"/box/stop", "").is(http.StatusOK)
		if why = e.explained("box"); !strings.HasPrefix(why.Summary, "Stopped ") || !strings.Contains(why.Summary, "because it was asked to stop by key ") ||
			!strings.Contains(why.Summary, "; its files are kept; the next use starts it.") {
			t.Errorf("stopped: %s", why.Summary)
		}
		e.post(sandboxesPath+"/box/terminate", "").is(http.StatusOK)
		if why = e.explained("box"); !strings.HasPrefix(why.Summary, "Terminated ") || !strings.Contains(why.Summary, "its files are gone; the next use begins anew.") || len(why.Ahead) != 0 {
			t.Errorf("terminated: %s %+v", why.Summary, why.Ahead)
		}
		e.remove(sandboxesPath + "/box").is(http.StatusNoContent)
		e.get(sandboxesPath + "/box/explain").fails(api.CodeNotFound)
		if why = e.explained(made.ID); !strings.HasPrefix(why.Summary, "Deleted ") || why.Sandbox.DeletedAt == nil {
			t.Errorf("deleted: %s", why.Summary)
		}
		e.get(sandboxesPath + "/Not_A_Name/explain").fails(api.CodeInvalidID)
		e.do(call{path: sandboxesPath + "/" + made.ID + "/explain", key: e.newKey("other", api.ScopeRead)}).fails(api.CodeNotFound)
	})
}

// What a driver says is explained without the values of the environment.
func TestExplanationShowsNoEnvironment(t *testing.T) {
	s := newSite(t)
	const canary = "canary+of/the environment"
	s.fake.On(fake.Create).Fail(fmt.Errorf("%w: no room for %s", driver.ErrInvalid, canary))
	s.post(sandboxesPath, fmt.Sprintf(`{"name":"box","env":{"TOKEN":%q}}`, canary))
	a := s.get(sandboxesPath + "/box/explain").is(http.StatusOK)
	if why := into[api.Explanation](a); !strings.HasPrefix(why.Summary, "In error for ") || !strings.Contains(why.Summary, "no room for") || !strings.Contains(why.Summary, "the next use tries again.") {
		t.Errorf("summary %s", why.Summary)
	}
	if strings.Contains(string(a.body), "canary") {
		t.Errorf("shows the environment: %s", a.body)
	}
}
