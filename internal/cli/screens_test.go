package cli

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/ptytest"
)

const secondID = "01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10"

// screens are the tables of the program, by command line, and what a server answers for each. Names are long,
// and some have characters that are two columns wide.
func screens() map[string]map[string]any {
	at := func(d time.Duration) time.Time { return birth.Add(-d) }
	ptr := func(d time.Duration) *time.Time { t := at(d); return &t }
	long := "the instance did not answer within 30 seconds, and its driver says that it is gone"
	return map[string]map[string]any{
		"ls": {"GET /api/v1/sandboxes": api.List[api.Sandbox]{Items: []api.Sandbox{
			{ID: firstID, Name: "データ分析", State: "running", Driver: "local", Template: "claude_code", CreatedAt: at(50 * time.Hour), ActiveAt: at(3 * time.Minute), Saved: api.Saved{UnsavedSince: ptr(40 * time.Second)}},
			{ID: secondID, State: "terminating", Driver: "local", Template: "default", CreatedAt: at(time.Hour), ActiveAt: at(time.Minute), Owner: api.Owner{Kind: "conversation", ID: secondID}},
			{ID: firstID, Name: "a-name-that-somebody-made-very-long-indeed-for-no-reason", State: "running", Frozen: true, OOMKills: 1, Driver: "fake", Template: "default", CreatedAt: at(0), ActiveAt: at(0)},
			{ID: secondID, Name: "small", State: "running", OOMKills: 3, Driver: "local", Template: "default", CreatedAt: at(0), ActiveAt: at(0)},
		}}},
		"ls --deleted": {"GET /api/v1/sandboxes": api.List[api.Sandbox]{Items: []api.Sandbox{
			{ID: firstID, Name: "データ分析", State: "terminated", Template: "claude_code", CreatedAt: at(50 * time.Hour), DeletedAt: ptr(time.Minute)},
			{ID: secondID, State: "terminated", Template: "default", CreatedAt: at(time.Hour), DeletedAt: ptr(time.Second), Owner: api.Owner{Kind: "project", ID: "店舗"}},
		}}},
		"ports box": {
			"GET /api/v1/sandboxes/box": api.Sandbox{ID: firstID, Name: "box", State: "running"},
			"GET /api/v1/sandboxes/box/ports": api.List[api.OpenPort]{Items: []api.OpenPort{
				{Port: 80, Address: "::", Path: "/api/v1/sandboxes/" + firstID + "/ports/80/"}, {Port: 8080, Address: "127.0.0.1", Path: "/api/v1/sandboxes/" + firstID + "/ports/8080/"},
			}},
		},
		"config --data-dir /var/lib/船": {},
		"history scratch": {"GET /api/v1/sandboxes/scratch/history": api.List[api.Transition]{Items: []api.Transition{
			{At: at(time.Minute), Event: "lost", From: "running", To: "error", Reason: long, Actor: "engine"},
			{At: at(time.Hour), Event: "want", From: "stopped", To: "stopped", Want: "running", Reason: "使用されました", Actor: "key 鍵 laptop (" + secondID + ")"},
			{At: at(2 * time.Hour), Event: "stopped", From: "stopping", To: "stopped", Actor: "key " + secondID},
		}}},
		"stats --once": {
			"GET /api/v1/sandboxes":                        api.List[api.Sandbox]{Items: []api.Sandbox{{ID: firstID, Name: "データ分析", State: "running"}, {ID: secondID, State: "running"}}},
			"GET /api/v1/sandboxes/" + firstID + "/stats":  api.SandboxStats{At: birth, MemoryBytes: 123 << 20, MemoryLimitBytes: 2 << 30, CPUSeconds: 12, Processes: 7, OOMKills: 2},
			"GET /api/v1/sandboxes/" + secondID + "/stats": api.CodeNotRunning,
		},
		"history saved": {
			"GET /api/v1/sandboxes/saved": api.Sandbox{ID: firstID, State: "running", Frozen: true, OOMKills: 2, Saved: api.Saved{Restored: &api.RestoredVersion{Version: "20261115T031402.123456789Z-1a2b3c", At: at(3 * time.Minute)}}},
			"GET /api/v1/sandboxes/saved/versions": api.List[api.Version]{Items: []api.Version{
				{ID: "20261115T031402.123456789Z-4d5e6f", CreatedAt: at(time.Minute), Files: 12, Bytes: 5 << 20, Note: "手動で"}, {ID: "20261115T031402.123456789Z-1a2b3c", CreatedAt: at(time.Hour), Files: 1, Bytes: 1},
			}},
			"GET /api/v1/sandboxes/saved/history": api.List[api.Transition]{Items: []api.Transition{
				{At: at(2 * time.Minute), Event: "ready", From: "creating", To: "running", Reason: "created"}, {At: at(4 * time.Minute), Event: "begin", From: "archived", To: "creating", Reason: "used again"}, {At: at(2 * time.Hour), Event: "want", To: "pending", Want: "running"},
			}},
		},
		"keys ls": {"GET /api/v1/keys": api.List[api.Key]{Items: []api.Key{
			{ID: firstID, Label: "鍵 of the laptop", Prefix: "berth_abcd", Scope: "admin", CreatedAt: at(500 * time.Hour), LastUsedAt: ptr(time.Second)},
			{ID: secondID, Prefix: "berth_efgh", Scope: "read", CreatedAt: at(time.Hour), RevokedAt: ptr(time.Minute)},
		}}},
		"account ls": {"GET /api/v1/accounts": api.List[api.Account]{Items: []api.Account{
			{ID: firstID, Name: "山田太郎", Email: "taro.yamada.of.the.long.address@research.example.com", CreatedAt: at(time.Hour)},
		}}},
		"secret ls": {"GET /api/v1/secrets": api.List[api.Secret]{Items: []api.Secret{
			{Name: "ANTHROPIC_API_KEY", Templates: []string{"claude_code", "github"}, UpdatedAt: at(time.Minute)}, {Name: "A_NAME_THAT_NO_TEMPLATE_HAS", UpdatedAt: at(500 * time.Hour)},
		}}},
		"agent ls": {"GET /api/v1/agents": api.List[api.Agent]{Items: []api.Agent{
			{ID: firstID, Name: "査読者", Template: "claude_code", Overrides: json.RawMessage(`{"model":"opus","profile":"full","env":{"GITHUB_TOKEN":"***","LANG":"ja_JP.UTF-8"}}`), CreatedAt: at(time.Hour)},
		}}},
		"conversation ls": {"GET /api/v1/conversations": api.List[api.Conversation]{Items: []api.Conversation{
			{ID: firstID, Title: "メモを書いてください: hello, and then read all of it again", Status: "running", UpdatedAt: at(time.Minute), Stats: api.Stats{MessagesExchanged: 12, TotalInputTokens: 1234567, TotalCostUSD: 1.5}},
			{ID: secondID, Title: "short", Status: "idle", UpdatedAt: at(100 * time.Hour)},
		}}},
		"usage": {"GET /api/v1/usage": api.UsageReport{From: "2026-11-14", To: "2026-11-15", Items: []api.UsageItem{
			{Day: "2026-11-15", Messages: 12, Usage: api.Usage{InputTokens: 1234567, OutputTokens: 9876, CacheReadTokens: 55555, CacheWriteTokens: 4444}, CostUSD: 12.34},
			{Day: "2026-11-14", Messages: 1, Usage: api.Usage{InputTokens: 1}},
		}, Total: api.UsageItem{Messages: 13, Usage: api.Usage{InputTokens: 1234568, OutputTokens: 9876, CacheReadTokens: 55555, CacheWriteTokens: 4444}, CostUSD: 12.34}}},
		"project ls": {"GET /api/v1/projects/sandboxes": api.List[api.ProjectSandbox]{Items: []api.ProjectSandbox{
			{ProjectID: "店舗", SandboxID: firstID, Status: "RUNNING", Driver: "local", Template: "claude_code", CreatedAt: at(50 * time.Hour), LastAccessedAt: at(time.Minute)},
			{ProjectID: "a-project-with-a-name-of-many-words", SandboxID: secondID, Status: "TERMINATED", Driver: "local", Template: "default", CreatedAt: at(time.Hour), LastAccessedAt: at(time.Hour)},
		}}},
		"project tools shop": {"GET " + shopPath + "/tools": api.ToolList{Items: []api.Tool{
			{Name: "bash", Description: "Run a command with bash in the sandbox and return its output. More.", InputSchema: json.RawMessage(`{"properties": {"command": {}, "timeout": {}, "background": {}}, "required": ["command"]}`)},
			{Name: "翻訳", Description: "文章を日本語から英語に翻訳します", InputSchema: json.RawMessage(`{"properties": {"文章": {}}}`)},
		}}},
		"project cleanup --max-idle 1h --dry-run": {"POST /api/v1/projects/sandboxes/cleanup": api.ProjectCleanup{DryRun: true, Items: []api.CleanedProject{
			{ProjectID: "店舗", SandboxID: firstID, IdleSeconds: 7300, Action: "stop"},
		}}},
		"versions scratch": {"GET /api/v1/sandboxes/scratch/versions": api.List[api.Version]{Items: []api.Version{
			{ID: "20261115T031402.123456789Z-1a2b3c", CreatedAt: at(time.Minute), Files: 1234, Bytes: 5 << 20, Note: "変更前の保存, before everything was changed by the agent"},
			{ID: "20261114T031402.123456789Z-4d5e6f", CreatedAt: at(24 * time.Hour), Files: 1, Bytes: 12},
		}}},
		"template ls": {"GET /api/v1/templates": api.List[api.Template]{Items: []api.Template{
			{Name: "claude_code", Default: true, Driver: "local", Base: "host", Profile: "standard", Description: "Claude Code, with its network opened to the API and package registries only", Egress: []string{"api.anthropic.com:443", "registry.npmjs.org:443"}, Resources: api.TemplateResources{CPU: 2, MemoryBytes: 2 << 30, DiskBytes: 10 << 30}},
			{Name: "日本語", Driver: "local", Base: "debian", Profile: "lite", Description: "軽量な環境"},
		}}},
		"host ls": {"GET /api/v1/hosts": api.List[api.Host]{Items: []api.Host{
			{Name: "サーバー1", AdvertiseURL: "https://berth-1.internal.example.com:7070", Alive: true, SeenAt: ptr(time.Second), StartedAt: ptr(90 * time.Hour), Sandboxes: 123},
		}}},
		"host forget old --yes": {"POST /api/v1/hosts/old/forget": api.ForgottenHost{Name: "old", Sandboxes: []api.ForgottenSandbox{
			{ID: firstID, Name: "データ", Owner: api.Owner{Kind: "sandbox", ID: firstID}, State: "running", Lost: true, Version: "20261115T031402.123456789Z-1a2b3c", UnsavedSince: ptr(time.Minute), ActiveAt: at(time.Minute)},
		}}},
		"sweep": {"POST /api/v1/sweep": api.Sweep{At: birth, Drivers: []api.DriverSweep{{Driver: "local", Instances: 3, Findings: []api.SweepFinding{
			{Kind: "orphan", SandboxID: firstID, Instance: "berth-01970e4b-0001", Action: "ended", Detail: "記録がありません: its record is gone since an hour, so that nothing can use it any more"},
		}}}}},
		"ps box": {"GET /api/v1/sandboxes/box/exec": api.List[api.ExecStatus]{Items: []api.ExecStatus{
			{ExecID: secondID, Command: []string{"python3", "-c", "print('こんにちは')", "--verbose", "--with-an-argument-of-some-length"}, Running: true, StartedAt: at(time.Minute), End: 12345},
			{ExecID: "build", Command: api.LoginShell(), Terminal: true, StartedAt: at(time.Hour), Exit: &api.ExecExit{ExitCode: 137, Signal: "KILL"}},
		}}},
		"files box": {"GET /api/v1/sandboxes/box/files": api.List[api.File]{Items: []api.File{
			{Path: "資料", Name: "資料", Type: "directory", Mode: "0755", ModifiedAt: at(time.Hour)},
			{Path: "a-file-with-a-name-that-is-longer-than-most-terminals-are-wide-and-then-some-more.txt", Type: "file", Size: 123456, Mode: "0644", ModifiedAt: at(time.Minute)},
		}}},
		"explain scratch": {"GET /api/v1/sandboxes/scratch/explain": cannedLife()["GET /api/v1/sandboxes/scratch/explain"]},
		"get scratch": {"GET /api/v1/sandboxes/scratch": api.Sandbox{ID: firstID, Name: "データ分析", State: "error", Want: "running", Driver: "local", Template: "default", Profile: "lite", CreatedAt: at(time.Hour), ActiveAt: at(time.Minute),
			Error: &api.SandboxError{Code: "driver_unreachable", Message: long, At: at(time.Second), Attempts: 3}}},
	}
}

