package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/template/base"
	"github.com/berthdev/berth/internal/testkit"
)

// full is a template that has something of everything.
var full = api.Template{
	Name: "web", Default: true, Extends: "default", Description: "The web", Driver: "local", Base: "debian", User: "agent", Profile: "lite",
	Resources: api.TemplateResources{CPU: 0.5, MemoryBytes: 512 << 20, DiskBytes: 2 << 30, Disk: "loop", Processes: 99},
	Env:       []string{"A", "B"}, Egress: []string{"a:1", "b:2"},
	Mounts:   []api.TemplateMount{{Target: "/opt/a", Source: "/srv/a"}, {Target: "/opt/b"}},
	Services: []api.TemplateService{{Listen: "127.0.0.1:8788", Upstream: "http://127.0.0.1:4000"}},
	Timers:   map[string]string{"auto_stop": "1h"}, Runtime: "demo", AgentCommand: []string{"claude", "-p"}, Turns: 2, UnreachableAfter: "3m", MCPServers: []string{"docs", "files"},
}

func TestTemplatesAreListedAndShown(t *testing.T) {
	f := newFakeServer(t)
	f.templates = []api.Template{
		{Name: "default", Driver: "local", Base: "host", Profile: "standard", Egress: []string{"all"}, Resources: api.TemplateResources{CPU: 1, MemoryBytes: 2 << 30, DiskBytes: 10 << 30, Disk: "soft"}},
		{Name: "hostile\x1b[31m", Driver: "local", Base: "host"},
		full,
	}
	s := newShell(t, f)
	out := s.ok("template", "ls")
	contains(t, "ls", out, "NAME ", "default ", "standard  1 cpu, 2GiB, 10GiB disk", " all ", "web * ", "0.5 cpu, 512MiB, 2GiB disk", "2 rules", "The web", `hostile\x1b[31m`)
	if got := s.ok("templates", "list", "-q"); !strings.HasPrefix(got, "default\n") || !strings.HasSuffix(got, "\nweb\n") {
		t.Errorf("-q printed %q", got)
	}
	contains(t, "show", s.ok("template", "show", "web"),
		"name         web\n", "extends      default\n", "size         0.5 cpu, 512MiB, 2GiB disk (loop)\n", "processes    99\n", "env          A, B\n",
		"egress       a:1, b:2\n", "mount        /opt/a → /srv/a\n", "mount        /opt/b\n", "service      127.0.0.1:8788 → http://127.0.0.1:4000\n",
		"timers       auto_stop=1h\n", "command      claude -p\n", "unreachable  wait after 3m\n", "turns        2\n", "mcp servers  docs, files\n", "default      yes")
	if got := decode[api.Template](t, s.ok("template", "get", "web", "--json")); got.Name != "web" || len(got.Mounts) != 2 {
		t.Errorf("--json printed %+v", got)
	}
	if r := s.berth("template", "show", "nosuch"); r.code != 125 || !strings.Contains(r.err, "get template: there is no such template") {
		t.Errorf("%+v", r)
	}
	contains(t, "completion", s.berth("__complete", "template", "show", "").out, "default", "web\tThe web")
	if got := s.berth("__complete", "template", "show", "web", "").out; strings.Contains(got, "default") {
		t.Errorf("completes a second name: %q", got)
	}
	for _, args := range [][]string{{"template", "ls"}, {"template", "show", "web"}} {
		if r := newShell(t, nil).with("BERTH_SERVER", "nonsense").berth(args...); r.code != 125 || !strings.Contains(r.err, "http://host:port") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// builtIn are the names of the built-in templates.
var builtIn = []string{"claude_code", "codex", "copilot", "cursor", "default", "demo", "gemini", "github", "goose", "none", "opencode", "qwen", "sandbox_agent"}

func TestTemplateCheckTellsFindingsAndFixes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "berth.toml")
	check := func(text string, more ...string) result {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return newShell(t, nil).berth(append([]string{"template", "check", file}, more...)...)
	}
	good := "[templates.web]\nextends = \"default\"\nenv = {A = \"canary\"}\n"
	if r := check(good); r.code != 0 || r.out != "ok       "+strings.Join(append(slices.Clone(builtIn), "web"), "\nok       ")+"\n14 templates, 0 warnings, 0 failed\n" || r.err != "" {
		t.Errorf("%+v", r)
	}
	if r := check(good + "image = \"x\"\n"); r.code != 0 {
		t.Errorf("%+v", r)
	} else {
		contains(t, "check", r.out, "warning  templates.web.image (file "+file+":4) is kept, not used yet\n", "14 templates, 1 warning, 0 failed")
	}
	bad := good + "drivr = \"fake\"\nbase = \"debian\"\n"
	r := check("listen = \"nowhere\"\n" + bad)
	if r.code != 1 || r.err != "" || strings.Contains(r.out, "canary") {
		t.Errorf("%+v", r)
	}
	contains(t, "check", r.out,
		"failed   listen = \"nowhere\" (file "+file+":1) is not host:port\n         fix: write host:port",
		"failed   templates.web.drivr (file "+file+":5) is not a key of templates\n         fix: did you mean driver?\n",
		"failed   templates.web.base = \"debian\" (file "+file+":6) is no base on this machine\n         fix: make it with 'berth template build-base debian'",
		"13 templates, 0 warnings, 3 failed\n")
	r = check(bad, "--json")
	if got := decode[checkedTemplates](t, r.out); r.code != 1 || got.Status != "failed" || got.File != file || len(got.Findings) != 2 || got.Findings[0].Fix != "did you mean driver?" || len(got.Templates) != len(builtIn) {
		t.Errorf("--json printed %s", r.out)
	}
	if r := newShell(t, nil).with("BERTH_CONFIG", file).berth("template", "check"); r.code != 1 {
		t.Errorf("the file of the environment: %+v", r)
	}
	if r := newShell(t, nil).berth("template", "check", "/nosuch.toml"); r.code != 125 || !strings.Contains(r.err, "/nosuch.toml") {
		t.Errorf("%+v", r)
	}
	s := newShell(t, nil)
	s.deps.Stdout = fullDisk{}
	if r := s.berth("template", "check"); r.code != 125 || !strings.Contains(r.err, "no space left") {
		t.Errorf("%+v", r)
	}
}

