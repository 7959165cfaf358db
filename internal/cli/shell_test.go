package cli

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/ptytest"
)

// sit runs a command at the terminal while a person is at its keys, and checks that the terminal is left
// as it was found.
func sit(t *testing.T, f *fakeServer, m *ptytest.Terminal, person func(), args ...string) result {
	t.Helper()
	before, err := unix.IoctlGetTermios(int(m.TTY.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			switch {
			case t.Failed() && f.machine != nil:
				f.machine.end() // the shell has no user left to leave it
			case t.Failed():
				m.Type("\x03\x03")
			}
		}()
		person()
	}()
	r := newShell(t, f).at(m).berth(args...)
	<-done
	after, err := unix.IoctlGetTermios(int(m.TTY.Fd()), unix.TCGETS)
	if err != nil || *after != *before {
		t.Errorf("the terminal is left as %+v, %v; it was %+v", after, err, before)
	}
	return r
}

func TestShellIsATerminalInTheSandbox(t *testing.T) {
	f := newMachine(t)
	m := newTerminal(t)
	m.Resize(91, 17)
	r := sit(t, f, m, func() {
		m.Wait("$ ")
		m.Type("stty size; tty -s && echo is-''tty\r")
		m.Wait("17 91")
		m.Wait("is-tty")
		m.Resize(100, 33)
		_ = syscall.Kill(os.Getpid(), syscall.SIGWINCH)
		testkit.Eventually(t, 30*time.Second, func() error {
			if w, err := unix.IoctlGetWinsize(int(f.machine.newest().term.Fd()), unix.TIOCGWINSZ); err != nil || w.Col != 100 || w.Row != 33 {
				return fmt.Errorf("the size is %+v, %v", w, err)
			}
			return nil
		})
		m.Type("sh -c 'echo be\"\"gun; exec sleep 60'\r")
		m.Wait("begun\n") // before, the key would be the shell's
		m.Type("\x03")    // a key like any other here: it interrupts what runs there
		m.Wait("^C\n$ ")  // until it is back, a shell may throw away typed characters
		m.Type("exit 7\r")
	}, "shell", "box")
	if r.code != 7 {
		t.Errorf("exit %d, screen %q", r.code, m.Text())
	}
}

// What happened to the files since the sandbox's last use is said before the shell begins.
func TestShellSaysWhatWasLost(t *testing.T) {
	for name, args := range map[string][]string{"shell": {"shell", "box"}, "with a directory": {"shell", "box", "-w", "/"}} {
		t.Run(name, func(t *testing.T) {
			f := newMachine(t)
			f.machine.notice = "files changed since noon were not saved and are lost"
			m := newTerminal(t)
			sit(t, f, m, func() {
				m.Wait("$ ")
				m.Type("exit\r")
			}, args...)
			note, prompt := strings.Index(m.Text(), "berth: note: files changed since noon"), strings.Index(m.Text(), "$ ")
			if note < 0 || note > prompt {
				t.Errorf("the screen shows %q", m.Text())
			}
		})
	}
}

func TestShellIsLeftAndComeBackTo(t *testing.T) {
	f := newMachine(t)
	m := newTerminal(t)
	r := sit(t, f, m, func() {
		m.Wait("$ ")
		m.Type("x=kept\r\x10") // Ctrl-P alone is a key of the shell
		m.Type("\x11")
	}, "ssh", "box")
	m.Wait("berth: detached; 'berth shell box --attach exec-1' comes back to it\n")
	if r.code != 0 || !f.machine.newest().status().Running {
		t.Errorf("exit %d, %+v", r.code, f.machine.newest().status())
	}
	m = newTerminal(t)
	r = sit(t, f, m, func() {
		m.Wait("$ ")
		m.Type("echo $x-''here; exit 3\r")
		m.Wait("kept-here")
	}, "shell", "box", "--attach", "exec-1")
	if r.code != 3 {
		t.Errorf("exit %d, screen %q", r.code, m.Text())
	}
}

// TestShellComesBackByItself after its connection was lost, twice.
func TestShellComesBackByItself(t *testing.T) {
	f := newMachine(t)
	f.machine.cut = 2
	m := newTerminal(t)
	r := sit(t, f, m, func() {
		testkit.Eventually(t, 30*time.Second, func() error {
			if n := strings.Count(m.Text(), "the connection was lost; trying to come back"); n != 2 {
				return fmt.Errorf("lost %d times", n)
			}
			return nil
		})
		testkit.Eventually(t, 30*time.Second, func() error {
			m.Type("exit 5\r") // characters typed without a connection are lost
			if f.machine.newest().status().Running {
				return fmt.Errorf("it runs: %q", m.Text())
			}
			return nil
		})
	}, "shell", "box")
	if r.code != 5 {
		t.Errorf("exit %d, screen %q", r.code, m.Text())
	}
}

