package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
)

const testKey = "berth_key_of_the_command_line_tests"

// fakeServer answers as a Berth server does, from memory. Sandboxes put into it are shown as they
// are, so that a test can make it as hostile as it likes.
type fakeServer struct {
	URL string

	mu        sync.Mutex
	sandboxes []api.Sandbox
	keys      []api.Key
	templates []api.Template
	history   []api.Transition
	created   []api.CreateSandbox
	requests  []string
	hold      func(*http.Request) // runs before a create is answered
	stuck     *api.SandboxError   // why deletes are accepted and do not end; nil: they end
	tombs     []string            // the ids of what was deleted
	machine   *machine            // what runs commands; nil: nothing does
	projects  []api.ProjectSandbox
	talks     *talks            // conversations; nil: there are none
	canned    map[string]any    // what a request, such as "POST /api/v1/sweep", is answered with; an api.Code refuses it
	bodies    map[string]string // what was sent with such a request last
}

var birth = time.Date(2026, 11, 15, 3, 0, 0, 0, time.UTC)

func newFakeServer(t testing.TB) *fakeServer {
	t.Helper()
	f := &fakeServer{}
	t.Cleanup(f.start())
	return f
}

func (f *fakeServer) start() (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	srv := httptest.NewServer(f)
	f.URL = srv.URL
	return srv.Close
}

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests = append(f.requests, r.Method+" "+r.RequestURI)
	hold := f.hold
	f.mu.Unlock()
	if hold != nil && r.Method == http.MethodPost {
		// Only after its body has been read does a request notice that its sender has gone.
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		hold(r)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/sandboxes", f.create)
	mux.HandleFunc("GET /api/v1/sandboxes", func(w http.ResponseWriter, r *http.Request) { page(w, r, f.sandboxes) })
	mux.HandleFunc("GET /api/v1/sandboxes/{id}", f.one(func(w http.ResponseWriter, i int) { reply(w, 200, f.sandboxes[i]) }))
	mux.HandleFunc("GET /api/v1/sandboxes/{id}/history", f.one(func(w http.ResponseWriter, _ int) {
		reply(w, 200, api.List[api.Transition]{Items: f.history})
	}))
	mux.HandleFunc("DELETE /api/v1/sandboxes/{id}", f.one(f.delete))
	mux.HandleFunc("POST /api/v1/down", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, api.Down{Stopped: 3}) })
	mux.HandleFunc("POST /api/v1/keys", f.createKey)
	mux.HandleFunc("GET /api/v1/keys", func(w http.ResponseWriter, r *http.Request) { page(w, r, f.keys) })
	mux.HandleFunc("DELETE /api/v1/keys/{id}", f.revokeKey)
	mux.HandleFunc("GET /api/v1/templates", func(w http.ResponseWriter, r *http.Request) { page(w, r, f.templates) })
	mux.HandleFunc("GET /api/v1/templates/{name}", f.template)
	if r.Header.Get("Authorization") != "Bearer "+testKey {
		refuse(w, api.CodeUnauthenticated, "no valid key was sent")
		return
	}
	if f.talks != nil && f.talks.serve(w, r) {
		return
	}
	f.projectRoutes(mux)
	if f.can(w, r) || f.inside(w, r) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	mux.ServeHTTP(w, r)
}

// inside answers what concerns the inside of a sandbox that is there, for as long as it takes.
func (f *fakeServer) inside(w http.ResponseWriter, r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.Path, "/api/v1/sandboxes/")
	ref, rest, _ := strings.Cut(rest, "/")
	f.mu.Lock()
	known := slices.ContainsFunc(f.sandboxes, func(s api.Sandbox) bool { return s.ID == ref || s.Name == ref })
	f.mu.Unlock()
	switch {
	case !ok || rest == "" || rest == "history":
		return false
	case !known:
		refuse(w, api.CodeNotFound, fmt.Sprintf("there is no sandbox %q", ref))
		return true
	case f.machine == nil:
		refuse(w, api.CodeUnsupported, "the driver fake cannot run commands in a sandbox")
		return true
	}
	mux := http.NewServeMux()
	f.machine.routes(mux)
	f.turnRoutes(mux)
	mux.ServeHTTP(w, r)
	return true
}

