package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

const key = "berth_test_key_of_the_tests"

// serve starts a server with the one handler and returns a client for it.
func serve(t *testing.T, h http.HandlerFunc, opts ...client.Option) *client.Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return dial(t, srv.URL, opts...)
}

func dial(t *testing.T, url string, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(url, key, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, p *api.Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// problemOf fails unless the error carries a problem.
func problemOf(t *testing.T, err error) *api.Problem {
	t.Helper()
	var p *api.Problem
	if !errors.As(err, &p) {
		t.Fatalf("error %v carries no problem", err)
	}
	return p
}

func TestNewRefusesAddressesThatAreNotAServer(t *testing.T) {
	for address, want := range map[string]string{
		"":                             "http://host:port",
		"127.0.0.1:7070":               "http://host:port",
		"ftp://127.0.0.1":              "http://host:port",
		"http://":                      "http://host:port",
		"http://%zz":                   "http://host:port",
		"http://u:hunter2@h:1":         "give the key apart",
		"http://u:hunter2@h:99999999/": "give the key apart",
		"gopher://u:hunter2@h":         "http://host:port",
		"http://h/?a=b":                "query",
		"http://h/#f":                  "query",
	} {
		_, err := client.New(address, "")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%q): %v, want %q", address, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("New(%q) repeats the password: %v", address, err)
		}
	}
}

func TestNewRefusesKeyThatFitsNoHeader(t *testing.T) {
	for _, bad := range []string{"with space in it", "line\nbreak", "ключ"} {
		_, err := client.New("http://127.0.0.1:1", bad)
		if err == nil || strings.Contains(err.Error(), bad) {
			t.Errorf("New with key %q: %v, want an error that does not repeat it", bad, err)
		}
	}
}

func TestNewlineOfAKeyFileIsNoPartOfTheKey(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer "+key {
			t.Errorf("the key arrived as %q", got)
		}
		answer(w, http.StatusOK, api.Sandbox{ID: "1"})
	}))
	defer srv.Close()
	c, err := client.New(srv.URL, key+"\n")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Sandboxes.Get(t.Context(), "1"); err != nil {
		t.Error(err)
	}
}

func TestPeerThatIsRefusedGetsNothing(t *testing.T) {
	var arrived atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived.Add(1)
		answer(w, http.StatusOK, api.Sandbox{ID: "1"})
	}))
	defer srv.Close()
	stranger := errors.New("that is a stranger")
	verdict := error(stranger)
	c := dial(t, srv.URL, client.WithAttempts(2), client.WithPeerCheck(func(peer net.Addr) error {
		if "http://"+peer.String() != srv.URL {
			t.Errorf("asked about %s", peer)
		}
		return verdict
	}))
	_, err := c.Sandboxes.Get(t.Context(), "x")
	if p := problemOf(t, err); p.Code != api.CodeServerUnreachable || !errors.Is(err, stranger) || arrived.Load() != 0 {
		t.Errorf("%v, %d requests arrived", err, arrived.Load())
	}
	verdict = nil
	if _, err := c.Sandboxes.Get(t.Context(), "x"); err != nil || arrived.Load() != 1 {
		t.Errorf("a peer that is not refused: %v, %d requests", err, arrived.Load())
	}
}

func TestServerIsCanonical(t *testing.T) {
	c := dial(t, "http://127.0.0.1:7070/prefix//")
	if got := c.Server(); got != "http://127.0.0.1:7070/prefix" {
		t.Errorf("Server() = %q", got)
	}
}

