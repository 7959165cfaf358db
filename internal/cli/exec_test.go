package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/process"
	"github.com/berthdev/berth/internal/testkit"
)

// TestExecEndsAsItsCommand is the whole table of exit codes, in words and as a document.
func TestExecEndsAsItsCommand(t *testing.T) {
	f := newMachine(t)
	if err := os.WriteFile(f.machine.dir+"/plain", []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		want string // on stderr
	}{
		{"success", []string{"true"}, 0, ""},
		{"failure", []string{"false"}, 1, ""},
		{"a code of its own", []string{"sh", "-c", "exit 42"}, 42, ""},
		{"the largest code", []string{"sh", "-c", "exit 255"}, 255, ""},
		{"Berth's code, by the command", []string{"sh", "-c", "exit 125"}, 125, ""},
		{"a signal", []string{"sh", "-c", "kill -KILL $$"}, 137, ""},
		{"too slow", []string{"--timeout", "200ms", "--", "sleep", "60"}, 124, "berth: stopped after 200ms (--timeout)\n"},
		{"not executable", []string{f.machine.dir + "/plain"}, 126, "plain: permission denied\n"},
		{"not found", []string{"nosuch"}, 127, "berth: nosuch: not found\n"},
		{"one text for a shell", []string{"ls -l | wc"}, 127, "berth: ls -l | wc: not found\n  hint: No shell takes the words apart. If one should: berth exec box -- sh -c 'ls -l | wc'\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newShell(t, f).berth(append([]string{"exec", "box"}, c.args...)...)
			if r.code != c.code || !strings.HasSuffix(r.err, c.want) || c.want == "" && r.err != "" {
				t.Errorf("exit %d, stderr %q; want %d and %q", r.code, r.err, c.code, c.want)
			}
			r = newShell(t, f).berth(append([]string{"--json", "exec", "box"}, c.args...)...)
			if got := decode[api.ExecResult](t, r.out); r.code != c.code || got.ExitCode != c.code || r.err != "" {
				t.Errorf("with --json: exit %d, %+v, stderr %q", r.code, got, r.err)
			}
		})
	}
}

func TestExecRefusesWhatItCannotUnderstand(t *testing.T) {
	f := newMachine(t)
	for want, args := range map[string][]string{
		"needs a command to run in box":                     {"box"},
		"and 'berth exec box -it -- sh' a shell.":           {"box", "-i"},
		"needs the ID or NAME":                              {},
		"unknown flag: --nope":                              {"box", "--nope", "--", "ls"},
		"--timeout takes a time above zero":                 {"box", "--timeout", "0s", "ls"},
		"has nothing to send":                               {"-di", "box", "cat"},
		"ask for one of them":                               {"-t", "--json", "box", "ls"},
		"stdin is not a terminal":                           {"-it", "box", "ls"},
		"it takes keys such as ctrl-p,ctrl-q":               {"-it", "--detach-keys", "ctrl-1", "box", "ls"},
		"FOO is not set here":                               {"-e", "FOO", "box", "ls"},
		"there is no sandbox \"bo\"":                        {"bo", "ls"},
		"Did you mean box? 'berth ls' lists the sandboxes.": {"bax", "ls"},
		"'berth create other-one' makes this one":           {"other-one", "ls"},
	} {
		if r := newShell(t, f).berth(append([]string{"exec"}, args...)...); r.code != 125 || !strings.Contains(r.err, want) || r.out != "" {
			t.Errorf("%v: %+v; want %q", args, r, want)
		}
	}
	for _, args := range [][]string{{"exec", "box", "--help"}, {"exec", "--help"}} {
		contains(t, "help", newShell(t, f).ok(args...), "Usage:\n  berth exec")
	}
	if len(f.machine.procs) > 0 {
		t.Errorf("started %d", len(f.machine.procs))
	}
}

// TestExecTakesFlagsOnBothSidesOfTheName, and leaves those behind the command to it.
func TestExecTakesFlagsOnBothSidesOfTheName(t *testing.T) {
	f := newMachine(t)
	s := newShell(t, f).with("TOKEN", "hunter2")
	for _, args := range [][]string{
		{"-w", "src", "-e", "A=1", "-e", "TOKEN", "-u", "root", "--timeout", "1m", "--exec-id", "one", "box", "echo", "-n", "-e", "x"},
		{"box", "-w", "src", "-e", "A=1", "-e", "TOKEN", "-u", "root", "--timeout", "1m", "--exec-id", "one", "--", "echo", "-n", "-e", "x"},
		{"-w", "src", "-u", "root", "--timeout", "1m", "box", "-e", "A=1", "--env", "TOKEN", "--exec-id", "one", "echo", "-n", "-e", "x"},
	} {
		if out := s.ok(append([]string{"exec"}, args...)...); !strings.HasSuffix(out, "x") {
			t.Errorf("%v printed %q", args, out)
		}
		got := f.machine.newest().want
		if fmt.Sprint(got.Command) != "[echo -n -e x]" || got.Cwd != "src" || got.User != "root" || got.TimeoutSeconds != 60 || got.ExecID != "one" ||
			fmt.Sprint(got.Env) != "map[A:1 TOKEN:hunter2]" || got.OpenStdin || got.Terminal != nil {
			t.Errorf("%v sent %+v", args, got)
		}
	}
}

