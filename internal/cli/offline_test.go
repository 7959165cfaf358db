package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/config"
)

func TestServeHandsOverWhatTheFlagsSay(t *testing.T) {
	s := newShell(t, nil).with("BERTH_LISTEN", "127.0.0.1:1", "BERTH_LOG_FORMAT", "json")
	var got *config.Loaded
	s.deps.Serve = func(_ context.Context, cfg *config.Loaded, out io.Writer) error {
		got = cfg
		_, err := io.WriteString(out, "ready\n")
		return err
	}
	if out := s.ok("serve", "--listen", "127.0.0.1:2"); out != "ready\n" {
		t.Errorf("printed %q", out)
	}
	if got.Listen != "127.0.0.1:2" || got.Origin("listen") != "flag --listen" || got.LogFormat != "json" || got.Origin("data_dir") != "default" {
		t.Errorf("loaded %+v", got)
	}
}

func TestEverySettingWithAFlagHasOne(t *testing.T) {
	for _, name := range []string{"serve", "config", "migrate", "doctor"} {
		cmd, _, err := tree(t).Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		for _, setting := range config.Settings() {
			if setting.Flag != "" && cmd.Flag(setting.Flag) == nil {
				t.Errorf("berth %s has no --%s", name, setting.Flag)
			}
		}
	}
}

func TestConfigShowsOriginsAndMasksSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "berth.toml")
	if err := os.WriteFile(file, []byte("log_level = \"debug\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newShell(t, nil).with("DATABASE_URL", "postgres://berth:hunter2@db/berth", "BERTH_LEASE_TTL", "soon")
	r := s.berth("config", "--config", file, "--listen", "127.0.0.1:9")
	contains(t, "config", r.out, "SETTING", "127.0.0.1:9", "flag --listen", "file "+file+":1", "env DATABASE_URL", "default")
	contains(t, "stderr", r.err, "berth: warning: lease_ttl")
	if r.code != 0 || strings.Contains(r.out+r.err, "hunter2") {
		t.Errorf("%+v", r)
	}
	got := decode[shownConfig](t, s.ok("config", "--json", "--config", file))
	if got.File != file || len(got.Settings) < 20 || len(got.Warnings) != 1 {
		t.Errorf("--json printed %+v", got)
	}
	if r := s.berth("config", "--config", "/nosuch.toml"); r.code != 125 || !strings.Contains(r.err, "/nosuch.toml") || !strings.Contains(r.err, "hint: Correct the file") {
		t.Errorf("missing file: %+v", r)
	}
}

// TestConfigShowsWhatCouldBeResolved: the command that every configuration error points at shows the
// values beside the faulty ones.
func TestConfigShowsWhatCouldBeResolved(t *testing.T) {
	s := newShell(t, nil).with("BERTH_LOG_FORMAT", "json")
	r := s.berth("config", "--listen", "nowhere")
	if r.code != 125 {
		t.Errorf("exit %d", r.code)
	}
	contains(t, "stdout", r.out, "flag --listen  REFUSED\n", "nowhere", "env BERTH_LOG_FORMAT\n")
	contains(t, "stderr", r.err, "the configuration cannot be used", "listen")
	if strings.Count(r.out, "REFUSED") != 1 {
		t.Errorf("marked more than the faulty row:\n%s", r.out)
	}
	r = s.berth("config", "--json", "--listen", "nowhere")
	got, p := decode[shownConfig](t, r.out), decode[api.Problem](t, r.err)
	if r.code != 125 || len(got.Settings) < 20 || got.Settings[0].Problem == "" || p.Code != api.CodeInvalidConfig {
		t.Errorf("--json: exit %d, %+v, %+v", r.code, got, p)
	}
	s.deps.Stdout = fullDisk{}
	if r := s.berth("config", "--listen", "nowhere"); r.code != 125 || !strings.Contains(r.err, "no space left") {
		t.Errorf("output that cannot be written: %+v", r)
	}
}

func TestMigrateReports(t *testing.T) {
	s := newShell(t, nil)
	if out := s.ok("migrate"); out != "the schema is up to date\n" {
		t.Errorf("printed %q", out)
	}
	if got := decode[map[string]string](t, s.ok("migrate", "--json")); got["report"] != "the schema is up to date" {
		t.Errorf("--json printed %v", got)
	}
	s.deps.Migrate = func(context.Context, *config.Loaded) (string, error) { return "", errors.New("it broke") }
	if r := s.berth("migrate"); r.code != 125 || !strings.Contains(r.err, "it broke") {
		t.Errorf("%+v", r)
	}
	if r := s.berth("migrate", "--listen", "x"); r.code != 125 || !strings.Contains(r.err, "host:port") {
		t.Errorf("%+v", r)
	}
}

func TestVersionSaysWhatItIs(t *testing.T) {
	s := newShell(t, nil)
	contains(t, "version", s.ok("version"), "berth 1.2.3 (commit abc, go1.")
	if s.ok("--version") != s.ok("version") {
		t.Error("--version says something else")
	}
	if s.ok("--version", "--json") != s.ok("version", "--json") || s.ok("-v") != s.ok("version") {
		t.Error("--version --json or -v says something else")
	}
	if got := decode[build](t, s.ok("version", "--json")); got.Version != "1.2.3" || got.Commit != "abc" || got.OS == "" || got.Arch == "" {
		t.Errorf("--json printed %+v", got)
	}
}

func TestVersionFallsBackOnWhatTheToolchainRecorded(t *testing.T) {
	info := &debug.BuildInfo{Main: debug.Module{Version: "v0.9.1"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "true"}}}
	var b build
	b.fill(info)
	if b.Version != "v0.9.1" || b.Commit != "0123456789ab+changes" {
		t.Errorf("filled %+v", b)
	}
	b = build{}
	info.Main.Version = "(devel)"
	b.fill(info)
	if b.Version != "" {
		t.Errorf("filled %+v", b)
	}
	s := newShell(t, nil)
	s.deps.Version, s.deps.Commit = "", ""
	contains(t, "version", s.ok("version"), "berth ", "commit ")
}