func TestRequestCarriesKeyAgentAndIdempotencyKey(t *testing.T) {
	var got *http.Request
	var body []byte
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		answer(w, http.StatusCreated, api.Sandbox{ID: "1", Name: "scratch"})
	}, client.WithUserAgent("berth/1.2"))

	sandbox, made, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "scratch"})
	if err != nil || !made || sandbox.Name != "scratch" {
		t.Fatalf("Create = %+v, %v, %v", sandbox, made, err)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer " + key, "User-Agent": "berth/1.2", "Content-Type": "application/json",
	} {
		if h := got.Header.Get(name); h != want {
			t.Errorf("%s: %q, want %q", name, h, want)
		}
	}
	if len(got.Header.Get("Idempotency-Key")) < 20 {
		t.Errorf("Idempotency-Key %q is not random enough", got.Header.Get("Idempotency-Key"))
	}
	if string(body) != `{"name":"scratch"}` {
		t.Errorf("body %s", body)
	}
}

func TestCallWithoutKeySendsNone(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, has := r.Header["Authorization"]; has {
			t.Error("an empty key was sent")
		}
		answer(w, http.StatusOK, api.Health{Status: "ok", Version: "1.2"})
	}))
	defer srv.Close()
	c, err := client.New(srv.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	if v, err := c.Version(t.Context()); v != "1.2" || err != nil {
		t.Errorf("Version = %q, %v", v, err)
	}
}

func TestNotReadyIsAnAnswer(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusServiceUnavailable, api.Ready{Status: "not_ready", Checks: []api.Check{{Name: "database", Status: "failed"}}})
	})
	ready, err := c.Ready(t.Context())
	if err != nil || ready.Status != "not_ready" || len(ready.Checks) != 1 {
		t.Errorf("Ready = %+v, %v", ready, err)
	}
}