var notInNames = regexp.MustCompile(`[^a-z0-9_ ]`)

// TestTablesFitTheTerminal compares every table at three widths. No line is wider than the window.
func TestTablesFitTheTerminal(t *testing.T) {
	for line, canned := range screens() {
		name := strings.Join(strings.Fields(notInNames.ReplaceAllString(line, "")), "_")
		t.Run(name, func(t *testing.T) {
			var all strings.Builder
			for _, width := range []int{60, 80, 120} {
				screen := screenOf(t, line, canned, uint16(width))
				for _, row := range strings.Split(screen, "\n") {
					if w := ui.Width(row); w > width {
						t.Errorf("a line of %d columns at a width of %d: %q", w, width, row)
					}
				}
				fmt.Fprintf(&all, "── %d columns\n%s\n", width, screen)
			}
			testkit.Golden(t, "testdata/screens/"+name+".txt", all.String())
		})
	}
}

func screenOf(t *testing.T, line string, canned map[string]any, width uint16, more ...string) string {
	t.Helper()
	return screenAt(t, birth, line, canned, width, more...)
}

// screenAt is what a command prints at a terminal at a time.
func screenAt(t *testing.T, now time.Time, line string, canned map[string]any, width uint16, more ...string) string {
	t.Helper()
	f := newMachine(t)
	f.canned = canned
	m := ptytest.New(t)
	m.Resize(width, 40)
	deps := newShell(t, f).with("NO_COLOR", "1").forFrame()
	var notes strings.Builder
	deps.Stdout, deps.Stderr = m.TTY, &notes
	a := newApp(deps)
	a.Now = func() time.Time { return now }
	if err := a.run(t.Context(), append(strings.Fields(line), more...)...); err != nil {
		t.Fatalf("%v, %s", err, notes.String())
	}
	fmt.Fprint(m.TTY, "\x00")
	m.Wait("\x00")
	text, _, _ := strings.Cut(m.Text(), "\x00")
	return strings.ReplaceAll(text, f.URL, "http://127.0.0.1:27070")
}

