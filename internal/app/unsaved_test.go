package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
)

// get reads the sandbox.
func (b box) get() api.Sandbox {
	b.Helper()
	s, err := b.c.Sandboxes.Get(b.Context(), b.name)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// vanish ends the instances of all sandboxes and removes their files, without the server.
func vanish(t *testing.T, env []string) {
	t.Helper()
	endAll(t, filepath.Join(strings.TrimPrefix(env[0], "BERTH_DATA_DIR="), "local"))
}

// Work outside turns is saved by itself, and what a lost instance took with it is reported.
func TestWorkOutsideTurnsSurvivesItsInstance(t *testing.T) {
	testkit.Proves(t, "S18")
	t.Parallel()
	env := append(local(t), "BERTH_SAVE_AFTER=1s", "BERTH_RECONCILE_INTERVAL=200ms")
	p := start(t, env)
	b := make1(t, p.client(t), api.CreateSandbox{Name: "box"})
	if s := b.get(); s.UnsavedSince != nil || s.Restored != nil || s.Lost != nil {
		t.Errorf("a new sandbox: %+v", s)
	}
	if _, _, err := b.c.Sandboxes.WriteFile(t.Context(), "box", "working_dir", "api.txt", strings.NewReader("by the files API\n"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.sh("echo by a command > exec.txt")
	saved := func() error {
		if s := b.get(); s.UnsavedSince != nil || s.State != "running" {
			return fmt.Errorf("%s, unsaved since %v, %+v", s.State, s.UnsavedSince, s.SaveError)
		}
		return nil
	}
	testkit.Eventually(t, time.Minute, saved)
	versions := b.versions()
	if len(versions) == 0 {
		t.Fatal("no version was saved")
	}

	vanish(t, env)
	res := b.sh("cat api.txt exec.txt")
	if res.Stdout != "by the files API\nby a command\n" {
		t.Errorf("after the loss: %q, %s", res.Stdout, res.Stderr)
	}
	s := b.get()
	if s.Lost != nil || s.Restored == nil || s.Restored.Version != versions[0].ID || !s.Restored.SavedAt.Equal(versions[0].CreatedAt.Truncate(time.Microsecond)) {
		t.Errorf("restored %+v, lost %+v; the newest version is %+v", s.Restored, s.Lost, versions[0])
	}
	if !strings.Contains(res.Notice, versions[0].ID) {
		t.Errorf("the command's answer says %q", res.Notice)
	}
	if res := b.sh("true"); res.Notice != "" {
		t.Errorf("the next command's answer says %q", res.Notice)
	}
	if e, err := b.c.Sandboxes.Explain(t.Context(), "box"); err != nil || !strings.Contains(e.Summary, "restored from version "+versions[0].ID) {
		t.Errorf("explain: %q, %v", e.Summary, err)
	}
	testkit.Eventually(t, time.Minute, saved)

	// What was not saved is reported as lost.
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
	p = start(t, append(env, "BERTH_SAVE_AFTER=1h", "BERTH_SAVE_EVERY=1h"))
	b.c = p.client(t)
	b.sh("echo late > late.txt; rm exec.txt")
	since := b.get().UnsavedSince
	if since == nil {
		t.Fatal("a change is not recorded as unsaved")
	}
	vanish(t, env)
	res = b.sh("ls")
	if res.Stdout != "api.txt\nexec.txt\n" {
		t.Errorf("after the loss: %q", res.Stdout)
	}
	if !strings.Contains(res.Notice, "were not saved and are lost") || !strings.Contains(res.Notice, versions[0].ID) {
		t.Errorf("the command's answer says %q", res.Notice)
	}
	if s := b.get(); s.Lost == nil || !s.Lost.Since.Equal(*since) {
		t.Errorf("lost %+v, want since %v", s.Lost, since)
	}
	if text := metrics(t, p); !strings.Contains(text, "berth_lost_changes_total 1") {
		t.Error("the loss is not counted")
	}
	told := false
	for h, err := range b.c.Sandboxes.History(t.Context(), "box") {
		told = told || err == nil && h.Event == "lost" && strings.Contains(h.Reason, "were not saved and are lost")
	}
	if e, err := b.c.Sandboxes.Explain(t.Context(), "box"); err != nil || !told || !strings.Contains(e.Summary, "are lost") {
		t.Errorf("history says so: %v; explain: %q, %v", told, e.Summary, err)
	}
}

// A stop saves what changed, so that the workspace outlives the stopped instance, too.
func TestAStopSaves(t *testing.T) {
	testkit.Proves(t, "S18")
	t.Parallel()
	env := append(local(t), "BERTH_SAVE_AFTER=1h", "BERTH_SAVE_EVERY=1h")
	b := make1(t, start(t, env).client(t), api.CreateSandbox{Name: "box"})
	b.sh("echo kept > kept.txt")
	if s, err := b.c.Sandboxes.Stop(t.Context(), "box"); err != nil || s.UnsavedSince != nil || len(b.versions()) != 1 {
		t.Fatalf("unsaved since %v, %d versions, %v", s.UnsavedSince, len(b.versions()), err)
	}
	vanish(t, env)
	b.says("cat kept.txt", "kept\n")
}

// answerTo reads a path of the server. The answer's body is closed with the test.
func answerTo(t *testing.T, p *process, path string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testKey)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// metrics reads the server's metrics.
func metrics(t *testing.T, p *process) string {
	t.Helper()
	res := answerTo(t, p, "/metrics")
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res.Status, err)
	}
	return string(text)
}

// What a project lost with its instance, and what was restored, is in the answers about the project, too.
func TestProjectSaysWhatItLost(t *testing.T) {
	testkit.Proves(t, "S18")
	t.Parallel()
	env := append(local(t), "BERTH_SAVE_AFTER=1h", "BERTH_SAVE_EVERY=1h")
	c := start(t, env).client(t)
	if _, _, err := c.Projects.Ensure(t.Context(), "shop", api.EnsureProject{}); err != nil {
		t.Fatal(err)
	}
	use := func(command string) string {
		t.Helper()
		res, err := c.Projects.Execute(t.Context(), "shop", api.ExecuteTool{ToolName: "bash", Arguments: json.RawMessage(`{"command":"` + command + `"}`)})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(res.Content)
	}
	use("echo saved > a.txt")
	if _, err := c.Projects.Terminate(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	use("echo lost > b.txt")
	if s, err := c.Projects.Get(t.Context(), "shop"); err != nil || s.UnsavedSince == nil || s.Lost != nil {
		t.Errorf("before: unsaved since %v, lost %+v, %v", s.UnsavedSince, s.Lost, err)
	}
	vanish(t, env)
	if got := use("ls"); !strings.Contains(got, "were not saved and are lost") || !strings.Contains(got, "a.txt") || strings.Contains(got, "b.txt") {
		t.Errorf("the tool's answer: %s", got)
	}
	if s, err := c.Projects.Get(t.Context(), "shop"); err != nil || s.Lost == nil || s.Restored == nil {
		t.Errorf("after: restored %+v, lost %+v, %v", s.Restored, s.Lost, err)
	}
}

// Tools and routes that only reach files say what was lost and restored, too.
func TestFilesSayWhatWasLost(t *testing.T) {
	testkit.Proves(t, "S18")
	t.Parallel()
	env := append(local(t), "BERTH_SAVE_AFTER=1h", "BERTH_SAVE_EVERY=1h")
	p := start(t, env)
	c := p.client(t)
	if _, _, err := c.Projects.Ensure(t.Context(), "shop", api.EnsureProject{}); err != nil {
		t.Fatal(err)
	}
	call := func(tool, arguments string) string {
		t.Helper()
		res, err := c.Projects.Execute(t.Context(), "shop", api.ExecuteTool{ToolName: tool, Arguments: json.RawMessage(arguments)})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(res.Content)
	}
	b := make1(t, c, api.CreateSandbox{Name: "box"})
	b.sh("echo saved > a.txt")
	saved, err := c.Sandboxes.Sync(t.Context(), "box", api.SyncWorkspace{})
	if err != nil {
		t.Fatal(err)
	}
	b.sh("echo lost > b.txt")
	call("write", `{"path":"x.txt","content":"lost"}`)
	vanish(t, env)
	if got := call("list", `{}`); !strings.Contains(got, "were not saved and are lost") || !strings.Contains(got, "starts empty") {
		t.Errorf("the answer of the tool list: %s", got)
	}
	for _, path := range []string{"/files/b.txt", "/files", "/tree", "/archive"} {
		if notice := answerTo(t, p, "/api/v1/sandboxes/box"+path).Header.Get(api.HeaderNotice); !strings.Contains(notice, "were not saved and are lost") || !strings.Contains(notice, saved.Version) {
			t.Errorf("GET %s says %q", path, notice)
		}
	}
	b.sh("true")
	if notice := answerTo(t, p, "/api/v1/sandboxes/box/files").Header.Get(api.HeaderNotice); notice != "" {
		t.Errorf("after a use GET /files says %q", notice)
	}
}

// Every answer that may be the first after a loss says what was lost: a verb that finds the loss, or records a use, so
// that the next answer does not say it again.
func TestEveryAnswerSaysWhatWasLost(t *testing.T) {
	testkit.Proves(t, "S18")
	t.Parallel()
	env := append(local(t), "BERTH_SAVE_AFTER=1h", "BERTH_SAVE_EVERY=1h")
	p := start(t, env)
	c := p.client(t)
	verbs := map[string]func(c *client.Client, name string) error{
		"start":   func(c *client.Client, name string) error { return errorOf(c.Sandboxes.Start(t.Context(), name)) },
		"restart": func(c *client.Client, name string) error { return errorOf(c.Sandboxes.Restart(t.Context(), name)) },
		"stop":    func(c *client.Client, name string) error { return errorOf(c.Sandboxes.Stop(t.Context(), name)) },
		"archive": func(c *client.Client, name string) error { return errorOf(c.Sandboxes.Archive(t.Context(), name)) },
		"freeze":  func(c *client.Client, name string) error { return errorOf(c.Sandboxes.Freeze(t.Context(), name)) },
		"sync": func(c *client.Client, name string) error {
			return errorOf(c.Sandboxes.Sync(t.Context(), name, api.SyncWorkspace{}))
		},
		"restore": func(c *client.Client, name string) error {
			return errorOf(c.Sandboxes.Restore(t.Context(), name, api.RestoreVersion{}))
		},
	}
	for name := range verbs {
		b := make1(t, c, api.CreateSandbox{Name: name})
		b.sh("echo saved > a.txt")
		if _, err := c.Sandboxes.Sync(t.Context(), name, api.SyncWorkspace{}); err != nil {
			t.Fatal(err)
		}
		b.sh("echo lost > b.txt")
	}
	vanish(t, env)
	for name, do := range verbs {
		var said string
		if err := do(p.client(t, client.WithNotices(func(text string) { said += text })), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(said, "were not saved and are lost") {
			t.Errorf("%s says %q", name, said)
		}
	}
}

func errorOf(_ any, err error) error { return err }

// A use that is not answered by a command, such as an ensure, says what was lost since the last one, also if the loss
// was found before.
func TestEnsureSaysWhatWasLost(t *testing.T) {
	testkit.Proves(t, "S18")
	t.Parallel()
	env := append(local(t), "BERTH_SAVE_AFTER=1h", "BERTH_SAVE_EVERY=1h")
	p := start(t, env)
	c := p.client(t)
	make1(t, c, api.CreateSandbox{Name: "box"}).sh("echo lost > a.txt")
	if _, _, err := c.Projects.Ensure(t.Context(), "shop", api.EnsureProject{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Projects.Execute(t.Context(), "shop", api.ExecuteTool{ToolName: "write", Arguments: json.RawMessage(`{"path":"x.txt","content":"lost"}`)}); err != nil {
		t.Fatal(err)
	}
	shop, err := c.Projects.Get(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	vanish(t, env)
	for _, id := range []string{"box", shop.SandboxID} {
		if _, err := c.Sandboxes.Stop(t.Context(), id); err != nil { // finds the loss
			t.Fatal(err)
		}
	}
	var said []string
	c = p.client(t, client.WithNotices(func(text string) { said = append(said, text) }))
	if _, _, err := c.Projects.Ensure(t.Context(), "shop", api.EnsureProject{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "box"}); err != nil {
		t.Fatal(err)
	}
	if len(said) != 2 || !strings.Contains(said[0], "were not saved and are lost") || !strings.Contains(said[1], "were not saved and are lost") {
		t.Errorf("the ensures say %q", said)
	}
}

// A turn says what happened to the files that its agent finds.
func TestTurnSaysWhatWasLost(t *testing.T) {
	testkit.Proves(t, "S18")
	t.Parallel()
	env := append(local(t), "BERTH_SAVE_AFTER=1h", "BERTH_SAVE_EVERY=1h")
	c := start(t, env).client(t)
	conv, _, err := c.Conversations.Create(t.Context(), api.CreateConversation{})
	if err != nil {
		t.Fatal(err)
	}
	said := func() (messages []string, last api.TurnEvent) {
		t.Helper()
		turn, err := c.Conversations.Prompt(t.Context(), conv.ID, api.Prompt{Prompt: "run ls"})
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range turn.Events() {
			if err != nil {
				t.Fatal(err)
			}
			if last = e; e.Type == api.EventStatus && e.Status == "workspace_restored" {
				messages = append(messages, e.Message)
			}
		}
		return messages, last
	}
	got, first := said()
	if got != nil || first.Status != api.TurnCompleted {
		t.Fatalf("a new sandbox: %q, %+v", got, first)
	}
	version := first.Version
	testkit.Eventually(t, time.Minute, func() error {
		turn, err := c.Conversations.Turn(t.Context(), conv.ID, first.TurnID)
		if version = turn.Version; err != nil || version == "" {
			return fmt.Errorf("%+v, %v", turn, err)
		}
		return nil
	})
	box{t, c, first.SandboxID}.sh("echo lost > b.txt")
	vanish(t, env)
	if got, last := said(); len(got) != 1 || !strings.Contains(got[0], "were not saved and are lost") || !strings.Contains(got[0], version) || last.Status != api.TurnCompleted {
		t.Errorf("after the loss: %q, %+v", got, last)
	}
	if got, _ := said(); got != nil {
		t.Errorf("the next turn says %q", got)
	}
}

// A terminal says what was lost and restored when it is opened, in its first message.
func TestTerminalSaysWhatWasLost(t *testing.T) {
	testkit.Proves(t, "S18")
	t.Parallel()
	env := append(local(t), "BERTH_SAVE_AFTER=1h", "BERTH_SAVE_EVERY=1h")
	b := make1(t, start(t, env).client(t), api.CreateSandbox{Name: "box"})
	opened := func(opts client.TerminalOptions) string {
		t.Helper()
		terminal, err := b.c.Sandboxes.Terminal(t.Context(), "box", opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := terminal.End(); err != nil {
			t.Error(err)
		}
		if _, err := terminal.Wait(); err != nil {
			t.Error(err)
		}
		return terminal.Notice
	}
	for name, opts := range map[string]client.TerminalOptions{
		"a login shell": {}, "a command": {Exec: api.Exec{Command: api.Shell("cat")}},
	} {
		b.sh("echo saved > a.txt")
		saved, err := b.c.Sandboxes.Sync(t.Context(), "box", api.SyncWorkspace{})
		if err != nil {
			t.Fatal(err)
		}
		b.sh("echo lost > b.txt")
		vanish(t, env)
		if notice := opened(opts); !strings.Contains(notice, "were not saved and are lost") || !strings.Contains(notice, saved.Version) {
			t.Errorf("%s says %q", name, notice)
		}
		if notice := opened(opts); notice != "" {
			t.Errorf("the second time, %s says %q", name, notice)
		}
	}
}