func TestDoctorTellsFindingsAndFixes(t *testing.T) {
	port := freePort(t)
	s := newShell(t, nil).with("BERTH_LISTEN", port)
	out := s.ok("doctor")
	contains(t, "doctor", out, "ok       version        berth 1.2.3", "data_dir", port+" is free", " failed\n")
	got := decode[findings](t, s.ok("doctor", "--json"))
	if got.Status == "failed" || len(got.Checks) < 10 {
		t.Errorf("--json printed %+v", got)
	}
}

func TestDoctorEndsWithFailureWhenSomethingFailed(t *testing.T) {
	s := newShell(t, nil).with("BERTH_LISTEN", freePort(t))
	r := s.berth("doctor", "--default-driver", "nosuch")
	if r.code != 125 || r.err != "" {
		t.Errorf("exit %d, stderr %q", r.code, r.err)
	}
	contains(t, "doctor", r.out, "failed   drivers", `default_driver is "nosuch"; this Berth has fake`, "fix: choose one of them with --default-driver", "1 failed")
	r = s.berth("doctor", "--json", "--listen", "nowhere")
	if got := decode[findings](t, r.out); r.code != 125 || got.Status != "failed" || !hasCheck(got.Checks, "configuration", "failed") || hasCheck(got.Checks, "data_dir", "ok") {
		t.Errorf("%+v", got)
	}
}

func hasCheck(checks []api.Check, name, status string) bool {
	for _, c := range checks {
		if c.Name == name && c.Status == status {
			return true
		}
	}
	return false
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// fullDisk is a writer that takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestOutputThatCannotBeWrittenIsAnError(t *testing.T) {
	f := newFakeServer(t)
	f.sandboxes = []api.Sandbox{{ID: "1", Name: "one", State: "running"}}
	f.history = []api.Transition{{Event: "created"}}
	f.projects, f.canned = []api.ProjectSandbox{{ProjectID: "shop"}}, cannedLife()
	s := newShell(t, f).with("BERTH_LISTEN", freePort(t))
	s.deps.Stdout = fullDisk{}
	for _, line := range []string{
		"ls", "ls -q", "ls --json", "get one", "get one --json", "history one", "create one", "create -q", "create --json",
		"keys create", "keys ls --json", "config", "config --json", "version", "version --json", "doctor", "doctor --json",
		"migrate", "migrate --json", "completion bash", "rm one --json",
		"explain scratch", "explain scratch -q", "explain scratch --json", "sweep", "sweep --json", "project ls", "project get shop", "project get shop -q",
		"project ensure shop", "project health shop", "project health shop --json", "project sync shop", "project sync shop --json", "project tools shop",
		"project tool shop bash", "project tool shop bash --json", "project cleanup --max-idle 1h", "project cleanup --max-idle 1h --json", "project restart shop --json",
	} {
		r := s.berth(strings.Fields(line)...)
		if r.code != 125 || !strings.Contains(r.err, "no space left") {
			t.Errorf("berth %s: exit %d, stderr %q", line, r.code, r.err)
		}
	}
}

func TestHelpCommandFindsTheOthers(t *testing.T) {
	s := newShell(t, nil)
	for args, twin := range map[string]string{"help ls": "ls --help", "help keys create": "keys create --help", "help": "--help"} {
		if got := s.ok(strings.Fields(args)...); got != s.ok(strings.Fields(twin)...) {
			t.Errorf("berth %s says something else than berth %s", args, twin)
		}
	}
	if r := s.berth("help", "nosuch"); r.code != 125 || !strings.Contains(r.err, `there is no command "nosuch"`) {
		t.Errorf("%+v", r)
	}
}

func TestUnencodableResultIsAnError(t *testing.T) {
	if err := ui.WriteJSON(io.Discard, func() {}); err == nil {
		t.Error("a function was encoded")
	}
	if err := (&ui.JSONList{W: io.Discard}).Add(func() {}); err == nil {
		t.Error("a function was encoded")
	}
}
