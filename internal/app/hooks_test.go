package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/app"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

const hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// withConfig adds a configuration file to a server's environment.
func withConfig(t *testing.T, env []string, toml string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "berth.toml")
	if err := os.WriteFile(file, []byte(toml), 0o600); err != nil {
		t.Fatal(err)
	}
	return append(env, "BERTH_CONFIG="+file)
}

// called is a webhook that counts what it is told, by type.
type called struct {
	*httptest.Server
	mu  sync.Mutex
	ids map[string]map[string]bool
}

func newCalled(t *testing.T) *called {
	c := &called{ids: map[string]map[string]bool{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for _, phase := range hook.Phases {
			if strings.Contains(string(body), `"type":"`+string(phase)+`"`) {
				c.mu.Lock()
				if c.ids[string(phase)] == nil {
					c.ids[string(phase)] = map[string]bool{}
				}
				c.ids[string(phase)][r.Header.Get("webhook-id")] = true
				c.mu.Unlock()
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// has waits until the webhook was told so many things of a type.
func (c *called) has(t *testing.T, phase hook.Phase, want int) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if n := len(c.ids[string(phase)]); n != want {
			return fmt.Errorf("the webhook was told of %s %d times, not %d", phase, n, want)
		}
		return nil
	})
}

// Hooks of the configuration run in the life of a real sandbox: commands inside, webhooks outside.
func TestHooksOfTheConfiguration(t *testing.T) {
	testkit.Proves(t, "H1", "H2", "H6", "H8")
	t.Parallel()
	c := newCalled(t)
	env := withConfig(t, local(t), `
[templates.hooked]
extends = "default"
env = {FROM = "the template"}
[[templates.hooked.hooks]]
name = "note"
phase = "cold_start"
command = "echo $FROM $BERTH_INCARNATION >> starts; cat > event"
[[templates.hooked.hooks]]
phase = "cold_start"
url = "`+c.URL+`/start"
secret = "`+hookSecret+`"
allow_private = true
[[templates.hooked.hooks]]
phase = "terminate"
url = "`+c.URL+`/end"
secret = "`+hookSecret+`"
allow_private = true
`)
	p := start(t, env)
	b := make1(t, p.client(t), api.CreateSandbox{Name: "box", Template: "hooked"})
	b.says("cat starts; grep -c cold_start event", "the template 1\n1\n")
	c.has(t, hook.OnColdStart, 1)
	if _, err := b.c.Sandboxes.Stop(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	b.says("cat starts", "the template 1\nthe template 1\n") // each start is one
	b.says("cat starts", "the template 1\nthe template 1\n") // a use is none
	c.has(t, hook.OnColdStart, 2)
	if _, err := b.c.Sandboxes.Terminate(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	c.has(t, hook.OnTerminate, 1)
	b.says("cat starts", "the template 1\nthe template 1\nthe template 2\n")
	c.has(t, hook.OnColdStart, 3)
	log := p.logs.String()
	for _, want := range []string{`msg="hook ran"`, "type=cold_start", "hook=note", "template=hooked", "owner_kind=sandbox", `msg="sandbox ends"`} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in the log", want)
		}
	}
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
	if files := holding(t, value(env, "BERTH_DATA_DIR"), hookSecret); len(files) > 0 || strings.Contains(p.logs.String(), hookSecret) {
		t.Errorf("the webhook's secret is in the log or in %v", files)
	}
}

// A cold start that fails is told in full and leaves nothing; on a start from stopped the files stay.
func TestFailingColdStartHook(t *testing.T) {
	testkit.Proves(t, "H2", "H3")
	t.Parallel()
	env := withConfig(t, local(t), `
[templates.picky]
extends = "default"
[[templates.picky.hooks]]
phase = "cold_start"
command = "echo the disk is haunted >&2; test -z \"$HAUNTED\" && test ! -e haunted"
`)
	p := start(t, env)
	c := p.client(t)
	_, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "bad", Template: "picky", Env: map[string]string{"HAUNTED": "yes"}})
	if pr := problem(err); pr.Code != api.CodeHookFailed || pr.Retryable || strings.Contains(pr.Detail, "driver") ||
		pr.Title != "A cold start hook refused the start" || !strings.Contains(pr.Detail, "hook command: the command exited with 1: the disk is haunted") {
		t.Fatalf("%+v", pr)
	}
	if bad, err := c.Sandboxes.Get(t.Context(), "bad"); err != nil || bad.State != "error" {
		t.Errorf("it is %s, %v", bad.State, err)
	}
	if left, _ := filepath.Glob(value(env, "BERTH_DATA_DIR") + "/local/0*"); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	b := make1(t, c, api.CreateSandbox{Name: "box", Template: "picky"})
	b.sh("echo kept > f; touch haunted")
	if _, err := c.Sandboxes.Stop(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Sandboxes.Start(t.Context(), "box"); problem(err).Code != api.CodeHookFailed {
		t.Fatal(err)
	}
	if box, err := c.Sandboxes.Get(t.Context(), "box"); err != nil || box.State != "stopped" || box.Error == nil || box.Error.Code != api.CodeHookFailed {
		t.Errorf("it is %s with %+v, %v", box.State, box.Error, err)
	}
	if err := c.Sandboxes.DeleteFile(t.Context(), "box", "", "haunted", false); err != nil {
		t.Fatal(err)
	}
	b.says("cat f", "kept\n")
}

// The template github brings a private repository into the workspace once; its token is nowhere on disk.
func TestGithubTemplate(t *testing.T) {
	testkit.Proves(t, "H7")
	t.Parallel()
	const token = "canary-of-the-repository-77"
	upstream := repository(t, token)
	env := withConfig(t, local(t), `
[templates.code]
extends = "github"
[templates.code.services]
"127.0.0.1:8418" = "`+upstream+`"
`)
	p := start(t, env)
	b := make1(t, p.client(t), api.CreateSandbox{Name: "box", Template: "code", Env: map[string]string{
		"GITHUB_REPOSITORY": "http://127.0.0.1:8418/private.git", "GITHUB_REF": "main", "GITHUB_TOKEN": token,
	}})
	b.says("cat hello; git status --short; git rev-parse --abbrev-ref HEAD", "world\nmain\n")
	b.says("grep -r -l canary-of-the /workspace /home/agent /tmp 2>/dev/null", "")
	b.sh("echo mine > hello")
	if _, err := b.c.Sandboxes.Terminate(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	b.says("cat hello; git status --short", "mine\n M hello\n") // the saved workspace, not another clone
	if strings.Contains(p.logs.String(), token) {
		t.Error("the token is in the log")
	}
	_, _, err := b.c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "empty", Template: "code"})
	if pr := problem(err); !strings.Contains(pr.Detail, "no repository is named; give the sandbox the variable or the metadata GITHUB_REPOSITORY") {
		t.Errorf("%+v", pr)
	}
}