// TestEveryCallReachesItsRoute also shows that ids from outside cannot leave their segment.
func TestEveryCallReachesItsRoute(t *testing.T) {
	ctx := t.Context()
	calls := []struct {
		want string
		do   func(*client.Client) error
	}{
		{"GET /api/v1/sandboxes/scratch", func(c *client.Client) error { _, err := c.Sandboxes.Get(ctx, "scratch"); return err }},
		{"GET /api/v1/sandboxes/a%2F..%2Fb%3Fc", func(c *client.Client) error { _, err := c.Sandboxes.Get(ctx, "a/../b?c"); return err }},
		{"DELETE /api/v1/sandboxes/scratch", func(c *client.Client) error { return c.Sandboxes.Delete(ctx, "scratch") }},
		{"GET /api/v1/sandboxes?limit=200", func(c *client.Client) error { return drain(c.Sandboxes.List(ctx, client.SandboxFilter{})) }},
		{"GET /api/v1/sandboxes?driver=d&limit=200&owner_kind=project&state=running&template=t", func(c *client.Client) error {
			return drain(c.Sandboxes.List(ctx, client.SandboxFilter{State: "running", OwnerKind: "project", Template: "t", Driver: "d"}))
		}},
		{"GET /api/v1/sandboxes/scratch/history?limit=200", func(c *client.Client) error { return drain(c.Sandboxes.History(ctx, "scratch")) }},
		{"GET /api/v1/sandboxes/scratch/explain", func(c *client.Client) error { _, err := c.Sandboxes.Explain(ctx, "scratch"); return err }},
		{"POST /api/v1/sandboxes/scratch/archive", func(c *client.Client) error { _, err := c.Sandboxes.Archive(ctx, "scratch"); return err }},
		{"POST /api/v1/sandboxes/scratch/terminate", func(c *client.Client) error { _, err := c.Sandboxes.Terminate(ctx, "scratch"); return err }},
		{"POST /api/v1/sandboxes/scratch/terminate?sync=false", func(c *client.Client) error {
			_, err := c.Sandboxes.Terminate(ctx, "scratch", client.SkipSave())
			return err
		}},
		{"DELETE /api/v1/sandboxes/scratch?sync=false", func(c *client.Client) error { return c.Sandboxes.Delete(ctx, "scratch", client.SkipSave()) }},
		{"POST /api/v1/sweep", func(c *client.Client) error { _, err := c.Sweep(ctx, api.SweepRequest{}); return err }},
		{"GET /api/v1/projects/a%2Fb/sandbox", func(c *client.Client) error { _, err := c.Projects.Get(ctx, "a/b"); return err }},
		{"POST /api/v1/projects/p/sandbox", func(c *client.Client) error {
			_, _, err := c.Projects.Ensure(ctx, "p", api.EnsureProject{})
			return err
		}},
		{"DELETE /api/v1/projects/p", func(c *client.Client) error { return c.Projects.Delete(ctx, "p") }},
		{"GET /api/v1/projects/sandboxes?limit=200&status=RUNNING", func(c *client.Client) error {
			return drain(c.Projects.List(ctx, client.ProjectFilter{Status: "RUNNING"}))
		}},
		{"POST /api/v1/projects/sandboxes/cleanup", func(c *client.Client) error {
			_, err := c.Projects.Cleanup(ctx, api.CleanupProjects{MaxIdleSeconds: 1})
			return err
		}},
		{"POST /api/v1/keys", func(c *client.Client) error { _, err := c.Keys.Create(ctx, api.CreateKey{}); return err }},
		{"GET /api/v1/keys?limit=200", func(c *client.Client) error { return drain(c.Keys.List(ctx)) }},
		{"DELETE /api/v1/keys/k", func(c *client.Client) error { return c.Keys.Revoke(ctx, "k") }},
		{"PUT /api/v1/secrets/KEY", func(c *client.Client) error { _, err := c.Secrets.Set(ctx, "KEY", "x"); return err }},
		{"GET /api/v1/secrets?limit=200", func(c *client.Client) error { return drain(c.Secrets.List(ctx)) }},
		{"DELETE /api/v1/secrets/KEY", func(c *client.Client) error { return c.Secrets.Delete(ctx, "KEY") }},
		{"POST /api/v1/accounts", func(c *client.Client) error { _, err := c.Accounts.Create(ctx, api.CreateAccount{}); return err }},
		{"GET /api/v1/accounts/a", func(c *client.Client) error { _, err := c.Accounts.Get(ctx, "a"); return err }},
		{"GET /api/v1/accounts?limit=200", func(c *client.Client) error { return drain(c.Accounts.List(ctx)) }},
		{"DELETE /api/v1/accounts/a", func(c *client.Client) error { return c.Accounts.Delete(ctx, "a") }},
		{"POST /api/v1/agents", func(c *client.Client) error { _, err := c.Agents.Create(ctx, api.PutAgent{}); return err }},
		{"GET /api/v1/agents/a", func(c *client.Client) error { _, err := c.Agents.Get(ctx, "a"); return err }},
		{"PUT /api/v1/agents/a", func(c *client.Client) error { _, err := c.Agents.Put(ctx, "a", api.PutAgent{}); return err }},
		{"DELETE /api/v1/agents/a", func(c *client.Client) error { return c.Agents.Delete(ctx, "a") }},
		{"GET /api/v1/templates/t", func(c *client.Client) error { _, err := c.Templates.Get(ctx, "t"); return err }},
		{"GET /api/v1/templates?limit=200", func(c *client.Client) error { return drain(c.Templates.List(ctx)) }},
		{"GET /api/v1/agents?limit=200", func(c *client.Client) error { return drain(c.Agents.List(ctx)) }},
	}
	for _, call := range calls {
		got := ""
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			got = r.Method + " " + r.RequestURI
			if r.Method == http.MethodDelete {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			answer(w, http.StatusOK, struct{}{})
		})
		if err := call.do(c); err != nil || got != call.want {
			t.Errorf("sent %q (%v), want %q", got, err, call.want)
		}
	}
}

func drain[T any](seq func(func(T, error) bool)) error {
	var last error
	seq(func(_ T, err error) bool { last = err; return true })
	return last
}

func TestReferenceThatMeansAnotherResourceIsNotSent(t *testing.T) {
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("sent %s", r.RequestURI) })
	for _, ref := range []string{"", ".", ".."} {
		if p := problemOf(t, c.Sandboxes.Delete(t.Context(), ref)); p.Code != api.CodeInvalidID {
			t.Errorf("Delete(%q): %v", ref, p)
		}
	}
}

