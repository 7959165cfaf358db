package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// at is the path of a project's sandbox.
func at(id string, more ...string) string {
	return strings.Join(append([]string{projectsPath, url.PathEscape(id), "sandbox"}, more...), "/")
}

func (s *site) ensured(id string) api.ProjectSandbox {
	s.t.Helper()
	return into[api.ProjectSandbox](s.post(at(id), "").is(http.StatusCreated))
}

func TestProjectGetsItsSandbox(t *testing.T) {
	testkit.Proves(t, "P1", "P8")
	onBoth(t, func(t *testing.T, s *site) {
		s.get(at("p")).fails(api.CodeNotFound)
		const body = `{"template":"none","profile":"lite","env":{"TOKEN":"canary of a value"},"metadata":{"team":"x"}}`
		first := s.post(at("p"), body).is(http.StatusCreated)
		made := into[api.ProjectSandbox](first)
		want := api.ProjectSandbox{
			ID: made.SandboxID, ProjectID: "p", TenantID: "acme", SandboxID: made.SandboxID, Status: "RUNNING", State: "running",
			Template: "none", Driver: "fake", Profile: "lite", Metadata: map[string]string{"team": "x"},
			CreatedAt: made.CreatedAt, StartedAt: made.StartedAt, LastAccessedAt: made.LastAccessedAt, HealthCheckedAt: made.HealthCheckedAt,
		}
		if diff := cmp.Diff(want, made); diff != "" || made.StartedAt == nil || made.SandboxID == "" {
			t.Errorf("made another sandbox than asked for:\n%s", diff)
		}
		if got := first.header.Get("Location"); got != at("p") {
			t.Errorf("location %q", got)
		}
		for _, again := range []string{"", "{}", body} {
			if same := into[api.ProjectSandbox](s.post(at("p"), again).is(http.StatusOK)); same.SandboxID != made.SandboxID {
				t.Errorf("asked again with %q: %s", again, same.SandboxID)
			}
		}
		p := s.post(at("p"), `{"template":"default","env":{"TOKEN":"w"}}`).fails(api.CodeSpecMismatch)
		if !strings.Contains(p.Detail, "template") || !strings.Contains(p.Detail, "env") {
			t.Errorf("detail %q, want the fields that differ", p.Detail)
		}
		if got := into[api.ProjectSandbox](s.get(at("p")).is(http.StatusOK)); got.SandboxID != made.SandboxID {
			t.Errorf("got %+v", got)
		}
		// The same sandbox by its id, under both names of the older API.
		for _, path := range []string{sandboxesPath, "/api/v1/sandbox"} {
			sb := into[api.Sandbox](s.get(path + "/" + made.SandboxID).is(http.StatusOK))
			if sb.Owner != (api.Owner{Kind: "project", ID: "p"}) || !slices.Equal(sb.Env, []string{"TOKEN"}) {
				t.Errorf("by id: %+v", sb)
			}
		}
	})
}