// repository is a git server with a repository for who has the token.
func repository(t *testing.T, token string) string {
	t.Helper()
	root := t.TempDir()
	script := `set -e; cd "$1"; git init -q --bare -b main private.git; git init -q -b main work; cd work
echo world > hello; git add hello; git -c user.name=a -c user.email=a@b commit -q -m one; git push -q ../private.git main; git --exec-path`
	out, err := exec.Command("/bin/sh", "-c", script, "sh", root).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	backend := &cgi.Handler{Path: strings.TrimSpace(string(out)) + "/git-http-backend", Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != token {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// The end of a turn saves a version, unless the template is without that hook, or is not saved. The turn has it.
func TestEndOfATurnSavesAVersion(t *testing.T) {
	testkit.Proves(t, "H5", "S7", "S14")
	t.Parallel()
	p := start(t, withConfig(t, local(t), `[templates.unsaved]
extends = "demo"
sync = false
[templates.bare]
extends = "demo"
default_hooks = false
`))
	for template, saves := range map[string]bool{"demo": true, "bare": false, "unsaved": false} {
		conv, _, err := p.client(t).Conversations.Create(t.Context(), api.CreateConversation{Template: template})
		if err != nil {
			t.Fatal(err)
		}
		id := prompted(t, p.client(t), conv.ID, "run echo x > f")
		testkit.Eventually(t, time.Minute, func() error {
			turn, err := p.client(t).Conversations.Turn(t.Context(), conv.ID, id)
			if err != nil || turn.VersionPending || (turn.Version != "") != saves || len(turn.Warnings) > 0 {
				return fmt.Errorf("%s: %+v, %w", template, turn, err)
			}
			return nil
		})
	}
}

// Hooks are told where the versions of a workspace are, unless it is not saved.
func TestHooksKnowWhereVersionsAre(t *testing.T) {
	testkit.Proves(t, "H5")
	t.Parallel()
	env := withConfig(t, local(t), "[templates.unsaved]\nextends = \"default\"\nsync = false\n")
	cfg, err := config.Load(config.Sources{Env: func(name string) (string, bool) { v := value(env, name); return v, v != "" }})
	if err != nil {
		t.Fatal(err)
	}
	s, err := app.NewServer(t.Context(), app.Options{Config: cfg, Out: io.Discard, Log: t.Output(), Exe: testkit.Binary(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, template := range []string{"default", "none", "unsaved"} {
		id := store.NewID()
		record, _, err := s.Engine().Ensure(t.Context(), engine.Request{
			Owner: sandbox.Owner{Tenant: "default", Kind: sandbox.OwnerSandbox, ID: id}, ID: id, Spec: sandbox.Spec{Template: template},
		})
		if err != nil {
			t.Fatal(err)
		}
		d := &hook.Data{Record: record, TurnID: "turn-" + template, Status: api.TurnCompleted}
		if warnings := s.Hooks().StreamFinish(t.Context(), d); len(warnings) > 0 {
			t.Errorf("%s: %v", template, warnings)
		}
		if s3 := d.Sandbox.S3; (s3 != nil) != (template != "unsaved") || s3 != nil && (!strings.HasPrefix(s3.Prefix, "docs/default/") || !s3.InitFromS3) {
			t.Errorf("%s: %+v", template, s3)
		}
		if _, err := s.Engine().HandleOn(record, "test").Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Templates put hooks around the default hooks, replace them or drop them.
func TestDefaultHooksAreWrappedReplacedAndDropped(t *testing.T) {
	testkit.Proves(t, "H5", "H6")
	t.Parallel()
	p := start(t, withConfig(t, local(t), `[templates.wrapped]
extends = "demo"
hooks = [
  {phase = "cold_start", name = "before", command = "ls /workspace > /home/agent/before"},
  {phase = "cold_start", builtin = "pull"},
  {phase = "cold_start", name = "after", command = "ls /workspace > /home/agent/after"},
]
[templates.replaced]
extends = "demo"
drop_hooks = ["pull"]
hooks = [{phase = "cold_start", command = "echo new > seed"}]
[templates.dropped]
extends = "demo"
drop_hooks = ["store", "tally"]
`))
	c := p.client(t)
	reborn := func(template string) box {
		b := make1(t, c, api.CreateSandbox{Name: template, Template: template})
		b.sh("echo old > old")
		if _, err := c.Sandboxes.Terminate(t.Context(), template); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Sandboxes.Start(t.Context(), template); err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := reborn("wrapped")
	b.says("cat /home/agent/before", "")
	b.says("cat /home/agent/after", "old\n")

	b = reborn("replaced")
	b.says("ls", "seed\n")
	if _, err := c.Sandboxes.Sync(t.Context(), "replaced", api.SyncWorkspace{}); err != nil {
		t.Fatal(err)
	}
	b.says("ls", "seed\n")
	versions := b.versions()
	if len(versions) != 2 {
		t.Fatalf("%d versions", len(versions))
	}
	if _, err := c.Sandboxes.Restore(t.Context(), "replaced", api.RestoreVersion{Version: versions[1].ID}); err != nil {
		t.Fatal(err)
	}
	b.says("cat old", "old\n")

	conv, _, err := c.Conversations.Create(t.Context(), api.CreateConversation{Template: "dropped"})
	if err != nil {
		t.Fatal(err)
	}
	id := prompted(t, c, conv.ID, "run echo x > f")
	testkit.Eventually(t, time.Minute, func() error {
		turn, err := c.Conversations.Turn(t.Context(), conv.ID, id)
		if err != nil || turn.Status != api.TurnCompleted || turn.VersionPending || turn.Version == "" {
			return fmt.Errorf("%+v, %w", turn, err)
		}
		return nil
	})
	for m, err := range c.Conversations.Messages(t.Context(), conv.ID) {
		t.Errorf("stored: %+v, %v", m, err)
	}
	got, err := c.Conversations.Get(t.Context(), conv.ID)
	if err != nil || got.Stats.MessagesExchanged != 0 || got.Undelivered != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if s, err := c.Sandboxes.Get(t.Context(), got.SandboxID); err != nil || s.Metadata["total_input_tokens"] != "" {
		t.Errorf("%+v, %v", s.Metadata, err)
	}
}
