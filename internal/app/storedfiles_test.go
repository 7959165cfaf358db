package app_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/s3test"
)

// get asks with the server's key and returns status and body.
func (p *process) get(t *testing.T, path string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testKey)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// The files of an archived and of a terminated sandbox are read without a machine, whatever its owner; a write and
// a sync bring it back. The home directory is in no version.
func TestFilesWithoutAMachine(t *testing.T) {
	testkit.Proves(t, "V3")
	t.Parallel()
	p := start(t, local(t))
	c := p.client(t)
	sb := c.Sandboxes
	bare := make1(t, c, api.CreateSandbox{Name: "box"})
	project, _, err := c.Projects.Ensure(t.Context(), "shop", api.EnsureProject{})
	if err != nil {
		t.Fatal(err)
	}
	talk, _, err := c.Conversations.Create(t.Context(), api.CreateConversation{})
	if err != nil {
		t.Fatal(err)
	}
	talked, _, err := c.Conversations.Ensure(t.Context(), talk.ID)
	if err != nil {
		t.Fatal(err)
	}
	ends := map[string]func(string) (api.Sandbox, error){
		"archived":   func(id string) (api.Sandbox, error) { return sb.Archive(t.Context(), id) },
		"terminated": func(id string) (api.Sandbox, error) { return sb.Terminate(t.Context(), id) },
	}
	for _, name := range []string{bare.name, project.SandboxID, talked.SandboxID} {
		for state, end := range ends {
			b := box{t, c, name}
			b.sh("mkdir -p src/deep; echo one > src/f; echo two > src/deep/g; echo no > .secret; ln -sf /etc/passwd src/leak; echo home > ~/mine")
			if got, err := end(name); err != nil || got.State != state {
				t.Fatalf("%+v, %v", got, err)
			}
			b.readsWithoutAMachine(p, state)
			if state == "archived" {
				if _, err := sb.Sync(t.Context(), name, api.SyncWorkspace{}); err != nil {
					t.Errorf("a sync: %v", err)
				}
			} else if _, _, err := sb.WriteFile(t.Context(), name, "", "src/new", strings.NewReader("three"), client.WriteOptions{}); err != nil {
				t.Errorf("a write: %v", err)
			}
			if got, err := sb.Get(t.Context(), name); err != nil || got.State != "running" {
				t.Errorf("after a change it is %s, %v", got.State, err)
			}
			b.says("cat src/f", "one\n")
		}
		box{t, c, name}.says("cat src/new", "three")
	}
	if err := sb.Delete(t.Context(), talked.SandboxID); err != nil {
		t.Fatal(err)
	}
	if status, body := p.get(t, "/api/v1/sandboxes/"+talked.SandboxID+"/files"); status != http.StatusGone {
		t.Errorf("a deleted one: %d %s", status, body)
	}
}

func (b box) readsWithoutAMachine(p *process, state string) {
	b.Helper()
	at := "/api/v1/sandboxes/" + b.name
	for path, want := range map[string]string{
		"/files?path=src&depth=2": `"path":"src/deep/g"`,
		"/files?limit=1&depth=9":  `"next_cursor":`,
		"/tree":                   `"path":"src/f"`,
		"/files/src/f":            "one\n",
		"/files/src/f?stat=true":  `"size":4`,
		"/files?path=src":         `"target":"/etc/passwd"`,
		"/archive?path=src":       "two\n",
	} {
		if status, body := p.get(b.T, at+path); status != http.StatusOK || !strings.Contains(body, want) || strings.Contains(body, ".secret") {
			b.Errorf("%s of one that is %s: %d %s", path, state, status, body)
		}
	}
	for path, want := range map[string]api.Code{
		"/files?source=home_dir": api.CodeNotRunning, "/files/src/leak": api.CodePathOutside, "/files/none": api.CodeFileNotFound, "/files/src": api.CodeIsADirectory,
	} {
		if _, body := p.get(b.T, at+path); !strings.Contains(body, `"`+string(want)+`"`) {
			b.Errorf("%s of one that is %s: %s", path, state, body)
		}
	}
	if got, err := b.c.Sandboxes.Get(b.Context(), b.name); err != nil || got.State != state || got.Instance != "" {
		b.Errorf("a read made it %s (%s), %v", got.State, got.Instance, err)
	}
}

// With a store that hangs, reads without a machine answer 503 within their bound.
func TestFilesWithoutAMachineAndWithoutAStore(t *testing.T) {
	testkit.Proves(t, "V3", "E6")
	t.Parallel()
	gate, through := newGate(t, s3test.New(t), false)
	p := start(t, onS3(local(t), through))
	b := make1(t, p.client(t), api.CreateSandbox{Name: "box"})
	b.sh("echo one > f")
	if _, err := b.c.Sandboxes.Archive(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	if status, body := p.get(t, "/api/v1/sandboxes/box/files/f"); status != http.StatusOK || body != "one\n" {
		t.Fatalf("%d %s", status, body)
	}
	gate.hangs.Store(true)
	for _, path := range []string{"/files", "/tree", "/files/f", "/archive"} {
		begun := time.Now()
		status, body := p.get(t, "/api/v1/sandboxes/box"+path)
		if status != http.StatusServiceUnavailable || !strings.Contains(body, string(api.CodeBlobUnreachable)) {
			t.Errorf("%s: %d %s", path, status, body)
		}
		t.Logf("%s was answered after %s", path, time.Since(begun))
	}
	gate.hangs.Store(false)
	if status, body := p.get(t, "/api/v1/sandboxes/box/files/f"); status != http.StatusOK || body != "one\n" {
		t.Errorf("%d %s", status, body)
	}
}