func TestListReadsPagesAsTheReaderGoesOn(t *testing.T) {
	asked := 0
	pages := map[string]api.List[api.Sandbox]{
		"":  {Items: []api.Sandbox{{ID: "1"}, {ID: "2"}}, NextCursor: "b"},
		"b": {Items: []api.Sandbox{}, NextCursor: "c"},
		"c": {Items: []api.Sandbox{{ID: "3"}}},
	}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		answer(w, http.StatusOK, pages[r.URL.Query().Get("cursor")])
	})
	var ids string
	for sandbox, err := range c.Sandboxes.List(t.Context(), client.SandboxFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		ids += sandbox.ID
	}
	if ids != "123" || asked != 3 {
		t.Errorf("read %q in %d pages", ids, asked)
	}
	asked = 0
	for range c.Sandboxes.List(t.Context(), client.SandboxFilter{}) {
		break
	}
	if asked != 1 {
		t.Errorf("a reader that stopped at once asked for %d pages", asked)
	}
}

func TestListEndsWithItsError(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") == "" {
			answer(w, http.StatusOK, api.List[api.Sandbox]{Items: []api.Sandbox{{ID: "1"}}, NextCursor: "b"})
			return
		}
		refuse(w, api.NewProblem(api.CodeInvalidCursor, "no"))
	})
	var errs []error
	for _, err := range c.Sandboxes.List(t.Context(), client.SandboxFilter{}) {
		errs = append(errs, err)
	}
	if len(errs) != 2 || errs[0] != nil || problemOf(t, errs[1]).Code != api.CodeInvalidCursor {
		t.Errorf("errors %v", errs)
	}
}

func TestListRefusesCursorThatDoesNotMove(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, api.List[api.Sandbox]{NextCursor: "again"})
	})
	if err := drain(c.Sandboxes.List(t.Context(), client.SandboxFilter{})); err == nil || !strings.Contains(err.Error(), "same cursor") {
		t.Errorf("error %v", err)
	}
}

func TestProblemReachesTheCaller(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		p := api.NewProblem(api.CodeSpecMismatch, "scratch has driver fake")
		p.RequestID = "req-1"
		p.Errors = []api.FieldError{{Location: "body.driver", Message: "differs"}}
		refuse(w, p)
	})
	_, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "scratch"})
	p := problemOf(t, err)
	if p.Code != api.CodeSpecMismatch || p.RequestID != "req-1" || p.Status != http.StatusConflict || len(p.Errors) != 1 {
		t.Errorf("problem %+v", p)
	}
	if want := "create sandbox: scratch has driver fake (spec_mismatch)"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

func TestRequestIDOfHeaderFillsTheProblem(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Request-Id", "req-2")
		refuse(w, api.NewProblem(api.CodeNotFound, "no sandbox x"))
	})
	_, err := c.Sandboxes.Get(t.Context(), "x")
	if p := problemOf(t, err); p.RequestID != "req-2" {
		t.Errorf("request id %q", p.RequestID)
	}
}

func TestTimeoutBoundsCallWithoutDeadline(t *testing.T) {
	stop := make(chan struct{})
	c := serve(t, func(http.ResponseWriter, *http.Request) { <-stop }, client.WithTimeout(20*time.Millisecond))
	defer close(stop)
	_, err := c.Sandboxes.Get(t.Context(), "x")
	if !errors.Is(err, context.DeadlineExceeded) || problemOf(t, err).Code != api.CodeServerUnreachable {
		t.Errorf("error %v", err)
	}
}

func TestRequestThatIsNoJSONIsNotSent(t *testing.T) {
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("sent %s", r.RequestURI) })
	_, err := c.Agents.Create(t.Context(), api.PutAgent{Name: "a", Overrides: json.RawMessage("{")})
	if err == nil || !strings.Contains(err.Error(), "encode the request") {
		t.Errorf("error %v", err)
	}
}