// TestExecPassesBytes: what goes through a pipe is not touched, whatever it is.
func TestExecPassesBytes(t *testing.T) {
	f := newMachine(t)
	odd := make([]byte, 0, 1<<20)
	for i := range 1 << 20 {
		odd = append(odd, byte(i*7))
	}
	odd = append(odd, "\x1b]52;c;x\x07\xff"...)
	s := newShell(t, f)
	s.deps.Stdin = bytes.NewReader(odd)
	r := s.berth("exec", "-i", "box", "sh", "-c", "tee /dev/stderr")
	if r.code != 0 || r.out != string(odd) || r.err != string(odd) {
		t.Errorf("exit %d, %d and %d bytes of %d", r.code, len(r.out), len(r.err), len(odd))
	}
	s.deps.Stdin = strings.NewReader("\xff")
	got := decode[api.ExecResult](t, s.ok("exec", "-i", "--json", "box", "cat"))
	if out, _ := got.Output(); string(out) != "\xff" || got.ExecID == "" {
		t.Errorf("--json printed %+v", got)
	}
}

func TestExecSurvivesLostConnections(t *testing.T) {
	f := newMachine(t)
	f.machine.cut = 3
	r := newShell(t, f).berth("exec", "box", "sh", "-c", "for i in 1 2 3 4; do echo $i; sleep 0.05; done; exit 3")
	if r.code != 3 || r.out != "1\n2\n3\n4\n" || r.err != "" || f.machine.cut > 0 {
		t.Errorf("%+v", r)
	}
}

func TestCommandThatTakesNoMoreInputIsNoFailure(t *testing.T) {
	f := newMachine(t)
	s := newShell(t, f)
	s.deps.Stdin = strings.NewReader(strings.Repeat("line\n", 1<<20))
	if r := s.berth("exec", "-i", "box", "--", "head", "-1"); r.code != 0 || r.out != "line\n" || r.err != "" {
		t.Errorf("%+v", r)
	}
}

func TestInputThatDoesNotArriveIsAFailure(t *testing.T) {
	f := newMachine(t)
	f.machine.refusals = []api.Code{api.CodeShuttingDown, api.CodeShuttingDown, api.CodeShuttingDown}
	s := newShell(t, f)
	s.deps.Stdin = strings.NewReader("hello")
	r := s.berth("exec", "-i", "box", "--", "cat")
	if r.code != 125 || !strings.Contains(r.err, "the input did not all arrive") || !strings.Contains(r.err, "'berth ps box' shows it") {
		t.Errorf("%+v", r)
	}
}

func TestInputThatIsNotSentIsMentioned(t *testing.T) {
	f := newMachine(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := newShell(t, f)
	s.deps.Stdin = r
	if got := s.berth("exec", "box", "cat"); got.err != "" || got.out != "" {
		t.Errorf("an empty pipe: %+v", got)
	}
	_, _ = w.WriteString("hello")
	_ = w.Close()
	if got := s.berth("exec", "box", "cat"); got.err != "berth: note: something is waiting on stdin that was not sent; -i sends it\n" || got.code != 0 {
		t.Errorf("%+v", got)
	}
	if out := s.ok("exec", "-i", "box", "cat"); out != "hello" {
		t.Errorf("with -i: %q", out)
	}
	_ = r.Close()
	if process.Unread(r) {
		t.Error("a closed pipe has something to read")
	}
}

// screenful is an output that somebody watches.
type screenful struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screenful) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screenful) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// interruptAt sends this process a signal once the words are there to be seen.
func (s *screenful) interruptAt(t *testing.T, words string, sig syscall.Signal) {
	testkit.Eventually(t, 30*time.Second, func() error {
		if !strings.Contains(s.String(), words) {
			return fmt.Errorf("there is no %q in %q", words, s)
		}
		return nil
	})
	_ = syscall.Kill(os.Getpid(), sig)
}

// watched runs a command whose output a person reacts to.
func watched(t *testing.T, f *fakeServer, person func(out *screenful), args ...string) (r result) {
	t.Helper()
	s, out := newShell(t, f), &screenful{}
	s.deps.Stdout = out
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if t.Failed() {
				f.machine.end()
			}
		}()
		person(out)
	}()
	r = s.berth(args...)
	<-done
	r.out = out.String()
	return r
}

