package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
)

func TestSandboxByName(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		const body = `{"name":"scratch","template":"none","env":{"TOKEN":"v","A":"b"},"metadata":{"team":"x"}}`
		first := s.post(sandboxesPath, body).is(http.StatusCreated)
		made := into[api.Sandbox](first)
		want := api.Sandbox{
			ID: made.ID, Name: "scratch", Owner: api.Owner{Kind: "sandbox", ID: "scratch"},
			Template: "none", Driver: "fake", Profile: "standard", State: "running", Want: "running",
			Env: []string{"A", "TOKEN"}, Metadata: map[string]string{"team": "x"}, Instance: made.Instance, Incarnation: 1,
			CreatedAt: made.CreatedAt, StartedAt: made.StartedAt, ActiveAt: made.ActiveAt,
		}
		if diff := cmp.Diff(want, made); diff != "" || made.StartedAt == nil || made.Instance == "" {
			t.Errorf("made another sandbox than asked for:\n%s", diff)
		}
		if at := first.header.Get("Location"); at != sandboxesPath+"/"+made.ID {
			t.Errorf("location %q", at)
		}

		same := into[api.Sandbox](s.post(sandboxesPath, `{"name":"scratch"}`).is(http.StatusOK))
		if same.ID != made.ID {
			t.Errorf("asked again by name: %s, want %s", same.ID, made.ID)
		}
		byID := into[api.Sandbox](s.post(sandboxesPath, `{"id":"`+strings.ToUpper(made.ID)+`"}`).is(http.StatusOK))
		if byID.ID != made.ID {
			t.Errorf("asked again by id: %s, want %s", byID.ID, made.ID)
		}
		p := s.post(sandboxesPath, `{"name":"scratch","template":"default","env":{"TOKEN":"w"}}`).fails(api.CodeSpecMismatch)
		if !strings.Contains(p.Detail, "template") || !strings.Contains(p.Detail, "env") {
			t.Errorf("detail %q, want the fields that differ", p.Detail)
		}
		for _, ref := range []string{made.ID, "scratch"} {
			if got := into[api.Sandbox](s.get(sandboxesPath + "/" + ref).is(http.StatusOK)); got.ID != made.ID {
				t.Errorf("get %s: %s", ref, got.ID)
			}
		}
	})
}

func TestSandboxWithoutNameIsAlwaysNew(t *testing.T) {
	s := newSite(t)
	a := into[api.Sandbox](s.post(sandboxesPath, "").is(http.StatusCreated))
	b := into[api.Sandbox](s.post(sandboxesPath, "{}").is(http.StatusCreated))
	if a.ID == b.ID || a.Owner.ID != a.ID || a.Name != "" {
		t.Errorf("made %+v and %+v", a, b)
	}
}

func TestSandboxUnderAChosenID(t *testing.T) {
	s := newSite(t)
	const id = "00000000-0000-0000-0000-000000000002"
	s.get(sandboxesPath + "/" + id).fails(api.CodeNotFound)
	made := into[api.Sandbox](s.post(sandboxesPath, `{"id":"`+id+`","name":"two"}`).is(http.StatusCreated))
	if made.ID != id || made.Owner.ID != "two" {
		t.Errorf("made %+v", made)
	}
	s.post(sandboxesPath, `{"name":"two","id":"00000000-0000-0000-0000-000000000001"}`).is(http.StatusConflict)
	s.post(sandboxesPath, `{"id":"00000000-0000-0000-0000-000000000000"}`).fails(api.CodeInvalidID)
	s.get(sandboxesPath + "/00000000-0000-0000-0000-000000000000").fails(api.CodeInvalidID)
}

func TestOlderCallersSaySandbox(t *testing.T) {
	testkit.Proves(t, "P7")
	s := newSite(t)
	made := into[api.Sandbox](s.post("/api/v1/sandbox", `{"name":"old"}`).is(http.StatusCreated))
	for _, path := range []string{"/api/v1/sandbox/" + made.ID, "/api/v1/sandbox/old", "/api/v1/sandboxes/old"} {
		if got := into[api.Sandbox](s.get(path).is(http.StatusOK)); got.ID != made.ID {
			t.Errorf("%s: %s, want %s", path, got.ID, made.ID)
		}
	}
	s.get("/api/v1/sandbox/old/history").is(http.StatusOK)
	if n := len(into[api.List[api.Sandbox]](s.get("/api/v1/sandbox").is(http.StatusOK)).Items); n != 1 {
		t.Errorf("%d sandboxes listed, want 1", n)
	}
	s.remove("/api/v1/sandbox/old").is(http.StatusNoContent)
	s.get("/api/v1/sandboxes/" + made.ID).fails(api.CodeDeleted)
}