// stub puts a debootstrap into the path that makes the least of a system.
func stub(t *testing.T, s *shell, last string) (data string) {
	t.Helper()
	bin := t.TempDir()
	script := "#!/bin/sh\nfor a; do case $a in */root) t=$a;; esac; done\necho 'I: Retrieving one'; echo 'I: Retrieving two'\nmkdir -p $t/bin $t/etc; touch $t/bin/sh $t/etc/passwd\n" + last + "\n"
	if err := os.WriteFile(filepath.Join(bin, "debootstrap"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	data = t.TempDir()
	s.env["BERTH_DATA_DIR"] = data
	return data
}

func TestBuildBase(t *testing.T) {
	s := newShell(t, nil)
	data := stub(t, s, "")
	build := func(more ...string) result {
		return s.berth(append([]string{"template", "build-base", "debian", "--mirror", "http://mirror.test/a"}, more...)...)
	}
	r := build("--suite", "sloth")
	if r.code != 0 || r.err != "Retrieving one\nFinishing\n" {
		t.Errorf("%+v", r)
	}
	contains(t, "build-base", r.out, "debian (built in ", data+"/bases/debian\n", "base = \"debian\"")
	contains(t, "again", build().out, "debian (was there already; --force builds it anew)")
	if r := build("--suite", "tiger"); r.code != 125 || !strings.Contains(r.err, "of sloth and not of tiger") || !strings.Contains(r.err, "hint: Choose another name, or build it anew with --force.") {
		t.Errorf("%+v", r)
	}
	r = build("--suite", "tiger", "--force", "--json", "--include", "git,curl")
	if got := decode[builtBase](t, r.out); r.code != 0 || !got.Made || got.Suite != "tiger" || got.Former == "" || len(got.Include) != 2 || r.err != "" {
		t.Errorf("%+v", r)
	}
	contains(t, "force", build("--force", "--suite", "tiger").err, "The former base is kept", "rm -rf "+data)
	contains(t, "bases", s.ok("template", "bases"), "NAME ", "debian  tiger  ", data+"/bases/debian\n")
	if got := s.ok("template", "bases", "-q"); got != "debian\n" {
		t.Errorf("-q printed %q", got)
	}
	if got := decode[api.List[base.Base]](t, s.ok("template", "bases", "--json")); len(got.Items) != 1 || got.Items[0].Suite != "tiger" {
		t.Errorf("--json printed %+v", got)
	}
	contains(t, "a base is checked", s.berth("template", "check").out, "ok       default\n")
}

func TestBuildBaseSaysWhatIsMissing(t *testing.T) {
	s := newShell(t, nil)
	data := stub(t, s, "echo \"E: it broke\"; exit 3")
	if r := s.berth("template", "build-base", "x", "--mirror", "http://mirror.test/a"); r.code != 125 || !strings.Contains(r.err, "E: it broke") || !strings.Contains(r.err, "--mirror names another") {
		t.Errorf("%+v", r)
	}
	t.Setenv("PATH", t.TempDir())
	if r := s.berth("template", "build-base", "x"); r.code != 125 || !strings.Contains(r.err, "debootstrap is not installed") || !strings.Contains(r.err, "hint: Install it: apt-get install -y debootstrap.") {
		t.Errorf("%+v", r)
	}
	if r := s.berth("template", "build-base"); r.code != 125 || !strings.Contains(r.err, "needs the NAME of one base") {
		t.Errorf("%+v", r)
	}
	for _, args := range [][]string{{"template", "build-base", "x", "--listen", "nowhere"}, {"template", "bases", "--listen", "nowhere"}} {
		if r := s.berth(args...); r.code != 125 || !strings.Contains(r.err, "host:port") {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if r := s.berth("template", "bases"); r.code != 0 || !strings.Contains(r.err, "No bases yet. 'berth template build-base NAME' makes one.") {
		t.Errorf("%+v", r)
	}
	if err := os.RemoveAll(filepath.Join(data, "bases")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "bases"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := s.berth("template", "bases"); r.code != 125 || !strings.Contains(r.err, "list bases") {
		t.Errorf("%+v", r)
	}
}

// An interrupt ends the build and what it runs.
func TestBuildBaseIsInterrupted(t *testing.T) {
	s := newShell(t, nil)
	begun := filepath.Join(t.TempDir(), "begun")
	data := stub(t, s, "touch "+begun+"; sleep 1000")
	ended := make(chan result, 1)
	go func() { ended <- s.berth("template", "build-base", "x", "--mirror", "http://mirror.test/a") }()
	testkit.Eventually(t, 30*time.Second, func() error { _, err := os.Stat(begun); return err })
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if r := <-ended; r.code != 130 {
		t.Errorf("%+v", r)
	}
	if left, err := filepath.Glob(filepath.Join(data, "bases", ".x.building-*")); err != nil || len(left) > 0 {
		t.Errorf("left %q, %v", left, err)
	}
}
