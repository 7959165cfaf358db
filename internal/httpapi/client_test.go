package httpapi

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	berth "github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/preview"
)

// The Go client and the server agree on everything that a handler alone, or a stub of it, would not show.
func TestClientAndServerAgree(t *testing.T) {
	w := newWorkshop(t)
	c, err := berth.New(w.server.URL, w.write)
	if err != nil {
		t.Fatal(err)
	}
	ctx, boxes := t.Context(), c.Sandboxes
	got, err := boxes.Exec(ctx, "box", api.Exec{Command: api.Command{"sh", "-c", "cat; exit 3"}, Stdin: "in"})
	if err != nil || got.Stdout != "in" || got.ExitCode != 3 {
		t.Errorf("exec: %+v, %v", got, err)
	}

	s, err := boxes.ExecStream(ctx, "box", api.Exec{Command: api.Shell("read x; echo got $x"), OpenStdin: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := boxes.WriteStdin(ctx, "box", s.ExecID, []byte("it\n")); err != nil {
		t.Error(err)
	}
	var out bytes.Buffer
	if exit, err := s.Copy(&out, nil); err != nil || exit.ExitCode != 0 || out.String() != "got it\n" {
		t.Errorf("stream: %q, %+v, %v", out.String(), exit, err)
	}
	again, err := boxes.Attach(ctx, "box", s.ExecID, 4)
	if err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if exit, err := again.Copy(&out, nil); err != nil || exit.ExitCode != 0 || out.String() != "it\n" {
		t.Errorf("attach: %q, %+v, %v", out.String(), exit, err)
	}

	term, err := boxes.Terminal(ctx, "box", berth.TerminalOptions{
		Size: api.TermSize{Cols: 100, Rows: 30}, Exec: api.Exec{Command: api.Shell("stty size; echo $A; read x"), Env: map[string]string{"A": "b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer term.Close()
	if _, err := io.WriteString(term, "done\n"); err != nil {
		t.Error(err)
	}
	shown, err := io.ReadAll(term)
	if exit, _ := term.Wait(); err != nil || exit.ExitCode != 0 || !strings.Contains(string(shown), "30 100\r\n") || !strings.Contains(string(shown), "b\r\n") {
		t.Errorf("terminal: %q, %+v, %v", shown, exit, err)
	}

	at := w.listening(func(out http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(out, r.RequestURI) })
	res, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://x/page?q=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(at, "/ports/")
	number, err := preview.ParsePort(port)
	if err != nil {
		t.Fatal(err)
	}
	inside, err := boxes.Port("box", number)
	if err != nil {
		t.Fatal(err)
	}
	page, err := inside.Do(res)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	if text, _ := io.ReadAll(page.Body); string(text) != "/page?q=1" {
		t.Errorf("port: %q", text)
	}
	if s, err := boxes.Stop(ctx, "box"); err != nil || s.State != "stopped" {
		t.Errorf("stop: %+v, %v", s, err)
	}
}

// The same of projects, under an id that paths are hard on.
func TestClientAndServerAgreeOnProjects(t *testing.T) {
	w := newToolshop(t)
	operator := w.newKey(auth.DefaultTenant, api.ScopeAdmin)
	c, err := berth.New(w.server.URL, operator)
	if err != nil {
		t.Fatal(err)
	}
	const id = "org/repo of ü?#%2F"
	ctx, projects := t.Context(), c.Projects
	if _, err := projects.Get(ctx, id); err == nil {
		t.Error("a project that does not exist")
	}
	made, created, err := projects.Ensure(ctx, id, api.EnsureProject{Metadata: map[string]string{"a": "b"}})
	if err != nil || !created || made.ProjectID != id {
		t.Fatalf("ensure: %+v, %v, %v", made, created, err)
	}
	if same, created, err := projects.Ensure(ctx, id, api.EnsureProject{}); err != nil || created || same.SandboxID != made.SandboxID {
		t.Errorf("again: %+v, %v, %v", same, created, err)
	}
	if got, err := projects.Get(ctx, id); err != nil || got.SandboxID != made.SandboxID {
		t.Errorf("get: %+v, %v", got, err)
	}
	if health, err := projects.Health(ctx, id); err != nil || !health.Healthy {
		t.Errorf("health: %+v, %v", health, err)
	}
	if tools, err := projects.Tools(ctx, id); err != nil || len(tools) != 7 {
		t.Errorf("tools: %+v, %v", tools, err)
	}
	result, err := projects.Execute(ctx, id, api.ExecuteTool{ToolName: "bash", Arguments: json.RawMessage(`{"command":"echo hi"}`)})
	if err != nil || result.Text() != "hi\n" {
		t.Errorf("execute: %+v, %v", result, err)
	}
	if sync, err := projects.Sync(ctx, id); err != nil || !sync.Agrees {
		t.Errorf("sync: %+v, %v", sync, err)
	}
	if sync, err := projects.Reconcile(ctx, id); err != nil || !sync.Agrees {
		t.Errorf("reconcile: %+v, %v", sync, err)
	}
	if got, err := projects.Restart(ctx, id); err != nil || got.Status != "RUNNING" {
		t.Errorf("restart: %+v, %v", got, err)
	}
	if got, err := projects.Cleanup(ctx, api.CleanupProjects{MaxIdleSeconds: 1000, DryRun: true}); err != nil || len(got.Items) != 0 || !got.DryRun {
		t.Errorf("cleanup: %+v, %v", got, err)
	}
	why, err := c.Sandboxes.Explain(ctx, made.SandboxID)
	if err != nil || why.Summary == "" || why.Sandbox.Owner.ID != id {
		t.Errorf("explain: %+v, %v", why, err)
	}
	if sweep, err := c.Sweep(ctx, api.SweepRequest{DryRun: true}); err != nil || len(sweep.Drivers) != 1 || !sweep.DryRun {
		t.Errorf("sweep: %+v, %v", sweep, err)
	}
	if _, err := c.Sandboxes.Archive(ctx, made.SandboxID); err == nil {
		t.Error("archived what cannot be saved")
	}
	if got, err := projects.Terminate(ctx, id, berth.SkipSave()); err != nil || got.Status != "TERMINATED" {
		t.Errorf("terminate: %+v, %v", got, err)
	}
	if got, err := c.Sandboxes.Terminate(ctx, made.SandboxID); err != nil || got.State != "terminated" {
		t.Errorf("terminate by id: %+v, %v", got, err)
	}
	var listed []string
	for p, err := range projects.List(ctx, berth.ProjectFilter{Status: "TERMINATED"}) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, p.ProjectID)
	}
	if len(listed) != 1 || listed[0] != id {
		t.Errorf("listed %v", listed)
	}
	if err := projects.Delete(ctx, id, berth.SkipSave()); err != nil {
		t.Error(err)
	}
	if _, err := projects.Get(ctx, id); err == nil {
		t.Error("a project that was deleted")
	}
}