// Every route of sandboxes has a twin under the older name.
func TestEveryRouteOfSandboxesHasItsOlderName(t *testing.T) {
	testkit.Proves(t, "P7")
	s := newSite(t)
	n := 0
	for pattern, rt := range s.routes.All {
		method, path, _ := strings.Cut(pattern, " ")
		rest, is := strings.CutPrefix(path, sandboxesPath)
		if !is {
			continue
		}
		n++
		if twin := s.routes.All[method+" /api/v1/sandbox"+rest]; twin == nil || twin.Name != rt.Name || twin.Scope != rt.Scope || twin.Timeout != rt.Timeout {
			t.Errorf("%s has the twin %+v", pattern, twin)
		}
	}
	if n < 30 {
		t.Errorf("only %d routes", n)
	}
}

func TestWhatOnlyTheServerKnowsIsUnprocessable(t *testing.T) {
	s := newSite(t)
	for body, code := range map[string]api.Code{
		`{"template":"nope"}`: api.CodeUnknownTemplate,
		`{"driver":"nope"}`:   api.CodeUnknownDriver,
		`{"profile":"nope"}`:  api.CodeUnknownProfile,
	} {
		if p := s.post(sandboxesPath, body).fails(code); !strings.Contains(p.Detail, "nope") {
			t.Errorf("%s: detail %q does not name it", body, p.Detail)
		}
	}
}

func TestDeletedSandboxIsGoneForGood(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		made := into[api.Sandbox](s.post(sandboxesPath, `{"name":"brief"}`).is(http.StatusCreated))
		if a := s.remove(sandboxesPath + "/brief").is(http.StatusNoContent); len(a.body) != 0 {
			t.Errorf("204 with the body %q", a.body)
		}
		s.get(sandboxesPath + "/" + made.ID).fails(api.CodeDeleted)
		s.get(sandboxesPath + "/brief").fails(api.CodeNotFound)
		s.remove(sandboxesPath + "/" + made.ID).fails(api.CodeDeleted)
		s.post(sandboxesPath, `{"id":"`+made.ID+`"}`).fails(api.CodeDeleted)
		again := into[api.Sandbox](s.post(sandboxesPath, `{"name":"brief"}`).is(http.StatusCreated))
		if again.ID == made.ID {
			t.Error("the name got the tombstone back")
		}
		history := into[api.List[api.Transition]](s.get(sandboxesPath + "/" + made.ID + "/history").is(http.StatusOK))
		if len(history.Items) == 0 || history.Items[0].To != "terminated" {
			t.Errorf("history of a tombstone: %+v", history.Items)
		}
	})
}

// A delete that takes longer than a request answers with the sandbox, and can be watched and repeated.
func TestSlowDeleteIsAccepted(t *testing.T) {
	s := newSite(t, func(o *Options) { o.DeleteWait = 2 * time.Second })
	made := into[api.Sandbox](s.post(sandboxesPath, `{"name":"slow"}`).is(http.StatusCreated))
	release := make(chan struct{})
	s.fake.On(fake.Destroy).Do(func() { <-release })
	left := into[api.Sandbox](s.remove(sandboxesPath + "/slow").is(http.StatusAccepted))
	if left.ID != made.ID || left.Want != "gone" || left.DeletedAt == nil {
		t.Errorf("left %+v", left)
	}
	for _, ref := range []string{made.ID, "slow"} {
		s.get(sandboxesPath + "/" + ref).is(http.StatusOK)
		again := into[api.Sandbox](s.remove(sandboxesPath + "/" + ref).is(http.StatusAccepted))
		if again.ID != made.ID {
			t.Errorf("a repeated delete of %s: %+v", ref, again)
		}
	}
	a := s.post(sandboxesPath, `{"name":"slow"}`)
	if p := a.fails(api.CodeDeleting); !p.Retryable || a.header.Get("Retry-After") == "" || !strings.Contains(p.Detail, made.ID) {
		t.Errorf("%+v, Retry-After %q", p, a.header.Get("Retry-After"))
	}
	if live, err := s.fake.Live(); err != nil || len(live) != 1 {
		t.Errorf("the driver has %v, %v", live, err)
	}
	close(release)
	testkit.Eventually(t, patience, func() error {
		if a := s.get(sandboxesPath + "/" + made.ID); a.status != http.StatusGone {
			return fmt.Errorf("status %d: %s", a.status, a.body)
		}
		return nil
	})
	s.remove(sandboxesPath + "/slow").fails(api.CodeNotFound)
	if next := into[api.Sandbox](s.post(sandboxesPath, `{"name":"slow"}`).is(http.StatusCreated)); next.ID == made.ID {
		t.Error("the tombstone was revived")
	}
}