func TestLifeOfAProjectOverHTTP(t *testing.T) {
	testkit.Proves(t, "P1", "P8", "O7")
	onBoth(t, func(t *testing.T, s *site) {
		made := s.ensured("p")
		instance := s.instanceOf(made.SandboxID)
		status := func(a answer) string { return into[api.ProjectSandbox](a.is(http.StatusOK)).Status }
		if got := status(s.post(at("p", "restart"), "")); got != "RUNNING" {
			t.Errorf("restarted: %s", got)
		}
		health := into[api.ProjectHealth](s.get(at("p", "health")).is(http.StatusOK))
		if !health.Healthy || health.Status != "RUNNING" || health.Actual != "up" || health.SandboxID != made.SandboxID || health.Detail != "" || health.CheckedAt.IsZero() {
			t.Errorf("healthy: %+v", health)
		}

		if err := s.fake.Vanish(instance); err != nil {
			t.Fatal(err)
		}
		health = into[api.ProjectHealth](s.get(at("p", "health")).is(http.StatusOK))
		if health.Healthy || health.Actual != "missing" || health.Detail == "" {
			t.Errorf("lost: %+v", health)
		}
		compared := into[api.ProjectSync](s.get(at("p", "sync")).is(http.StatusOK))
		if compared.Agrees || compared.Recorded != "RUNNING" || compared.Actual != "missing" || len(compared.Would) == 0 || !strings.Contains(compared.Would[0], "lost") {
			t.Errorf("compared: %+v", compared)
		}
		if got := status(s.get(at("p"))); got != "RUNNING" {
			t.Errorf("looking changed the record to %s", got)
		}
		synced := into[api.ProjectSync](s.post(at("p", "sync"), "").is(http.StatusOK))
		if !synced.Agrees || synced.Actual != "up" || synced.Sandbox.Status != "RUNNING" || len(synced.Would) != 0 || synced.Sandbox.SandboxID != made.SandboxID {
			t.Errorf("synced: %+v", synced)
		}

		if got := status(s.remove(at("p"))); got != "TERMINATED" {
			t.Errorf("terminated: %s", got)
		}
		if health = into[api.ProjectHealth](s.get(at("p", "health"))); health.Healthy || health.Actual != "missing" || !strings.Contains(health.Detail, "terminated") {
			t.Errorf("terminated: %+v", health)
		}
		if got := status(s.remove(at("p") + "?sync=false")); got != "TERMINATED" {
			t.Errorf("terminated again: %s", got)
		}
		if revived := into[api.ProjectSandbox](s.post(at("p"), "").is(http.StatusOK)); revived.SandboxID != made.SandboxID || revived.Status != "RUNNING" {
			t.Errorf("revived %+v", revived)
		}

		if a := s.remove(projectsPath + "/p").is(http.StatusNoContent); len(a.body) != 0 {
			t.Errorf("204 with %q", a.body)
		}
		for _, c := range []call{
			{method: "GET", path: at("p")}, {method: "GET", path: at("p", "health")}, {method: "GET", path: at("p", "sync")}, {method: "POST", path: at("p", "sync")},
			{method: "POST", path: at("p", "restart")}, {method: "DELETE", path: at("p")}, {method: "DELETE", path: projectsPath + "/p"},
		} {
			c.key = s.write
			s.do(c).fails(api.CodeNotFound)
		}
		s.get(sandboxesPath + "/" + made.SandboxID).fails(api.CodeDeleted)
		if again := s.ensured("p"); again.SandboxID == made.SandboxID {
			t.Error("the tombstone came back")
		}
	})
}

// instanceOf is what the driver calls the instance of a sandbox.
func (s *site) instanceOf(id string) driver.ID {
	s.t.Helper()
	return driver.ID(into[api.Sandbox](s.get(sandboxesPath + "/" + id).is(http.StatusOK)).Instance)
}

func TestSlowDeleteOfAProjectIsAccepted(t *testing.T) {
	testkit.Proves(t, "P8")
	s := newSite(t, func(o *Options) { o.DeleteWait = 2 * time.Second })
	made := s.ensured("p")
	release := make(chan struct{})
	s.fake.On(fake.Destroy).Do(func() { <-release })
	left := into[api.ProjectSandbox](s.remove(projectsPath + "/p").is(http.StatusAccepted))
	if left.SandboxID != made.SandboxID || left.ProjectID != "p" {
		t.Errorf("left %+v", left)
	}
	s.get(at("p")).fails(api.CodeNotFound)
	if again := into[api.ProjectSandbox](s.remove(projectsPath + "/p").is(http.StatusAccepted)); again.SandboxID != made.SandboxID {
		t.Errorf("a repeated delete: %+v", again)
	}
	s.post(at("p"), "").fails(api.CodeDeleting)
	if sb := into[api.Sandbox](s.get(sandboxesPath + "/" + made.SandboxID).is(http.StatusOK)); sb.Want != "gone" || !slices.Equal(sb.Finalizers, []string{"instance"}) {
		t.Errorf("on its way: %+v", sb)
	}
	close(release)
	testkit.Eventually(t, long, func() error {
		if a := s.get(sandboxesPath + "/" + made.SandboxID); a.status != http.StatusGone {
			return fmt.Errorf("status %d: %s", a.status, a.body)
		}
		return nil
	})
}