// TestSignalGoesToTheCommand, whose answer to it is the answer.
func TestSignalGoesToTheCommand(t *testing.T) {
	for sig, name := range map[syscall.Signal]string{syscall.SIGINT: "INT", syscall.SIGTERM: "TERM", syscall.SIGHUP: "HUP"} {
		r := watched(t, newMachine(t), func(out *screenful) { out.interruptAt(t, "ready", sig) },
			"exec", "box", "sh", "-c", "trap 'echo got it; exit 7' "+name+"; echo ready; while :; do sleep 0.05; done")
		if r.code != 7 || r.out != "ready\ngot it\n" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// Under nohup the signal of a closed terminal ends neither the command nor its watcher.
func TestIgnoredHangupIsNotPassedOn(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	t.Cleanup(testkit.TakeHangups)
	r := watched(t, newMachine(t), func(out *screenful) { out.interruptAt(t, "ready", syscall.SIGHUP) },
		"exec", "box", "sh", "-c", "echo ready; sleep 3; echo finished")
	if r.code != 0 || r.out != "ready\nfinished\n" || strings.Contains(r.err, "SIGHUP") {
		t.Errorf("%+v", r)
	}
}

func TestSecondInterruptLeavesTheCommandRunning(t *testing.T) {
	f := newMachine(t)
	twice := func(out *screenful) {
		out.interruptAt(t, "ready", syscall.SIGINT)
		out.interruptAt(t, "ignored", syscall.SIGINT)
	}
	r := watched(t, f, twice, "exec", "box", "sh", "-c", "trap 'echo ignored' INT; echo ready; while :; do sleep 0.05; done")
	if r.code != 130 || !strings.Contains(r.err, "berth: left it running: 'berth logs -f box exec-1' shows what it writes\n") {
		t.Errorf("%+v", r)
	}
	if !f.machine.newest().status().Running {
		t.Error("it was ended")
	}
}

func TestStubbornCommandIsMentioned(t *testing.T) {
	f := newMachine(t)
	patient := func(out *screenful) {
		out.interruptAt(t, "ready", syscall.SIGINT)
		<-time.After(process.SignalTimeout + time.Second)
		f.machine.newest().kill(syscall.SIGKILL)
	}
	r := watched(t, f, patient, "exec", "box", "sh", "-c", "trap '' INT; echo ready; while :; do sleep 0.05; done")
	if r.code != 137 || !strings.Contains(r.err, "the command got SIGINT and goes on; the same again leaves it running") {
		t.Errorf("%+v", r)
	}
}

// TestExecOnATerminalIsHarmless: the whole way, from the sandbox to the screen.
func TestExecOnATerminalIsHarmless(t *testing.T) {
	f := newMachine(t)
	m := newTerminal(t)
	r := newShell(t, f).at(m).berth("exec", "box", "printf", `\033]52;c;eA==\007\033[31mred\033[0m\n\033]0;title\007done\n`)
	m.Wait("done")
	if text := m.Text(); r.code != 0 || text != "\\x1b]52;c;eA==\\a\x1b[31mred\x1b[0m\n\\x1b]0;title\\adone\n" {
		t.Errorf("exit %d, screen %q", r.code, text)
	}
	m = newTerminal(t)
	newShell(t, f).at(m).berth("exec", "box", "sh", "-c", `printf '\033[31mcut' >&2; printf '\033[1'`)
	m.Wait(`\x1b[1`)
	contains(t, "screen", m.Text(), "\x1b[31mcut", "\x1b[0m")
}

func TestDetachedCommandIsFoundAgain(t *testing.T) {
	f := newMachine(t)
	s := newShell(t, f)
	id := strings.TrimSpace(s.ok("exec", "-d", "box", "sh", "-c", "echo out; echo err >&2; exec sleep 60"))
	if id != "exec-1" {
		t.Fatalf("printed %q", id)
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		if r := s.berth("logs", "box", id); r.code != 0 || r.out != "out\n" || r.err != "err\n" {
			return fmt.Errorf("logs: %+v", r)
		}
		return nil
	})
	if got := decode[map[string]string](t, s.ok("exec", "-dt", "--json", "box", "true")); got["exec_id"] != "exec-2" {
		t.Errorf("--json printed %v", got)
	}
	if size := f.machine.newest().want.Terminal; size == nil || *size != (api.TermSize{Cols: 80, Rows: 24}) {
		t.Errorf("terminal %v", size)
	}
	m := newTerminal(t)
	newShell(t, f).at(m).berth("exec", "-d", "box", "true")
	m.Wait("exec-3\nIt runs on its own: 'berth logs -f box exec-3' shows what it writes.\n")
}

// TestDriverThatRunsNothingSaysSo: a sandbox of the fake driver is a record.
func TestDriverThatRunsNothingSaysSo(t *testing.T) {
	f := newFakeServer(t)
	s := newShell(t, f)
	s.ok("create", "scratch", "-q")
	for _, args := range [][]string{{"exec", "scratch", "ls"}, {"ps", "scratch"}, {"logs", "scratch"}, {"stop", "scratch"}} {
		if r := s.berth(args...); r.code != 125 || !strings.Contains(r.err, "the driver fake cannot run commands") || !strings.Contains(r.err, "hint: Choose a driver") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}