func TestListFiltersAndPages(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		var names []string
		for i := range 5 {
			name := fmt.Sprintf("box-%d", i)
			names = append([]string{name}, names...)
			template := []string{"default", "none"}[i%2]
			s.post(sandboxesPath, fmt.Sprintf(`{"name":%q,"template":%q}`, name, template)).is(http.StatusCreated)
		}
		if got := s.listNames(sandboxesPath + "?limit=2"); !slices.Equal(got, names) {
			t.Errorf("listed %v, want %v", got, names)
		}
		for query, want := range map[string]int{
			"?template=none": 2, "?driver=fake": 5, "?driver=other": 0, "?state=running": 5, "?state=stopped": 0,
			"?owner_kind=sandbox": 5, "?owner_kind=project": 0, "?state=running&template=default&limit=1": 3,
		} {
			if got := s.listNames(sandboxesPath + query); len(got) != want {
				t.Errorf("%s: %v, want %d", query, got, want)
			}
		}
		if a := s.do(call{path: sandboxesPath, key: s.newKey("other", api.ScopeRead)}).is(http.StatusOK); string(a.body) != "{\"items\":[]}\n" {
			t.Errorf("another tenant sees %s", a.body)
		}
	})
}

// listNames reads a list to its end.
func (s *site) listNames(path string) (names []string) {
	s.t.Helper()
	next := path
	for {
		page := into[api.List[api.Sandbox]](s.get(next).is(http.StatusOK))
		for _, item := range page.Items {
			names = append(names, item.Name)
		}
		if page.NextCursor == "" {
			return names
		}
		sep := "?"
		if strings.Contains(path, "?") {
			sep = "&"
		}
		next = path + sep + "cursor=" + page.NextCursor
	}
}

func TestHistoryPages(t *testing.T) {
	s := newSite(t)
	made := into[api.Sandbox](s.post(sandboxesPath, `{"name":"box"}`).is(http.StatusCreated))
	path := sandboxesPath + "/box/history"
	whole := into[api.List[api.Transition]](s.get(path).is(http.StatusOK)).Items
	if len(whole) < 3 || whole[0].To != "running" || whole[len(whole)-1].Event != "want" || !strings.HasPrefix(whole[0].Actor, "key ") {
		t.Fatalf("history %+v", whole)
	}
	var paged []api.Transition
	for next := path + "?limit=1"; next != ""; {
		page := into[api.List[api.Transition]](s.get(next).is(http.StatusOK))
		paged = append(paged, page.Items...)
		if next = ""; page.NextCursor != "" {
			next = path + "?limit=1&cursor=" + page.NextCursor
		}
	}
	if diff := cmp.Diff(whole, paged); diff != "" {
		t.Errorf("pages differ from the whole:\n%s", diff)
	}
	other := into[api.Sandbox](s.post(sandboxesPath, `{"name":"other"}`).is(http.StatusCreated))
	cursor := into[api.List[api.Transition]](s.get(sandboxesPath + "/" + made.ID + "/history?limit=1")).NextCursor
	s.get(sandboxesPath + "/" + other.ID + "/history?cursor=" + cursor).fails(api.CodeInvalidCursor)
}

// What another tenant holds looks exactly like what does not exist.
func TestTenantsDoNotSeeEachOther(t *testing.T) {
	testkit.Proves(t, "E2")
	onBoth(t, func(t *testing.T, s *site) {
		stranger := s.newKey("other", api.ScopeAdmin)
		const unknown = "01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10"
		ids := map[string]string{
			sandboxesPath: into[api.Sandbox](s.post(sandboxesPath, `{"name":"mine"}`).is(http.StatusCreated)).ID,
			accountsPath:  into[api.Account](s.post(accountsPath, `{"name":"mine"}`).is(http.StatusCreated)).ID,
			agentsPath:    into[api.Agent](s.post(agentsPath, `{"name":"mine"}`).is(http.StatusCreated)).ID,
			keysPath:      into[api.NewKey](s.post(keysPath, `{"label":"mine"}`).is(http.StatusCreated)).ID,
		}
		for base, id := range ids {
			for _, c := range []call{
				{method: http.MethodGet, path: base + "/ID"}, {method: http.MethodDelete, path: base + "/ID"},
				{method: http.MethodGet, path: base + "/ID/history"}, {method: http.MethodPut, path: base + "/ID", body: `{"name":"x"}`},
			} {
				c.key, c.header = stranger, map[string]string{requestIDHeader: "same"}
				theirs, nobodys := c, c
				theirs.path, nobodys.path = strings.Replace(c.path, "ID", id, 1), strings.Replace(c.path, "ID", unknown, 1)
				a, b := s.do(theirs), s.do(nobodys)
				if got := strings.ReplaceAll(string(a.body), id, unknown); got != string(b.body) || a.status != b.status || a.status < 400 {
					t.Errorf("%s %s: %d %s, unknown: %d %s", c.method, theirs.path, a.status, got, b.status, b.body)
				}
			}
		}
		own := into[api.Sandbox](s.do(call{method: http.MethodPost, path: sandboxesPath, key: stranger, body: `{"name":"mine"}`}).is(http.StatusCreated))
		if own.ID == ids[sandboxesPath] {
			t.Error("a name reached into another tenant")
		}
		s.get(sandboxesPath + "/mine").is(http.StatusOK)
	})
}