// TestHelpFitsTheTerminal: no line of a help page is wider than the window, except examples.
func TestHelpFitsTheTerminal(t *testing.T) {
	for _, line := range []string{"--help", "create --help", "serve --help", "project tool --help"} {
		for _, width := range []int{60, 80} {
			examples := false
			for _, row := range strings.Split(screenOf(t, line, nil, uint16(width)), "\n") {
				examples = row == "Examples:" || examples && row != ""
				if w := ui.Width(row); w > width && !examples && !strings.HasPrefix(row, "  berth ") {
					t.Errorf("%s: a line of %d columns at a width of %d: %q", line, w, width, row)
				}
			}
		}
	}
}

// versionName matches the random part of a version, which the golden file does not have.
var versionName = regexp.MustCompile(`\b[0-9a-f]{6}\b`)

func TestVersionsOfADirectoryFitTheTerminal(t *testing.T) {
	d := newDesk(t)
	here := d.tree("here", map[string]string{"メモ": "1"})
	d.does("push", "--note", "最初の保存, before everything was changed by the agent and its tools", here)
	fill(t, here, map[string]string{"メモ": "two"})
	d.does("push", here)
	var all strings.Builder
	for _, width := range []int{60, 80, 120} {
		screen := screenAt(t, time.Now().Add(30*time.Hour), "workspace versions --store "+d.store+" "+here, nil, uint16(width))
		for _, row := range strings.Split(screen, "\n") {
			if w := ui.Width(row); w > width {
				t.Errorf("a line of %d columns at a width of %d: %q", w, width, row)
			}
		}
		fmt.Fprintf(&all, "── %d columns\n%s\n", width, versionName.ReplaceAllString(screen, "1a2b3c"))
	}
	testkit.Golden(t, "testdata/screens/workspace_versions.txt", all.String())
}

func TestWideShowsEverything(t *testing.T) {
	out := screenOf(t, "ls", screens()["ls"], 60, "--wide")
	contains(t, "ls --wide", out, firstID, secondID, "claude_code", "UNSAVED", "a-name-that-somebody-made-very-long-indeed-for-no-reason")
	if n := strings.Count(out, "\n"); n != 5 {
		t.Errorf("%d lines:\n%s", n, out)
	}
}
