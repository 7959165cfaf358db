package cli

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
)

func TestTurnsChangeEachSandbox(t *testing.T) {
	f := newMachine(t)
	f.sandboxes = append(f.sandboxes, api.Sandbox{ID: "2", Name: "two", State: "stopped"})
	s := newShell(t, f)
	for _, c := range [][2]string{{"stop", "stopped"}, {"start", "started"}, {"restart", "restarted"}, {"freeze", "froze"}, {"thaw", "thawed"}} {
		out := s.ok(c[0], "box", "two")
		if lines := strings.Split(out, "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], c[1]+" box (") || !strings.HasPrefix(lines[1], c[1]+" two (") {
			t.Errorf("%s printed %q", c[0], out)
		}
		if got := decode[api.List[api.Sandbox]](t, s.ok(c[0], "box", "--json")); len(got.Items) != 1 || got.Items[0].Name != "box" {
			t.Errorf("%s --json printed %+v", c[0], got)
		}
	}
}

// TestTurnsTryAll: one that fails does not keep the others from being tried.
func TestTurnsTryAll(t *testing.T) {
	f := newMachine(t)
	f.sandboxes = append(f.sandboxes, api.Sandbox{ID: "2", Name: "two", State: "stopped"})
	s := newShell(t, f)
	r := s.berth("freeze", "nosuch", "two", "box")
	if r.code != 125 || !strings.HasPrefix(r.out, "froze box (") || strings.Count(r.err, "request id") != 2 {
		t.Errorf("%+v", r)
	}
	contains(t, "stderr", r.err, "there is no sandbox \"nosuch\"", "'berth create nosuch' makes this one", "it is stopped; only a running one can be frozen", "Start it, or use it: the next command does.")
	r = s.berth("freeze", "--json", "two", "box")
	if got := decode[api.List[api.Sandbox]](t, r.out); r.code != 125 || len(got.Items) != 1 || decode[api.Problem](t, r.err).Code != api.CodeNotRunning {
		t.Errorf("--json: %+v", r)
	}
}

func TestPsListsCommandsNewestFirst(t *testing.T) {
	f := newMachine(t)
	s := newShell(t, f)
	if r := s.berth("ps", "box"); r.err != "Nothing was started in it since its last start.\n" || r.code != 0 {
		t.Errorf("%+v", r)
	}
	s.berth("exec", "box", "sh", "-c", "echo 'it''s'; exit 3")
	s.berth("exec", "box", "sh", "-c", "kill -TERM $$")
	s.ok("exec", "-d", "box", "sleep", "60")
	out := s.ok("ps", "box")
	lines := strings.Split(out, "\n")
	for i, want := range []string{"EXEC ID  STATE", "exec-3   running", "exec-2   killed TERM", "exec-1   exit 3"} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d: %q, want %q", i, lines[i], want)
		}
	}
	contains(t, "ps", out, "sleep 60\n", `sh -c 'kill -TERM $$'`, `sh -c 'echo '\''it'\'''\''s'\''; exit 3'`)
	if out := s.ok("ps", "-q", "--limit", "2", "box"); out != "exec-3\nexec-2\n" {
		t.Errorf("-q printed %q", out)
	}
	if got := decode[api.List[api.ExecStatus]](t, s.ok("ps", "box", "--json")); len(got.Items) != 3 || got.Items[2].Exit.ExitCode != 3 {
		t.Errorf("--json printed %+v", got)
	}
}

func TestLogsShowsWhatWasWritten(t *testing.T) {
	f := newMachine(t)
	s := newShell(t, f)
	if r := s.berth("logs", "box"); r.code != 125 || !strings.Contains(r.err, "nothing was started in box since its last start") || !strings.Contains(r.err, "berth exec box -- uname -a") {
		t.Errorf("%+v", r)
	}
	s.berth("exec", "box", "sh", "-c", "echo one; echo two >&2")
	s.berth("exec", "box", "echo", "newest")
	if out := s.ok("logs", "box"); out != "newest\n" {
		t.Errorf("the newest: %q", out)
	}
	if r := s.berth("logs", "box", "exec-1"); r.out != "one\n" || r.err != "two\n" || r.code != 0 {
		t.Errorf("%+v", r)
	}
	if out := s.ok("logs", "box", "exec-2", "--after", "7"); out != "" {
		t.Errorf("behind the end: %q", out)
	}
	lines := strings.Split(strings.TrimSpace(s.ok("logs", "box", "exec-2", "--json")), "\n")
	last := decode[api.ExecEvent](t, lines[len(lines)-1])
	if len(lines) != 3 || last.Type != api.EventExit || decode[api.ExecEvent](t, lines[1]).Text != "newest\n" {
		t.Errorf("--json printed %q", lines)
	}
	for want, args := range map[string][]string{
		"there is no command \"nosuch\"":             {"box", "nosuch"},
		"'berth ps box' lists what was started":      {"box", "nosuch"},
		"--after must be an integer":                 {"box", "exec-1", "--after", "-1"},
		"there is no sandbox \"nosuch\"":             {"nosuch"},
		"at most one EXEC_ID; \"c\" is one too many": {"box", "b", "c"},
	} {
		if r := s.berth(append([]string{"logs"}, args...)...); r.code != 125 || !strings.Contains(r.err, want) {
			t.Errorf("%v: %+v; want %q", args, r, want)
		}
	}
}

func TestLogsFollowsToTheEnd(t *testing.T) {
	f := newMachine(t)
	s := newShell(t, f)
	s.ok("exec", "-d", "box", "sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.1; done")
	if out := s.ok("logs", "-f", "box"); out != "1\n2\n3\n" {
		t.Errorf("printed %q", out)
	}
}

func TestCompletionOfCommandsAndPlaces(t *testing.T) {
	f := newMachine(t)
	s := newShell(t, f)
	s.berth("exec", "box", "true")
	s.ok("exec", "-dt", "box", "sleep", "60")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"exec", ""}, "[box\trunning]"},
		{[]string{"shell", ""}, "[box\trunning]"},
		{[]string{"stop", ""}, "[box\trunning]"},
		{[]string{"logs", ""}, "[box\trunning]"},
		{[]string{"logs", "box", ""}, "[exec-2\trunning sleep 60 exec-1\texit 0 true]"},
		{[]string{"logs", "box", "exec-1", ""}, "[]"},
		{[]string{"shell", "box", "--attach", ""}, "[exec-2\trunning sleep 60]"},
		{[]string{"shell", "--attach", ""}, "[]"},
		{[]string{"cp", ""}, "[box:\trunning]"},
		{[]string{"cp", "x", ""}, "[box:\trunning]"},
		{[]string{"cp", "x", "y", ""}, "[]"},
		{[]string{"exec", "--user", ""}, "[agent root]"},
		{[]string{"files", ""}, "[box\trunning]"},
	} {
		if got := fmt.Sprint(s.words(c.args...)); got != c.want {
			t.Errorf("%q offers %q, want %q", c.args, got, c.want)
		}
	}
}

func TestCreateWithATimeoutDoesNotWaitForLonger(t *testing.T) {
	f := newFakeServer(t)
	f.hold = func(r *http.Request) { <-r.Context().Done() }
	r := newShell(t, f).berth("create", "slow", "--timeout", "50ms")
	if r.code != 124 || r.err != "berth: it does not run after 50ms (--timeout); the server goes on: 'berth get slow' shows how far it is\n" {
		t.Errorf("%+v", r)
	}
}