// A create that the driver did not answer leaves its record, the problem says so, and the same call
// goes on with it.
func TestCreateWhileTheDriverIsAway(t *testing.T) {
	s := newSite(t)
	away := s.fake.On(fake.Create).Fail(fake.ErrUnreachable)
	p := s.post(sandboxesPath, `{"name":"box"}`).fails(api.CodeDriverUnreachable)
	if !p.Retryable || !strings.Contains(p.Hint, "recorded") {
		t.Errorf("hint %q", p.Hint)
	}
	left := into[api.Sandbox](s.get(sandboxesPath + "/box").is(http.StatusOK))
	away.Off()
	if made := into[api.Sandbox](s.post(sandboxesPath, `{"name":"box"}`)); made.ID != left.ID || made.State != "running" {
		t.Errorf("first left %+v, then came %+v", left, made)
	}
}

// A driver that repeats a sandbox's environment in its error does not make us repeat it.
func TestEnvironmentIsNeverShown(t *testing.T) {
	s := newSite(t)
	const canary = "canary+of/the environment"
	s.fake.On(fake.Create).Fail(fmt.Errorf("%w: no room for %s", driver.ErrInvalid, canary)).Times(1)
	body := fmt.Sprintf(`{"name":"box","env":{"TOKEN":%q}}`, canary)
	p := s.post(sandboxesPath, body)
	if p.status != http.StatusBadGateway || !strings.Contains(string(p.body), "no room for") {
		t.Errorf("want the driver's words: %d %s", p.status, p.body)
	}
	answers := []answer{
		p, s.get(sandboxesPath + "/box").is(http.StatusOK), s.get(sandboxesPath).is(http.StatusOK),
		s.get(sandboxesPath + "/box/history").is(http.StatusOK), s.post(sandboxesPath, body).is(http.StatusOK), s.get(sandboxesPath + "/box").is(http.StatusOK),
		s.post(sandboxesPath, fmt.Sprintf(`{"name":"box","env":{"TOKEN":"%s2"}}`, canary)),
		s.post(sandboxesPath, fmt.Sprintf(`{"nmae":"box","env":{"TOKEN":%q}}`, canary)),
		s.post(sandboxesPath, fmt.Sprintf(`{"name":"box","env":{"TOKEN":[%q]}}`, canary)),
		s.post(sandboxesPath, fmt.Sprintf(`{"name":"box","env":{"TOKEN":%q}`, canary)),
	}
	for i, a := range answers {
		if strings.Contains(string(a.body), "canary") {
			t.Errorf("answer %d shows the environment: %d %s", i, a.status, a.body)
		}
	}
}

// stuckEngine never finishes anything by itself.
type stuckEngine struct{ access.Engine }

func (stuckEngine) Delete(ctx context.Context, _, _, _ string, _ bool) (sandbox.Sandbox, error) {
	<-ctx.Done()
	return sandbox.Sandbox{}, ctx.Err()
}

func TestDeleteThatFailsIsAProblem(t *testing.T) {
	s := newSite(t, func(o *Options) {
		o.Engine, o.DeleteWait = stuckEngine{o.Engine}, time.Minute
		o.RequestTimeout = 500 * time.Millisecond
	})
	owner := sandbox.Owner{Tenant: "acme", Kind: sandbox.OwnerSandbox, ID: "box"}
	if _, _, err := s.Engine.Ensure(t.Context(), engine.Request{Owner: owner, Name: "box"}); err != nil {
		t.Fatal(err)
	}
	a := s.remove(sandboxesPath + "/box")
	if p := a.fails(api.CodeTimeout); !p.Retryable || a.header.Get("Retry-After") != "1" {
		t.Errorf("headers %v", a.header)
	}
}
