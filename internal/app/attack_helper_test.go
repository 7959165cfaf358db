package app_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// A command inherits the helper's descriptors until it is executed, and with them the links to these in
// /proc. None of them may become the place where it runs: they lead to the host.
func TestACommandNeverRunsWhereTheHelpersDescriptorsLead(t *testing.T) {
	testkit.Proves(t, "E3")
	t.Parallel()
	dir, err := os.Open(publicDir(t))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	plain := exec.Command("/bin/pwd", "-P")
	plain.Dir = fmt.Sprintf("/proc/self/fd/%d", dir.Fd())
	if out, err := plain.Output(); err != nil || strings.TrimSpace(string(out)) != dir.Name() {
		t.Fatalf("a plain process does not get there, so this proves nothing: %q, %v", out, err)
	}

	a := newArena(t, "")
	a.box("box", "")
	for fd := range 16 {
		at := fmt.Sprintf("/proc/self/fd/%d", fd)
		a.sh("box", "agent", fmt.Sprintf("ln -s %s /workspace/link-%d", at, fd))
		for _, user := range []string{"agent", "root"} {
			for _, cwd := range []string{at, fmt.Sprintf("link-%d", fd), fmt.Sprintf("/proc/1/fd/%d", fd), fmt.Sprintf("/proc/thread-self/fd/%d", fd)} {
				if res := a.run("box", api.Exec{Command: []string{"ls", "-a"}, Cwd: cwd, User: user}); res.ExitCode != 126 {
					t.Errorf("as %s in %s: %+v", user, cwd, res)
				}
			}
		}
	}
	// Where commands run that do not say where, root may put a link.
	a.sh("box", "root", "mv /workspace /elsewhere && ln -s /proc/self/fd/5 /workspace")
	if res := a.run("box", api.Exec{Command: []string{"ls", "-a"}, User: "root"}); res.ExitCode != 126 {
		t.Errorf("in what should be the workspace: %+v", res)
	}
}

// The program of the helper lies on the host. Commands that run it again must not tell where.
func TestTheHelpersProgramDoesNotTellWhereItLies(t *testing.T) {
	testkit.Proves(t, "E3")
	t.Parallel()
	a := newArena(t, "")
	a.box("box", "")
	exe := value(a.env, exeEnv)
	outside := exec.Command(exe, "config", "--config", "/dev/stdin")
	if in, err := outside.StdinPipe(); err != nil || outside.Start() != nil {
		t.Fatal(err)
	} else {
		defer in.Close()
	}
	defer func() {
		_ = outside.Process.Kill()
		_ = outside.Wait()
	}()
	if code, out := a.plain(nil, exe+"\n", "search", fmt.Sprint("/proc/", outside.Process.Pid)); code != 0 {
		t.Fatalf("a plain process does not find it, so this proves nothing: %q", out)
	}
	a.sh("box", "agent", "ln -s /proc/self/exe /workspace/link")
	for _, program := range []string{"/proc/self/exe", "/proc/1/exe", "/proc/thread-self/exe", "/workspace/link"} {
		// It reads its configuration from an input that never comes.
		stream := a.spawn("box", api.Exec{Command: []string{program, "config", "--config", "/dev/stdin"}, OpenStdin: true})
		for _, user := range []string{"agent", "root"} {
			res := a.run("box", api.Exec{Command: []string{"/workspace/attacker", "search", "/proc"}, Stdin: exe + "\n" + a.data + "\n", User: user})
			if res.ExitCode != 1 {
				first, _, _ := strings.Cut(res.Stdout, "\n")
				t.Errorf("%s, as %s: %s %s", program, user, first, res.Stderr)
			}
		}
		_ = a.Sandboxes.Signal(t.Context(), "box", stream.ExecID, "KILL") // which may have ended
	}
}
