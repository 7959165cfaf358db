package cli

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
)

func TestTerminalSeesColoursAndRelativeTimes(t *testing.T) {
	f := newFakeServer(t)
	f.sandboxes = []api.Sandbox{
		{ID: "1", Name: "good", State: "running", CreatedAt: time.Now().Add(-3*time.Minute - time.Second)},
		{ID: "2", Name: "bad", State: "error"}, {ID: "3", Name: "idle", State: "stopped"}, {ID: "4", Name: "soon", State: "creating"},
	}
	m := newTerminal(t)
	if r := newShell(t, f).at(m).berth("ls"); r.code != 0 {
		t.Fatalf("exit %d", r.code)
	}
	m.Wait("creating")
	contains(t, "screen", m.Text(), "\x1b[32mrunning\x1b[0m", "\x1b[31merror\x1b[0m", "\x1b[2mstopped\x1b[0m", "\x1b[33mcreating\x1b[0m", "3 min ago")
}

func TestNoColorAndDumbTerminalsArePlain(t *testing.T) {
	f := newFakeServer(t)
	f.sandboxes = []api.Sandbox{{ID: "1", Name: "good", State: "running"}}
	for _, env := range [][]string{{"NO_COLOR", "1"}, {"TERM", "dumb"}} {
		m := newTerminal(t)
		newShell(t, f).at(m).with(env...).berth("ls")
		m.Wait("running")
		if strings.Contains(m.Text(), "\x1b") {
			t.Errorf("%v: screen has escapes: %q", env, m.Text())
		}
	}
}

func TestCreateShowsProgressAndNextCommands(t *testing.T) {
	f := newFakeServer(t)
	f.sandboxes = []api.Sandbox{{ID: "1", Name: "slow", State: "starting"}}
	m := newTerminal(t)
	f.hold = func(*http.Request) { m.Wait("creating slow: starting") }
	if r := newShell(t, f).at(m).berth("create", "slow"); r.code != 0 {
		t.Fatalf("exit %d", r.code)
	}
	m.Wait("berth rm slow")
	contains(t, "screen", m.Text(), "⠋ creating slow", "creating slow: starting", "\r\x1b[K", "Next:", "berth exec slow -- uname -a", "berth shell slow")
}

func TestProgressIsForPeopleOnly(t *testing.T) {
	f := newFakeServer(t)
	for _, args := range [][]string{{"create", "a", "--json"}, {"create", "b", "-q"}} {
		m := newTerminal(t)
		newShell(t, f).at(m).berth(args...)
		m.Wait("01970e4b")
		if text := m.Text(); strings.Contains(text, "creating") || strings.Contains(text, "Next:") {
			t.Errorf("%v: screen %q", args, text)
		}
	}
}

func TestRmAsksAtATerminal(t *testing.T) {
	for _, c := range []struct {
		typed string
		left  int
		code  int
	}{{"y\n", 0, 0}, {"YES\n", 0, 0}, {"n\n", 1, 125}, {"\n", 1, 125}, {"\x04", 1, 125}} {
		f := newFakeServer(t)
		newShell(t, f).ok("create", "scratch", "-q")
		m := newTerminal(t)
		m.Type(c.typed)
		r := newShell(t, f).at(m).berth("rm", "scratch")
		m.Wait("Delete sandbox scratch and everything in it for good? [y/N]")
		if r.code != c.code || len(f.sandboxes) != c.left {
			t.Errorf("answer %q: exit %d, %d left", c.typed, r.code, len(f.sandboxes))
		}
	}
}

// A user is not asked whether to delete what does not exist.
func TestWhatDoesNotExistIsNotAsked(t *testing.T) {
	for _, line := range [][]string{
		{"rm", "none"}, {"terminate", "none"}, {"project", "rm", "none"}, {"project", "rm", "--sandbox-only", "none"},
	} {
		f := newFakeServer(t)
		newShell(t, f).ok("create", "scratch", "-q")
		m := newTerminal(t)
		m.Type("y\n")
		r := newShell(t, f).at(m).berth(line...)
		m.Wait("hint: ")
		if r.code == 0 || strings.Contains(m.Text(), "[y/N]") {
			t.Errorf("%q: exit %d\n%s", line, r.code, m.Text())
		}
	}
	f := newFakeServer(t)
	newShell(t, f).ok("create", "scratch", "-q")
	m := newTerminal(t)
	m.Type("y\n")
	r := newShell(t, f).at(m).berth("rm", "none", "scratch")
	m.Wait("Delete sandbox scratch and everything in it for good? [y/N]")
	if r.code == 0 || len(f.sandboxes) != 0 {
		t.Errorf("exit %d, %d left", r.code, len(f.sandboxes))
	}
}

// TestQuestionThatIsNotAnsweredEndsItsLine: the next output begins on a new line.
func TestQuestionThatIsNotAnsweredEndsItsLine(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for typed, ctx := range map[string]context.Context{"": ctx, "\x04": t.Context()} {
		m := newTerminal(t)
		m.Type(typed)
		frame := newApp(newShell(t, nil).at(m).forFrame())
		if err := frame.Confirm(ctx, "Really?"); err == nil {
			t.Errorf("%q was a yes", typed)
		}
		m.Wait("Really? [y/N] \n")
		m.Type("\n") // lets go of a reader that still waits
	}
}

func TestYesIsNotAsked(t *testing.T) {
	f := newFakeServer(t)
	newShell(t, f).ok("create", "scratch", "-q")
	m := newTerminal(t)
	if r := newShell(t, f).at(m).berth("rm", "-y", "scratch"); r.code != 0 || len(f.sandboxes) != 0 {
		t.Errorf("exit %d, %d left", r.code, len(f.sandboxes))
	}
	m.Wait("deleted scratch")
	if strings.Contains(m.Text(), "[y/N]") {
		t.Error("--yes was asked")
	}
}

// TestHostileNamesOnATerminal repeats the escape test where it matters most: the only escapes on the
// screen are ours.
func TestHostileNamesOnATerminal(t *testing.T) {
	f := newFakeServer(t)
	f.sandboxes = []api.Sandbox{{ID: "1", Name: "x\x1b]0;owned\x07", State: "\x1b[31mrunning"}}
	m := newTerminal(t)
	newShell(t, f).at(m).berth("ls")
	m.Wait("running")
	if strings.Contains(m.Text(), "\x1b]") || !strings.Contains(m.Text(), `x\x1b]0;owned\a`) {
		t.Errorf("screen %q", m.Text())
	}
}
