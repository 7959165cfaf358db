package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
)

func TestRunCreatesExecutesAndRemoves(t *testing.T) {
	f := newMachine(t)
	f.sandboxes = nil
	s := newShell(t, f)
	r := s.berth("run", "--rm", "-e", "MODE=test", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
	if r.code != 3 || r.out != "out\n" || !strings.HasPrefix(r.err, "err\n") {
		t.Errorf("%+v", r)
	}
	if len(f.sandboxes) != 0 || len(f.created) != 1 || f.created[0].Env["MODE"] != "test" {
		t.Errorf("left %v, created %+v", f.sandboxes, f.created)
	}
	r = s.berth("run", "--name", "kept", "true")
	if r.code != 0 || len(f.sandboxes) != 1 || !strings.Contains(r.err, "'berth exec kept'") {
		t.Errorf("%+v, left %v", r, f.sandboxes)
	}
	for want, args := range map[string][]string{
		"berth run needs a command":          {"run"},
		"there is a sandbox kept already":    {"run", "--name", "kept", "true"},
		"--rm waits for the command to end":  {"run", "--rm", "-d", "true"},
		"--detach leaves the command alone,": {"run", "-d", "-i", "true"},
	} {
		if r := s.berth(args...); r.code != 125 || !strings.Contains(r.err, want) {
			t.Errorf("%v: %+v, want %q", args, r, want)
		}
	}
	if len(f.sandboxes) != 1 {
		t.Errorf("left %v", f.sandboxes)
	}
}

// TestRunWarnsOfASandboxThatIsLeft: the exit code is the command's.
func TestRunWarnsOfASandboxThatIsLeft(t *testing.T) {
	f := newMachine(t)
	f.sandboxes = nil
	f.canned = map[string]any{"DELETE /api/v1/sandboxes/" + firstID: api.CodeInternal}
	r := newShell(t, f).berth("run", "--rm", "sh", "-c", "exit 4")
	if r.code != 4 || !strings.Contains(r.err, "'berth rm "+firstID+"' deletes it") {
		t.Errorf("%+v", r)
	}
}

func TestKillSendsASignal(t *testing.T) {
	f := newMachine(t)
	s := newShell(t, f)
	id := strings.TrimSpace(s.ok("exec", "-d", "box", "sleep", "60"))
	contains(t, "kill", s.ok("kill", "-s", "sigkill", "box", id), "sent SIGKILL to "+id+" (")
	if r := s.berth("kill", "box", "nosuch"); r.code != 125 || !strings.Contains(r.err, "'berth ps box' lists") {
		t.Errorf("%+v", r)
	}
}

func TestPortsOfAStoppedSandboxStartNothing(t *testing.T) {
	f := newMachine(t)
	f.sandboxes[0].State = "stopped"
	if r := newShell(t, f).berth("ports", "box"); r.code != 125 || !strings.Contains(r.err, "box is stopped, so nothing listens in it") {
		t.Errorf("%+v", r)
	}
	if len(f.requests) != 1 {
		t.Errorf("%q", f.requests)
	}
}

func TestLogsTailAndSince(t *testing.T) {
	f := newMachine(t)
	s := newShell(t, f)
	s.ok("exec", "box", "echo", "first")
	s.ok("exec", "box", "sh", "-c", "for i in 1 2 3 4; do echo $i; done; printf end")
	for want, args := range map[string][]string{
		"4\nend": {"logs", "box", "--tail", "2"}, "": {"logs", "box", "--tail", "0"}, "1\n2\n3\n4\nend": {"logs", "box", "--tail", "99"},
	} {
		if out := s.ok(args...); out != want {
			t.Errorf("%v printed %q, want %q", args, out, want)
		}
	}
	var out, notes strings.Builder
	deps := s.forFrame()
	deps.Stdout, deps.Stderr = &out, &notes
	a := newApp(deps)
	a.Now = func() time.Time { return birth.Add(time.Minute) } // the time of the fake's commands
	if err := a.run(t.Context(), "logs", "box", "--since", "1h", "--tail", "1"); err != nil || out.String() != "first\nend" || strings.Count(notes.String(), "── exec-") != 2 {
		t.Errorf("%v, %q, %q", err, out.String(), notes.String())
	}
	if r := s.berth("logs", "box", "--since", "1h", "-f"); r.code != 125 {
		t.Errorf("%+v", r)
	}
}

func TestDidYouMeanSuggestsNothingDestructive(t *testing.T) {
	s := newShell(t, newFakeServer(t))
	for _, typed := range [][]string{{"rmm"}, {"terminat"}, {"prun"}, {"kil"}, {"project", "rn"}, {"project", "r"}, {"keys", "revok"}, {"host", "forge"}, {"conversation", "rmm"}, {"dow"}, {"delet"}} {
		r := s.berth(typed...)
		for _, bad := range []string{"rm'", "terminate'", "prune'", "kill'", "revoke'", "forget'", "down'", "delete'"} {
			if r.code != 125 || strings.Contains(r.err, bad) {
				t.Errorf("%v: %+v", typed, r)
			}
		}
	}
	if r := s.berth("creat"); !strings.Contains(r.err, "Did you mean 'berth create'?") {
		t.Errorf("%+v", r)
	}
}

func TestRmSaysHowToGetItBack(t *testing.T) {
	f := newMachine(t)
	want := "deleted box (" + firstID + ")\n  if a version of it is saved, this brings its files back: berth create --from " + firstID + "\n"
	if out := newShell(t, f).ok("rm", "--yes", "box"); out != want {
		t.Errorf("printed %q", out)
	}
}

// TestProjectToolCreatesNoProject: a mistyped id is an error, and nothing is executed.
func TestProjectToolCreatesNoProject(t *testing.T) {
	f := newProject(t)
	r := newShell(t, f).berth("project", "tool", "shopp", "bash", `{"command": "ls"}`)
	if r.code != 125 || !strings.Contains(r.err, "Did you mean shop?") {
		t.Errorf("%+v", r)
	}
	for _, request := range f.requests {
		if strings.HasPrefix(request, "POST") {
			t.Errorf("sent %s", request)
		}
	}
}

func TestDeletedSandboxesAreListed(t *testing.T) {
	f := newFakeServer(t)
	s := newShell(t, f)
	f.canned = map[string]any{"GET /api/v1/sandboxes": api.List[api.Sandbox]{Items: []api.Sandbox{{ID: firstID, Name: "gone", DeletedAt: &birth}}}}
	contains(t, "ls --deleted", s.ok("ls", "--deleted"), "DELETED", firstID, "2026-11-15T03:00:00Z")
	if last := f.requests[len(f.requests)-1]; !strings.Contains(last, "deleted=true") {
		t.Error(last)
	}
	for _, from := range []string{firstID, firstID[28:], firstID[:13]} {
		s.ok("create", "again", "--from", from, "-q")
		if got := f.created[len(f.created)-1]; got.From != firstID || got.Name != "again" {
			t.Errorf("--from %s: %+v", from, got)
		}
	}
}
