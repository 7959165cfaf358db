package cli

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
)

func TestProjectEnsureMakesOneAndFindsItAgain(t *testing.T) {
	f := newFakeServer(t)
	s := newShell(t, f).with("TOKEN", "hunter2")
	out := s.ok("project", "ensure", "shop", "--template", "web", "--driver", "fake", "--profile", "lite", "-e", "TOKEN", "-m", "team=blue")
	contains(t, "first ensure", out, "shop is running (made in ", "sandbox      "+firstID, "template     web")
	got := decode[api.EnsureProject](t, f.bodies["ensure"])
	if got.Template != "web" || got.Driver != "fake" || got.Profile != "lite" ||
		!maps.Equal(got.Env, map[string]string{"TOKEN": "hunter2"}) || !maps.Equal(got.Metadata, map[string]string{"team": "blue"}) {
		t.Errorf("sent %+v", got)
	}
	contains(t, "second ensure", s.ok("projects", "create", "shop"), "shop is running (was there already)")
	if out := s.ok("p", "ensure", "shop", "-q"); out != firstID+"\n" {
		t.Errorf("-q printed %q", out)
	}
	if got := decode[api.ProjectSandbox](t, s.ok("project", "ensure", "a/b c", "--json")); got.ProjectID != "a/b c" {
		t.Errorf("--json printed %+v", got)
	}
	if r := s.berth("project", "ensure", "shop", "-e", "1=2"); r.code != 125 || !strings.Contains(r.err, "the name has to be") {
		t.Errorf("%+v", r)
	}
}

func TestProjectEnsureDoesNotWaitForLongerThanItMay(t *testing.T) {
	f := newFakeServer(t)
	f.hold = func(r *http.Request) { <-r.Context().Done() }
	r := newShell(t, f).berth("project", "ensure", "slow", "--timeout", "50ms")
	if r.code != 124 || r.err != "berth: it does not run after 50ms (--timeout); the server goes on: 'berth project get slow' shows how far it is\n" {
		t.Errorf("%+v", r)
	}
}

func TestProjectEnsureAtATerminal(t *testing.T) {
	f := newProject(t)
	m := newTerminal(t)
	f.projects[0].Status = "CREATING"
	f.hold = func(*http.Request) { m.Wait("ensuring shop: creating") }
	if r := newShell(t, f).at(m).berth("project", "ensure", "shop"); r.code != 0 {
		t.Fatalf("exit %d", r.code)
	}
	m.Wait("berth project rm shop")
	contains(t, "screen", m.Text(), "\x1b[33mcreating\x1b[0m", "Next:", "berth project exec shop -- uname -a", "berth project tools shop")
}

func TestProjectGetShowsEverythingKnown(t *testing.T) {
	f := newProject(t)
	p := &f.projects[0]
	p.StartedAt, p.HealthCheckedAt, p.ErrorMessage, p.Metadata = &birth, &birth, "no room", map[string]string{"team": "blue"}
	s := newShell(t, f)
	contains(t, "get", s.ok("project", "get", "shop"), "project      shop", "sandbox      "+firstID, "status       running", "error        no room",
		"used         2026-11-15T03:00:00Z", "checked      2026", "metadata     team=blue")
	if got := decode[api.ProjectSandbox](t, s.ok("project", "get", "shop", "--json")); got.SandboxID != firstID {
		t.Errorf("--json printed %+v", got)
	}
	if out := s.ok("project", "get", "shop", "-q"); out != firstID+"\n" {
		t.Errorf("-q printed %q", out)
	}
}

func TestProjectLsShowsEveryPageInTheFormAsked(t *testing.T) {
	f := newFakeServer(t)
	s := newShell(t, f)
	if r := s.berth("project", "ls"); r.code != 0 || r.err != "No projects yet. 'berth project ensure ID' makes one.\n" {
		t.Errorf("%+v", r)
	}
	for i := range 5 {
		s.ok("project", "ensure", fmt.Sprint("p", i), "-q")
	}
	f.projects[4].Status = "STOPPED"
	out := s.ok("project", "ls")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 6 || !strings.HasPrefix(lines[0], "PROJECT  STATUS   SANDBOX") || !strings.HasPrefix(lines[5], "p4       stopped  01970e4b") {
		t.Errorf("table:\n%s", out)
	}
	if out := s.ok("project", "list", "-q", "--status", "stopped"); out != "p4\n" {
		t.Errorf("-q --status printed %q", out)
	}
	if got := decode[api.List[api.ProjectSandbox]](t, s.ok("project", "ls", "--json", "--limit", "3")); len(got.Items) != 3 {
		t.Errorf("--json printed %+v", got)
	}
	if r := s.berth("project", "ls", "--status", "ERROR"); r.err != "No project is like that. 'berth project ls' alone lists all.\n" {
		t.Errorf("%+v", r)
	}
	contains(t, "ls of sandboxes", s.ok("ls"), "(project p0)  01970e4b")
}