func TestShellThatCannotBe(t *testing.T) {
	f := newMachine(t)
	for want, args := range map[string][]string{
		"'berth create other' makes this one":                   {"other"},
		"there is no command \"nosuch\"":                        {"box", "--attach", "nosuch"},
		"'berth ps box' lists what was started in it":           {"box", "--attach", "nosuch"},
		"--attach comes back to a shell as it is: it takes no ": {"box", "--attach", "x", "--user", "root"},
	} {
		m := newTerminal(t)
		if r := sit(t, f, m, func() {}, append([]string{"shell"}, args...)...); r.code != 125 {
			t.Errorf("%v: exit %d", args, r.code)
		}
		m.Wait(want)
	}
	r := newShell(t, f).berth("shell", "box")
	if r.code != 125 || r.err != "berth: stdin is not a terminal\n  hint: 'berth exec -i box -- sh' runs a shell that reads from a pipe or a file.\n" {
		t.Errorf("%+v", r)
	}
}

func TestTerminationLeavesTheShell(t *testing.T) {
	f := newMachine(t)
	m := newTerminal(t)
	r := sit(t, f, m, func() {
		m.Wait("$ ")
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
	}, "shell", "box")
	m.Wait("detached")
	if r.code != 0 || !f.machine.newest().status().Running {
		t.Errorf("exit %d", r.code)
	}
}

// TestExecWithATerminal: -t hands output over as it is, -i adds the keys.
func TestExecWithATerminal(t *testing.T) {
	f := newMachine(t)
	m := newTerminal(t)
	r := sit(t, f, m, func() {}, "exec", "-t", "-e", "A=b", "box", "--", "sh", "-c", `printf '\033]0;title\007'; tty -s; echo tty=$? A=$A; exit 9`)
	m.Wait("tty=0 A=b")
	if r.code != 9 || !strings.Contains(m.Text(), "\x1b]0;title\x07") {
		t.Errorf("exit %d, screen %q", r.code, m.Text())
	}
	m = newTerminal(t)
	r = sit(t, f, m, func() {
		m.Wait("name? ")
		m.Type("ada\r")
	}, "exec", "-it", "--detach-keys", "none", "box", "--", "sh", "-c", `printf 'name? '; read n; echo hello $n`)
	m.Wait("hello ada")
	if r.code != 0 {
		t.Errorf("exit %d", r.code)
	}
	m = newTerminal(t)
	interrupt := func() {
		m.Wait("waiting")
		_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
	}
	if r := sit(t, f, m, interrupt, "exec", "-t", "box", "--", "sh", "-c", `trap 'exit 11' INT; echo waiting; while :; do sleep 0.05; done`); r.code != 11 {
		t.Errorf("an interrupt without -i: exit %d", r.code)
	}
	if want := f.machine.newest().want; want.Terminal == nil || fmt.Sprint(want.Command[:2]) != "[sh -c]" {
		t.Errorf("sent %+v", want)
	}
}

func TestShellSendsWhatItsFlagsSay(t *testing.T) {
	f := newMachine(t)
	m := newTerminal(t)
	sit(t, f, m, func() { m.Wait("$ "); m.Type("exit\r") }, "sh", "box", "-e", "A=1", "-w", "src", "-u", "root")
	got := f.machine.newest().want
	if got.Env["A"] != "1" || got.Cwd != "src" || got.User != "root" || fmt.Sprint(got.Command) != fmt.Sprint(api.LoginShell()) {
		t.Errorf("sent %+v", got)
	}
	m = newTerminal(t)
	sit(t, f, m, func() { m.Wait("$ "); m.Type("exit\r") }, "sh", "box", "-u", "root")
	if got := f.machine.newest().want; got.User != "root" {
		t.Errorf("sent %+v", got)
	}
}

// TestShellWhoseConnectionIsLost comes back to a server that is restarting, and gives up where there is
// nothing to come back to.
func TestShellWhoseConnectionIsLost(t *testing.T) {
	f := newMachine(t)
	f.machine.cut, f.machine.refusals = 1, []api.Code{api.CodeShuttingDown, api.CodeShuttingDown, api.CodeShuttingDown, api.CodeShuttingDown}
	m := newTerminal(t)
	r := sit(t, f, m, func() {
		m.Wait("trying to come back")
		testkit.Eventually(t, 30*time.Second, func() error {
			m.Type("exit 5\r")
			if f.machine.newest().status().Running {
				return fmt.Errorf("it runs: %q", m.Text())
			}
			return nil
		})
	}, "shell", "box")
	if r.code != 5 {
		t.Errorf("exit %d, screen %q", r.code, m.Text())
	}
	f.machine.cut, f.machine.refusals = 1, []api.Code{api.CodeForbidden}
	m = newTerminal(t)
	r = sit(t, f, m, func() {}, "shell", "box")
	m.Wait("'berth shell box --attach exec-2' comes back to it")
	if r.code != 125 || !strings.Contains(m.Text(), "the connection was lost: open terminal: not now\n") {
		t.Errorf("exit %d, screen %q", r.code, m.Text())
	}
}

func TestShellThatIsLeftWhileItsConnectionIsLost(t *testing.T) {
	f := newMachine(t)
	f.machine.cut, f.machine.refusals = 1, make([]api.Code, 1000)
	for i := range f.machine.refusals {
		f.machine.refusals[i] = api.CodeShuttingDown
	}
	m := newTerminal(t)
	r := sit(t, f, m, func() {
		m.Wait("trying to come back")
		m.Type("\x10\x11")
	}, "shell", "box")
	m.Wait("berth: detached")
	if r.code != 0 {
		t.Errorf("exit %d, screen %q", r.code, m.Text())
	}
}