// The caller chooses the ids; any characters in them mean one project.
func TestAnyIDOfAProject(t *testing.T) {
	testkit.Proves(t, "P1")
	onBoth(t, func(t *testing.T, s *site) {
		ids := []string{"org/repo", "org/repo/sandbox", "a b", `a\b`, "Größe", "日本", "a%2Fb", "?q=1#f", "..a", strings.Repeat("ü", 127), "mcp", "Sandboxes", "%"}
		seen := map[string]bool{}
		for _, id := range ids {
			made := s.ensured(id)
			if made.ProjectID != id || seen[made.SandboxID] {
				t.Errorf("%q: made %+v", id, made)
			}
			seen[made.SandboxID] = true
			if got := into[api.ProjectSandbox](s.get(at(id)).is(http.StatusOK)); got.SandboxID != made.SandboxID {
				t.Errorf("%q: got %+v", id, got)
			}
			if a := s.post(at(id), "").is(http.StatusOK); a.header.Get("Location") != at(id) {
				t.Errorf("%q: location %q", id, a.header.Get("Location"))
			}
		}
		for _, id := range ids {
			s.remove(projectsPath + "/" + url.PathEscape(id)).is(http.StatusNoContent)
		}
		for segment, code := range map[string]api.Code{
			"sandboxes": api.CodeInvalidID, strings.Repeat("x", 256): api.CodeInvalidID, strings.Repeat("x", 5000): api.CodeInvalidPath, "%E2%80%8B": api.CodeInvalidID,
			"..": api.CodeInvalidPath, "%2e%2e": api.CodeInvalidPath, ".": api.CodeInvalidPath, "a%2F..%2Fb": api.CodeInvalidPath, "%2Fa": api.CodeInvalidPath, "a%2F%2Fb": api.CodeInvalidPath,
			"a%00": api.CodeInvalidPath, "%0a": api.CodeInvalidPath, "%ff": api.CodeInvalidPath,
		} {
			for _, c := range []call{{method: "GET"}, {method: "POST"}, {method: "DELETE"}} {
				c.path, c.key = projectsPath+"/"+segment+"/sandbox", s.admin
				s.do(c).fails(code)
			}
		}
		s.remove(projectsPath + "/sandboxes").fails(api.CodeInvalidID)
		// An encoded slash is a part of a project's id, and of nothing else.
		s.get(sandboxesPath + "/a%2Fb").fails(api.CodeInvalidPath)
		s.get("/api/v1%2Fprojects/p/sandbox").fails(api.CodeInvalidPath)
		s.get(projectsPath + "/p/sandbox%2Fhealth").fails(api.CodeInvalidPath)
	})
}

func TestAnotherTenantsProjectIsAnotherOverHTTP(t *testing.T) {
	testkit.Proves(t, "E2")
	onBoth(t, func(t *testing.T, s *site) {
		mine, stranger := s.ensured("p"), s.newKey("other", api.ScopeAdmin)
		as := func(method, path, body string) answer {
			return s.do(call{method: method, path: path, key: stranger, body: body})
		}
		as("GET", at("p"), "").fails(api.CodeNotFound)
		as("DELETE", projectsPath+"/p", "").fails(api.CodeNotFound)
		theirs := into[api.ProjectSandbox](as("POST", at("p"), "").is(http.StatusCreated))
		if theirs.SandboxID == mine.SandboxID || theirs.TenantID != "other" {
			t.Errorf("theirs %+v", theirs)
		}
		as("DELETE", projectsPath+"/p", "").is(http.StatusNoContent)
		s.get(at("p")).is(http.StatusOK)
	})
}