// TestProjectExecIsExec: what differs is how the sandbox is found.
func TestProjectExecIsExec(t *testing.T) {
	f := newProject(t)
	s := newShell(t, f)
	for _, c := range []struct {
		args     []string
		code     int
		out, err string
	}{
		{[]string{"sh", "-c", "echo out; echo err >&2; exit 7"}, 7, "out\n", "err\n"},
		{[]string{"-e", "A=b", "--", "sh", "-c", "echo $A"}, 0, "b\n", ""},
		{[]string{"nosuch"}, 127, "", "berth: nosuch: not found\n"},
		{[]string{"--timeout", "200ms", "--", "sleep", "60"}, 124, "", "berth: stopped after 200ms (--timeout)\n"},
	} {
		if r := s.berth(append([]string{"project", "exec", "shop"}, c.args...)...); r.code != c.code || r.out != c.out || r.err != c.err {
			t.Errorf("%q: %+v", c.args, r)
		}
	}
	if got := decode[api.ExecResult](t, s.ok("project", "exec", "shop", "--json", "--", "echo", "hi")); got.Stdout != "hi\n" {
		t.Errorf("--json printed %+v", got)
	}
	in := *s
	in.deps.Stdin = strings.NewReader("piped")
	if out := in.ok("project", "exec", "-i", "shop", "--", "cat"); out != "piped" {
		t.Errorf("piped %q", out)
	}
	for want, args := range map[string][]string{
		"needs a command to run in shop":                        {"shop"},
		"'berth project exec shop -- uname -a' runs one":        {"shop"},
		"needs the ID of one project and a command":             {},
		"Did you mean shop? 'berth project ls' lists the":       {"shopp", "ls"},
		"'berth project ensure other-one' makes this one":       {"other-one", "ls"},
		"if this is a sandbox's, 'berth get 01970e4b-":          {"01970e4b-0000-7000-8000-0000000000ff", "ls"},
		`there is no project "other-one"`:                       {"other-one", "ls"},
		"'berth project exec --help' shows its usage":           {"shop", "--nope", "ls"},
		"--tty shows a terminal and --json a document; ask for": {"shop", "-t", "--json", "ls"},
	} {
		if r := s.berth(append([]string{"project", "exec"}, args...)...); r.code != 125 || !strings.Contains(r.err, want) || r.out != "" {
			t.Errorf("%v: %+v; want %q", args, r, want)
		}
	}
}

func TestProjectExecOnATerminal(t *testing.T) {
	f := newProject(t)
	m := newTerminal(t)
	r := newShell(t, f).at(m).berth("project", "exec", "-it", "shop", "--", "sh", "-c", "stty size >/dev/null && echo a tty; exit 9")
	m.Wait("a tty")
	if r.code != 9 {
		t.Errorf("exit %d, screen %q", r.code, m.Text())
	}
}

func TestProjectHealthIsAnExitCode(t *testing.T) {
	f := newProject(t)
	f.canned = cannedLife()
	s := newShell(t, f)
	contains(t, "healthy", s.ok("project", "health", "shop"), "shop is healthy\n", "status       running", "actual       up")
	if out := s.ok("project", "health", "shop", "-q"); out != "" {
		t.Errorf("-q printed %q", out)
	}
	if got := decode[api.ProjectHealth](t, s.ok("project", "health", "shop", "--json")); !got.Healthy {
		t.Errorf("--json printed %+v", got)
	}
	f.canned["GET "+shopPath+"/health"] = api.ProjectHealth{Status: "UNHEALTHY", Actual: "up", Detail: "nothing inside answers\x1b[2J"}
	r := s.berth("project", "health", "shop")
	if r.code != 1 || r.err != "" {
		t.Errorf("%+v", r)
	}
	contains(t, "not healthy", r.out, "shop is not healthy\n", "unhealthy", `nothing inside answers\x1b[2J`)
	if r := s.berth("project", "health", "shop", "--json"); r.code != 1 || decode[api.ProjectHealth](t, r.out).Healthy {
		t.Errorf("%+v", r)
	}
	if r := s.berth("project", "health", "shop", "-q"); r.code != 1 || r.out+r.err != "" {
		t.Errorf("%+v", r)
	}
	if r := s.berth("project", "health", "nosuch"); r.code != 125 || !strings.Contains(r.err, "no project") {
		t.Errorf("%+v", r)
	}
}

func TestProjectSyncComparesAndApplies(t *testing.T) {
	f := newProject(t)
	f.canned = cannedLife()
	s := newShell(t, f)
	r := s.berth("project", "sync", "shop")
	if r.code != 1 || r.err != "" {
		t.Errorf("%+v", r)
	}
	contains(t, "sync", r.out, "the record of shop does not agree with its driver\n", "recorded     running", "actual       missing", "would        mark it lost\n", "would        create a new instance\n")
	contains(t, "sync --apply", s.ok("project", "sync", "shop", "--apply"), "the record of shop agrees with its driver\n")
	if r := s.berth("project", "sync", "shop", "--json"); r.code != 1 || decode[api.ProjectSync](t, r.out).Agrees {
		t.Errorf("%+v", r)
	}
	if r := s.berth("project", "sync", "nosuch"); r.code != 125 {
		t.Errorf("%+v", r)
	}
}

