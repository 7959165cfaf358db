package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
)

// can answers what a test has an answer prepared for.
func (f *fakeServer) can(w http.ResponseWriter, r *http.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	request := r.Method + " " + r.URL.Path
	answer, ok := f.canned[request]
	if !ok {
		return false
	}
	body, _ := io.ReadAll(r.Body)
	f.sent(request, body)
	switch answer := answer.(type) {
	case func() any:
		reply(w, 200, answer())
	case api.Code:
		refuse(w, answer, "not now")
	default:
		reply(w, 200, answer)
	}
	return true
}

func (f *fakeServer) sent(request string, body []byte) {
	if f.bodies == nil {
		f.bodies = map[string]string{}
	}
	f.bodies[request] = strings.TrimSpace(string(body))
}

// newProject is a fake server whose project, shop, has a sandbox that runs commands.
func newProject(t testing.TB) *fakeServer {
	t.Helper()
	f := newMachine(t)
	f.sandboxes[0].Name, f.sandboxes[0].Owner = "", api.Owner{Kind: "project", ID: "shop"}
	f.projects = []api.ProjectSandbox{{
		ID: firstID, ProjectID: "shop", SandboxID: firstID, Status: "RUNNING", State: "running", Driver: "local",
		Template: "default", Profile: "standard", CreatedAt: birth, LastAccessedAt: birth,
	}}
	return f
}

const shopPath = "/api/v1/projects/shop/sandbox"

func (f *fakeServer) projectRoutes(mux *http.ServeMux) {
	const base = "/api/v1/projects"
	mux.HandleFunc("GET "+base+"/sandboxes", func(w http.ResponseWriter, r *http.Request) {
		status := r.URL.Query().Get("status")
		page(w, r, slices.DeleteFunc(slices.Clone(f.projects), func(p api.ProjectSandbox) bool { return status != "" && p.Status != status }))
	})
	mux.HandleFunc("POST "+base+"/{id}/sandbox", f.ensureProject)
	mux.HandleFunc("GET "+base+"/{id}/sandbox", f.oneProject(func(w http.ResponseWriter, i int) { reply(w, 200, f.projects[i]) }))
	mux.HandleFunc("POST "+base+"/{id}/sandbox/restart", f.oneProject(func(w http.ResponseWriter, i int) { reply(w, 200, f.projects[i]) }))
	mux.HandleFunc("DELETE "+base+"/{id}/sandbox", f.oneProject(func(w http.ResponseWriter, i int) {
		f.projects[i].Status = "TERMINATED"
		reply(w, 200, f.projects[i])
	}))
	mux.HandleFunc("DELETE "+base+"/{id}", f.oneProject(f.deleteProject))
	for _, rest := range []string{"health", "sync", "tools"} {
		mux.HandleFunc("GET "+base+"/{id}/sandbox/"+rest, f.oneProject(func(w http.ResponseWriter, _ int) { refuse(w, api.CodeUnsupported, "no answer is prepared") }))
	}
}

func (f *fakeServer) ensureProject(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.sent("ensure", body)
	var want api.EnsureProject
	_ = json.Unmarshal(body, &want)
	id := r.PathValue("id")
	for _, p := range f.projects {
		if p.ProjectID == id {
			reply(w, 200, p)
			return
		}
	}
	p := api.ProjectSandbox{
		ProjectID: id, SandboxID: fmt.Sprintf("01970e4b-0000-7000-8000-%012d", len(f.projects)+1), Status: "RUNNING", State: "running",
		Driver: cmp.Or(want.Driver, "fake"), Template: cmp.Or(want.Template, "default"), Profile: cmp.Or(want.Profile, "standard"),
		Metadata: want.Metadata, CreatedAt: birth, LastAccessedAt: birth,
	}
	f.projects = append(f.projects, p)
	f.sandboxes = append(f.sandboxes, api.Sandbox{ID: p.SandboxID, State: "running", Owner: api.Owner{Kind: "project", ID: id}})
	reply(w, 201, p)
}

func (f *fakeServer) deleteProject(w http.ResponseWriter, i int) {
	p := f.projects[i]
	at := slices.IndexFunc(f.sandboxes, func(s api.Sandbox) bool { return s.ID == p.SandboxID })
	if f.stuck != nil {
		f.sandboxes[at].State, f.sandboxes[at].Want, f.sandboxes[at].Error = "terminating", "gone", f.stuck
		reply(w, http.StatusAccepted, p)
		return
	}
	f.tombs = append(f.tombs, p.SandboxID)
	f.sandboxes = slices.Delete(f.sandboxes, at, at+1)
	f.projects = slices.Delete(f.projects, i, i+1)
	w.WriteHeader(http.StatusNoContent)
}

func (f *fakeServer) oneProject(do func(http.ResponseWriter, int)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		i := slices.IndexFunc(f.projects, func(p api.ProjectSandbox) bool { return p.ProjectID == id })
		if i < 0 {
			refuse(w, api.CodeNotFound, fmt.Sprintf("there is no project %q", id))
			return
		}
		do(w, i)
	}
}