func TestProjectsAreListed(t *testing.T) {
	testkit.Proves(t, "P2")
	onBoth(t, func(t *testing.T, s *site) {
		var ids []string
		for i := range 5 {
			id := fmt.Sprintf("p/%d", i)
			s.ensured(id)
			ids = append([]string{id}, ids...)
		}
		s.post(sandboxesPath, `{"name":"no-project"}`).is(http.StatusCreated)
		s.remove(at("p/1")).is(http.StatusOK)
		list := func(query string) (got []string) {
			for next := projectsPath + "/sandboxes?limit=2" + query; next != ""; {
				page := into[api.List[api.ProjectSandbox]](s.get(next).is(http.StatusOK))
				for _, p := range page.Items {
					got = append(got, p.ProjectID)
				}
				if next = ""; page.NextCursor != "" {
					next = projectsPath + "/sandboxes?limit=2" + query + "&cursor=" + page.NextCursor
				}
			}
			return got
		}
		for query, want := range map[string][]string{
			"": ids, "&status=TERMINATED": {"p/1"}, "&status=RUNNING": {"p/4", "p/3", "p/2", "p/0"}, "&status=ERROR": nil,
		} {
			if got := list(query); !slices.Equal(got, want) {
				t.Errorf("%q: %v, want %v", query, got, want)
			}
		}
		for query, code := range map[string]api.Code{
			"?status=HAPPY": api.CodeInvalidRequest, "?status=running": api.CodeInvalidRequest, "?limit=0": api.CodeInvalidRequest, "?state=running": api.CodeInvalidRequest,
			"?cursor=x": api.CodeInvalidCursor, "?cursor=" + into[api.List[api.Sandbox]](s.get(sandboxesPath+"?limit=1")).NextCursor: api.CodeInvalidCursor,
		} {
			if p := s.get(projectsPath + "/sandboxes" + query).fails(code); query == "?status=HAPPY" && !strings.Contains(p.Detail, "UNHEALTHY") {
				t.Errorf("detail %q does not list the words", p.Detail)
			}
		}
		if a := s.do(call{path: projectsPath + "/sandboxes", key: s.newKey("other", api.ScopeRead)}).is(http.StatusOK); string(a.body) != "{\"items\":[]}\n" {
			t.Errorf("another tenant sees %s", a.body)
		}
	})
}

func TestProjectsAreCleanedUp(t *testing.T) {
	testkit.Proves(t, "P2")
	onBoth(t, func(t *testing.T, s *site) {
		const path = projectsPath + "/sandboxes/cleanup"
		stranger := s.newKey("other", api.ScopeAdmin)
		s.do(call{method: "POST", path: at("theirs"), key: stranger}).is(http.StatusCreated)
		old, fresh := s.ensured("old"), s.ensured("fresh")
		testkit.Eventually(t, long, func() error { // until it was idle for a second
			s.post(at("fresh"), "")
			dry := into[api.ProjectCleanup](s.post(path, `{"max_idle_seconds":1,"dry_run":true}`).is(http.StatusOK))
			if !dry.DryRun || dry.More || len(dry.Items) != 1 {
				return fmt.Errorf("dry run: %+v", dry)
			}
			if c := dry.Items[0]; c.ProjectID != "old" || c.SandboxID != old.SandboxID || c.Action != "stop" || c.Done || c.Error != "" || c.IdleSeconds < 1 {
				return fmt.Errorf("dry run: %+v", c)
			}
			return nil
		})
		if got := into[api.ProjectSandbox](s.get(at("old"))); got.Status != "RUNNING" {
			t.Errorf("the dry run made it %s", got.Status)
		}
		s.do(call{method: "POST", path: path, key: s.write, body: `{"max_idle_seconds":1}`}).fails(api.CodeForbidden)
		done := into[api.ProjectCleanup](s.post(path, `{"max_idle_seconds":1}`).is(http.StatusOK))
		if i := slices.IndexFunc(done.Items, func(c api.CleanedProject) bool { return c.ProjectID == "old" }); i < 0 || !done.Items[i].Done {
			t.Errorf("cleaned %+v", done)
		}
		if got := into[api.ProjectSandbox](s.get(at("old"))); got.Status != "STOPPED" || !got.LastAccessedAt.Equal(old.LastAccessedAt) {
			t.Errorf("cleaned up: %+v", got)
		}
		if got := into[api.ProjectSandbox](s.do(call{path: at("theirs"), key: stranger})); got.Status != "RUNNING" {
			t.Errorf("another tenant's is %s", got.Status)
		}
		for body, where := range map[string]string{
			"": "body", "{}": "body", `{"max_idle_seconds":0}`: "body.max_idle_seconds", `{"max_idle_seconds":-1}`: "body.max_idle_seconds",
			`{"max_idle_seconds":1.5}`: "body.max_idle_seconds", `{"max_idle_seconds":99999999999}`: "body.max_idle_seconds", `{"max_idle_seconds":"1h"}`: "body.max_idle_seconds",
			`{"max_idle_seconds":1,"dry":true}`: "body.dry", "idle": "body",
		} {
			p := s.post(path, body).fails(api.CodeInvalidRequest)
			if body != "" && (len(p.Errors) == 0 || p.Errors[0].Location != where) {
				t.Errorf("%q: %+v", body, p)
			}
		}
		if got := into[api.ProjectSandbox](s.get(at("fresh"))); got.SandboxID != fresh.SandboxID {
			t.Errorf("fresh: %+v", got)
		}
	})
}