func TestProjectRestartTriesAll(t *testing.T) {
	s := newShell(t, newProject(t))
	r := s.berth("project", "restart", "nosuch", "shop")
	if r.code != 125 || !strings.HasPrefix(r.out, "restarted shop (") || !strings.Contains(r.err, `no project "nosuch"`) {
		t.Errorf("%+v", r)
	}
	if got := decode[api.List[api.ProjectSandbox]](t, s.ok("project", "restart", "shop", "--json")); len(got.Items) != 1 {
		t.Errorf("--json printed %+v", got)
	}
}

func TestProjectRmEndsAllOrTheMachineAlone(t *testing.T) {
	f := newProject(t)
	s := newShell(t, f)
	if out := s.ok("project", "rm", "--sandbox-only", "--no-save", "shop"); out != "terminated shop\n" || f.projects[0].Status != "TERMINATED" {
		t.Errorf("printed %q, left %+v", out, f.projects)
	}
	if last := f.requests[len(f.requests)-1]; last != "DELETE "+shopPath+"?sync=false" {
		t.Errorf("sent %s", last)
	}
	r := s.berth("project", "delete", "nosuch", "shop")
	if r.code != 125 || r.out != "deleted shop\n" || !strings.Contains(r.err, `no project "nosuch"`) || len(f.projects) > 0 {
		t.Errorf("%+v, left %v", r, f.projects)
	}
	if r := s.berth("project", "rm", "--sandbox-only", "shop"); r.code != 125 || strings.Contains(r.err, "makes this one") {
		t.Errorf("%+v", r)
	}
	s.ok("project", "ensure", "shop")
	if got := decode[map[string][]string](t, s.ok("project", "rm", "shop", "--json")); fmt.Sprint(got) != "map[deleted:[shop]]" {
		t.Errorf("--json printed %v", got)
	}
}

func TestProjectRmOfWhatDoesNotEndSaysWhy(t *testing.T) {
	f := newProject(t)
	f.stuck = &api.SandboxError{Message: "the engine is asleep"}
	var out strings.Builder
	deps := newShell(t, f).forFrame()
	deps.Stdout = &out
	frame := newApp(deps)
	frame.DeleteTimeout = 1
	f.sandboxes[0].Want = "gone"
	f.sandboxes[0].Error = f.stuck
	if err := frame.run(t.Context(), "project", "rm", "shop"); err != nil {
		t.Fatal(err)
	}
	if want := "shop is being deleted: the engine is asleep; watch it with 'berth get " + firstID + "'\n"; out.String() != want {
		t.Errorf("printed %q", out.String())
	}
}

func TestProjectRmAsksAtATerminal(t *testing.T) {
	f := newProject(t)
	for flag, question := range map[string]string{
		"--sandbox-only": "End the machine of project shop? Files that the server cannot save are lost. [y/N]",
		"--json":         "Delete project shop, its sandbox and everything in it for good? [y/N]",
	} {
		m := newTerminal(t)
		done := make(chan struct{})
		go func() { defer close(done); m.Wait(question); m.Type("n\n") }()
		if r := newShell(t, f).at(m).berth("project", "rm", "shop", flag); r.code != 125 {
			t.Errorf("%s: exit %d", flag, r.code)
		}
		<-done
	}
	if len(f.projects) != 1 || f.projects[0].Status != "RUNNING" {
		t.Errorf("left %+v", f.projects)
	}
}

func TestCompletionOfProjects(t *testing.T) {
	f := newProject(t)
	f.canned = cannedLife()
	s := newShell(t, f)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"project", "get", ""}, "[shop\trunning]"},
		{[]string{"project", "exec", ""}, "[shop\trunning]"},
		{[]string{"project", "get", "shop", ""}, "[]"},
		{[]string{"project", "rm", ""}, "[shop\trunning]"},
		{[]string{"project", "rm", "shop", ""}, "[]"},
		{[]string{"project", "tool", ""}, "[shop\trunning]"},
		{[]string{"project", "tool", "shop", ""}, "[bash\tRun a command with bash in the sandbox read\tRead a file strange]"},
		{[]string{"project", "tool", "shop", "bash", ""}, "[command=\tCommand line. timeout=]"},
		{[]string{"project", "tool", "shop", "nosuch", ""}, "[]"},
		{[]string{"project", "ls", "--status", ""}, "[pending creating running unhealthy stopped terminated error]"},
		{[]string{"explain", ""}, "[" + firstID + "\trunning]"},
		{[]string{"terminate", ""}, "[" + firstID + "\trunning]"},
	} {
		if got := fmt.Sprint(s.words(c.args...)); got != c.want {
			t.Errorf("%q offers %q, want %q", c.args, got, c.want)
		}
	}
}