// turnRoutes change the state as they are asked to.
func (f *fakeServer) turnRoutes(mux *http.ServeMux) {
	for verb, state := range map[string]string{"start": "running", "stop": "stopped", "restart": "running", "freeze": "running", "thaw": "running", "archive": "archived", "terminate": "terminated"} {
		mux.HandleFunc("POST /api/v1/sandboxes/{id}/"+verb, func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.one(func(w http.ResponseWriter, i int) {
				if verb == "freeze" && f.sandboxes[i].State != "running" {
					refuse(w, api.CodeNotRunning, "it is "+f.sandboxes[i].State+"; only a running one can be frozen")
					return
				}
				f.sandboxes[i].State = state
				reply(w, 200, f.sandboxes[i])
			})(w, r)
		})
	}
}

func (f *fakeServer) create(w http.ResponseWriter, r *http.Request) {
	var want api.CreateSandbox
	if err := json.NewDecoder(r.Body).Decode(&want); err != nil {
		refuse(w, api.CodeInvalidRequest, err.Error())
		return
	}
	f.created = append(f.created, want)
	if want.Driver == "nosuch" {
		refuse(w, api.CodeUnknownDriver, `there is no driver "nosuch"; the drivers are fake`)
		return
	}
	for _, s := range f.sandboxes {
		if s.Name == want.Name && want.Name != "" {
			reply(w, 200, s)
			return
		}
	}
	s := api.Sandbox{
		ID: fmt.Sprintf("01970e4b-0000-7000-8000-%012d", len(f.sandboxes)+len(f.tombs)+1), Name: want.Name,
		Driver: cmp.Or(want.Driver, "fake"), Template: cmp.Or(want.Template, "default"), Profile: "standard",
		State: "running", Want: "running", Incarnation: 1, CreatedAt: birth, ActiveAt: birth, Metadata: want.Metadata,
	}
	s.Owner = api.Owner{Kind: "sandbox", ID: cmp.Or(s.Name, s.ID)}
	for name := range want.Env {
		s.Env = append(s.Env, name)
	}
	slices.Sort(s.Env)
	f.sandboxes = append(f.sandboxes, s)
	reply(w, 201, s)
}

// delete keeps the name of a sandbox whose end is stuck, as a server does.
func (f *fakeServer) delete(w http.ResponseWriter, i int) {
	if s := &f.sandboxes[i]; f.stuck != nil {
		s.State, s.Want, s.Error = "terminating", "gone", f.stuck
		reply(w, http.StatusAccepted, s)
		return
	}
	f.tombs = append(f.tombs, f.sandboxes[i].ID)
	f.sandboxes = slices.Delete(f.sandboxes, i, i+1)
	w.WriteHeader(http.StatusNoContent)
}

func (f *fakeServer) one(do func(http.ResponseWriter, int)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ref := r.PathValue("id")
		i := slices.IndexFunc(f.sandboxes, func(s api.Sandbox) bool { return s.ID == ref || s.Name == ref })
		if slices.Contains(f.tombs, ref) {
			refuse(w, api.CodeDeleted, ref+" was deleted")
			return
		}
		if i < 0 {
			refuse(w, api.CodeNotFound, fmt.Sprintf("there is no sandbox %q", ref))
			return
		}
		do(w, i)
	}
}

func (f *fakeServer) createKey(w http.ResponseWriter, r *http.Request) {
	var want api.CreateKey
	_ = json.NewDecoder(r.Body).Decode(&want)
	k := api.Key{ID: fmt.Sprintf("k%d", len(f.keys)+1), Label: want.Label, Scope: want.Scope, Prefix: "berth_ab", CreatedAt: birth, ExpiresAt: want.ExpiresAt}
	f.keys = append(f.keys, k)
	reply(w, 201, api.NewKey{Key: k, Secret: "berth_abcdefghijkl"})
}

func (f *fakeServer) revokeKey(w http.ResponseWriter, r *http.Request) {
	for i := range f.keys {
		if f.keys[i].ID == r.PathValue("id") {
			f.keys[i].RevokedAt = &birth
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	refuse(w, api.CodeNotFound, "there is no such key")
}

func (f *fakeServer) template(w http.ResponseWriter, r *http.Request) {
	for _, t := range f.templates {
		if t.Name == r.PathValue("name") {
			reply(w, 200, t)
			return
		}
	}
	refuse(w, api.CodeNotFound, "there is no such template")
}

// page shows two items at a time, so that every list in the tests has several pages.
func page[T any](w http.ResponseWriter, r *http.Request, items []T) {
	from := 0
	_, _ = fmt.Sscan(r.URL.Query().Get("cursor"), &from)
	to := min(from+2, len(items))
	list := api.List[T]{Items: items[from:to]}
	if to < len(items) {
		list.NextCursor = fmt.Sprint(to)
	}
	reply(w, 200, list)
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, code api.Code, detail string) {
	p := api.NewProblem(code, detail)
	p.RequestID = "req-1"
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}