// What a cleanup could not do, it says of each, and goes on.
func TestCleanupSaysWhatFailed(t *testing.T) {
	s := newSite(t)
	s.ensured("p")
	s.fake.On(fake.Stop).Fail(fmt.Errorf("%w: no such luck", driver.ErrInvalid))
	testkit.Eventually(t, long, func() error {
		done := into[api.ProjectCleanup](s.post(projectsPath+"/sandboxes/cleanup", `{"max_idle_seconds":1}`).is(http.StatusOK))
		if len(done.Items) != 1 || done.Items[0].Done || done.Items[0].Action != "stop" || !strings.Contains(done.Items[0].Error, "no such luck") {
			return fmt.Errorf("cleaned %+v", done)
		}
		return nil
	})
}

func TestDesktopIsNotThereYet(t *testing.T) {
	s := newSite(t)
	for _, method := range []string{"POST", "DELETE"} {
		p := s.do(call{method: method, path: at("p", "desktop"), key: s.write}).fails(api.CodeUnsupported)
		if !strings.Contains(p.Detail+p.Hint, "desktop") {
			t.Errorf("%s: %s %s", method, p.Detail, p.Hint)
		}
		s.do(call{method: method, path: at("p", "desktop"), key: s.read}).fails(api.CodeForbidden)
		s.do(call{method: method, path: at("sandboxes", "desktop"), key: s.write}).fails(api.CodeInvalidID)
	}
	s.get(at("p")).fails(api.CodeNotFound)
}

func TestBadRequestsToProjects(t *testing.T) {
	testkit.Proves(t, "E1")
	s := newSite(t)
	for body, code := range map[string]api.Code{
		`{"template":"nope"}`: api.CodeUnknownTemplate, `{"driver":"nope"}`: api.CodeUnknownDriver, `{"profile":"nope"}`: api.CodeUnknownProfile,
		`{"name":"x"}`: api.CodeInvalidRequest, `[]`: api.CodeInvalidRequest, `{`: api.CodeInvalidRequest, `{"env":{"A=B":"1"}}`: api.CodeInvalidRequest,
		`{"metadata":{"a":"` + strings.Repeat("x", 16<<10) + `"}}`: api.CodeInvalidRequest, `{"metadata":{"a":1}}`: api.CodeInvalidRequest,
	} {
		s.post(at("p"), body).fails(code)
	}
	s.do(call{method: "POST", path: at("p"), key: s.write, body: "x", header: map[string]string{"Content-Type": "text/plain"}}).fails(api.CodeUnsupportedMedia)
	s.remove(at("p") + "?sync=maybe").fails(api.CodeInvalidRequest)
	s.remove(projectsPath + "/p?force=true").fails(api.CodeInvalidRequest)
	s.get(at("p")).fails(api.CodeNotFound)
	for path, allow := range map[string]string{at("p", "execute"): "POST", at("p", "health"): "GET, HEAD", projectsPath + "/p": "DELETE"} {
		a := s.do(call{method: "PATCH", path: path, key: s.admin})
		if a.fails(api.CodeMethodNotAllowed); a.header.Get("Allow") != allow {
			t.Errorf("%s allows %q", path, a.header.Get("Allow"))
		}
	}
	s.get(projectsPath).fails(api.CodeNoRoute)
	s.get(at("p", "nothing")).fails(api.CodeNoRoute)
}

// Every POST of projects has one effect under one key.
func TestProjectsAreEnsuredOnceUnderOneKey(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		c := call{method: "POST", path: at("p"), key: s.write, body: `{}`, header: map[string]string{idempotencyHeader: "k"}}
		first, again := s.do(c).is(http.StatusCreated), s.do(c).is(http.StatusCreated)
		if again.header.Get(replayedHeader) != "true" || string(first.body) != string(again.body) {
			t.Errorf("%s, then %s", first.body, again.body)
		}
		c.path = at("q")
		s.do(c).fails(api.CodeKeyReused)
		c.path, c.header = at("p", "restart"), map[string]string{idempotencyHeader: "r"}
		s.do(c).is(http.StatusOK)
		before := s.stops()
		if a := s.do(c).is(http.StatusOK); a.header.Get(replayedHeader) != "true" || s.stops() != before {
			t.Errorf("restarted %d times", s.stops())
		}
	})
}

// stops counts how often the driver was asked to stop something.
func (s *site) stops() (n int) {
	s.t.Helper()
	calls, err := s.fake.Log()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range calls {
		if c.Op == fake.Stop {
			n++
		}
	}
	return n
}

func TestProjectsAskForTheirScope(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct {
		need         api.Scope
		method, path string
	}{
		{"read", "GET", at("p")}, {"read", "GET", at("p", "health")}, {"read", "GET", at("p", "sync")}, {"read", "GET", at("p", "tools")}, {"read", "GET", projectsPath + "/sandboxes"},
		{"write", "POST", at("p")}, {"write", "POST", at("p", "sync")}, {"write", "POST", at("p", "restart")}, {"write", "POST", at("p", "execute")}, {"write", "DELETE", at("p")},
		{"write", "POST", projectsPath + "/p/mcp"}, {"write", "DELETE", projectsPath + "/p"}, {"admin", "POST", projectsPath + "/sandboxes/cleanup"},
		{"read", "GET", sandboxesPath + "/x/explain"}, {"write", "POST", sandboxesPath + "/x/terminate"}, {"write", "POST", sandboxesPath + "/x/archive"}, {"admin", "POST", "/api/v1/sweep"},
	} {
		s.do(call{method: c.method, path: c.path}).is(http.StatusUnauthorized)
		scopes := []api.Scope{"read", "write", "admin"}
		for have, key := range map[api.Scope]string{"read": s.read, "write": s.write, "admin": s.admin} {
			a := s.do(call{method: c.method, path: c.path, key: key})
			refused := a.status == http.StatusForbidden && strings.Contains(string(a.body), "key of scope")
			if enough := slices.Index(scopes, have) >= slices.Index(scopes, c.need); enough == refused {
				t.Errorf("%s %s with a key of scope %s: %d %s", c.method, c.path, have, a.status, a.body)
			}
		}
	}
}

// Looking at things is no use of them, and use is.
func TestReadingAProjectIsNoUse(t *testing.T) {
	testkit.Proves(t, "P1")
	onBoth(t, func(t *testing.T, s *site) {
		made := s.ensured("p")
		used := func() time.Time {
			row, err := s.db.In(store.TenantID("acme")).ByID(t.Context(), made.SandboxID)
			if err != nil {
				t.Fatal(err)
			}
			return row.ActiveAt
		}
		before := used()
		// Uses within a second of each other count as one: only later it shows what counts.
		testkit.Eventually(t, long, func() error {
			if since := time.Since(before); since < 1500*time.Millisecond {
				return fmt.Errorf("used %v ago", since)
			}
			return nil
		})
		for _, path := range []string{
			at("p"), at("p", "health"), at("p", "sync"), at("p", "tools"), projectsPath + "/sandboxes",
			sandboxesPath + "/" + made.SandboxID, sandboxesPath + "/" + made.SandboxID + "/explain", sandboxesPath + "/" + made.SandboxID + "/history",
		} {
			s.get(path).is(http.StatusOK)
			if now := used(); !now.Equal(before) {
				t.Fatalf("%s counts as use", path)
			}
		}
		s.post(at("p"), "").is(http.StatusOK)
		if !used().After(before) {
			t.Error("ensuring is no use")
		}
	})
}
