package guesttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/testkit"
)

var killCases = []testCase{
	{name: "CancelKillsTheGroup", test: cancelKillsTheGroup},
	{name: "RunDoesNotWaitForDescendants", test: runDoesNotWaitForDescendants},
	{name: "OutputNobodyTakes", test: outputNobodyTakes},
	{name: "Signals", test: signals},
	{name: "StraysAreReaped", test: straysAreReaped},
	{name: "KillAll", test: killAll},
	{name: "TimeoutKillsTheSession", test: timeoutKillsTheSession},
	{name: "HelperSurvivesSignals", test: helperSurvivesSignals, isolated: true},
}

// count counts the processes inside whose arguments contain text. The text must be unique.
func (in instance) count(t testing.TB, text string) int {
	t.Helper()
	out := in.sh(t, `for p in /proc/[0-9]*; do tr '\0' ' ' < $p/cmdline; echo; done 2>/dev/null; true`)
	return strings.Count(out, text)
}

// timeoutKillsTheSession checks that the helper kills a process after Cmd.Timeout.
func timeoutKillsTheSession(t *testing.T, in instance) {
	const mark = "86399.375"
	p := in.start(t, "late", guest.Cmd{Argv: []string{"sh", "-c", fmt.Sprintf("trap '' TERM; echo begun; set -m; sleep %[1]s & sleep %[1]s", mark)}, Timeout: 300 * time.Millisecond})
	w := collect(t, p, 0)
	if w.exit.Code != guest.ExitTimeout || w.exit.Reason != "killed after 300ms" || w.out != "begun\n" {
		t.Errorf("%q, %+v", w.all, w.exit)
	}
	testkit.Eventually(t, patience, func() error {
		if n := in.count(t, "sleep "+mark); n != 0 {
			return fmt.Errorf("%d processes are left", n)
		}
		return nil
	})
	q := in.start(t, "early", guest.Cmd{Argv: []string{"true"}, Timeout: time.Hour})
	if w := collect(t, q, 0); w.exit.Code != 0 || w.exit.Reason != "" {
		t.Errorf("one that was in time: %+v", w.exit)
	}
	err := in.Start(t.Context(), "never", guest.Cmd{Argv: []string{"true"}, Timeout: -1})
	want(t, "a timeout before the start", err, guest.ErrInvalid)
}

func cancelKillsTheGroup(t *testing.T, in instance) {
	// Two processes in the command's group, one in another group of the session.
	const mark = "86399.125"
	line := fmt.Sprintf("trap '' TERM HUP INT; sleep %[1]s & set -m; sleep %[1]s & echo ready; sleep %[1]s", mark)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	go func() {
		defer cancel()
		buf := make([]byte, 16)
		_, _ = r.Read(buf)
		_, _ = io.Copy(io.Discard, r)
	}()
	time.AfterFunc(time.Second, cancel)
	_, err := in.Run(ctx, guest.Cmd{Argv: []string{"sh", "-c", line}}, guest.Stdio{Stdout: w})
	want(t, "a run whose context ended", err, context.Canceled)
	testkit.Eventually(t, patience, func() error {
		if n := in.count(t, "sleep "+mark); n != 0 {
			return fmt.Errorf("%d processes are left", n)
		}
		return nil
	})
	dead, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	_, err = in.Run(dead, guest.Cmd{Argv: []string{"sleep", "86399"}}, guest.Stdio{})
	want(t, "a run that took too long", err, context.DeadlineExceeded)
}

func runDoesNotWaitForDescendants(t *testing.T, in instance) {
	before := time.Now()
	r := in.run(t, shell("sleep 86398 & echo done; exit 3"))
	if r.Code != 3 || r.out != "done\n" || time.Since(before) > patience/2 {
		t.Errorf("exit %+v, output %q after %v", r.Exit, r.out, time.Since(before))
	}
}

// broken is a writer that fails.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken") }

func outputNobodyTakes(t *testing.T, in instance) {
	ctx, cancel := contextFor(patience)
	defer cancel()
	exit, err := in.Run(ctx, guest.Cmd{Argv: []string{"yes"}}, guest.Stdio{Stdout: broken{}})
	if err != nil || exit.Signal != syscall.SIGPIPE {
		t.Errorf("error %v, exit %+v, want one by SIGPIPE", err, exit)
	}
}

func signals(t *testing.T, in instance) {
	p := in.start(t, "p", shell("trap 'echo got it; exit 9' USR1; echo ready; while :; do sleep 0.05; done"))
	next := until(t, p, 0, "ready")
	if err := p.Signal(t.Context(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if w := collect(t, p, next); w.out != "got it\n" || w.exit.Code != 9 {
		t.Errorf("output %q, exit %+v", w.out, w.exit)
	}
	want(t, "signal one that ended", p.Signal(t.Context(), syscall.SIGTERM), guest.ErrNoProcess)
	want(t, "signal nobody", in.Process("nobody").Signal(t.Context(), syscall.SIGTERM), guest.ErrNoProcess)
	want(t, "signal with none", p.Signal(t.Context(), 0), guest.ErrInvalid)
	want(t, "signal with nonsense", p.Signal(t.Context(), 1000), guest.ErrInvalid)

	p = in.start(t, "q", guest.Cmd{Argv: []string{"sleep", "86397"}})
	if err := p.Signal(t.Context(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if w := collect(t, p, 0); w.exit.Code != 137 || w.exit.Signal != syscall.SIGKILL {
		t.Errorf("exit %+v", w.exit)
	}
}

func straysAreReaped(t *testing.T, in instance) {
	in.sh(t, "for i in 1 2 3 4 5 6 7 8 9 10; do (sleep 0.0${i}7431 & ) ; done")
	// PPID is the helper: its children that it does not reap stay zombies.
	script := `for f in /proc/[0-9]*/stat; do sed 's/.*) //' $f; done 2>/dev/null | while read state parent rest; do
		if [ $state = Z ] && [ $parent = $PPID ]; then echo zombie; fi; done`
	testkit.Eventually(t, patience, func() error {
		if out := in.sh(t, script); out != "" {
			return errors.New(out)
		}
		return nil
	})
}

func killAll(t *testing.T, in instance) {
	const mark = "86396.25"
	p := in.start(t, "p", guest.Cmd{Argv: []string{"sleep", mark}})
	q := in.start(t, "q", shell("trap '' TERM; setsid sleep "+mark+" & sleep "+mark))
	in.sh(t, "setsid sleep "+mark+" > /dev/null 2>&1 &")
	if err := in.KillAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range []guest.Process{p, q} {
		if w := collect(t, p, 0); w.exit.Signal != syscall.SIGKILL || w.exit.Lost {
			t.Errorf("exit %+v", w.exit)
		}
	}
	testkit.Eventually(t, patience, func() error {
		if n := in.count(t, "sleep "+mark); n != 0 {
			return fmt.Errorf("%d processes are left", n)
		}
		return nil
	})
	if out := in.sh(t, "echo still there"); out != "still there\n" {
		t.Errorf("after it: %q", out)
	}
}

func helperSurvivesSignals(t *testing.T, in instance) {
	user := guest.Root
	if in.harness.Single {
		user = guest.Agent
	}
	in.run(t, guest.Cmd{User: user, Argv: []string{"sh", "-c",
		"for s in HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STOP TSTP XCPU SYS; do kill -$s 1; done"}})
	if out := in.sh(t, "echo still there"); out != "still there\n" {
		t.Errorf("after it: %q", out)
	}
	// Commands do not inherit the helper's signal handling.
	if r := in.run(t, shell("kill -QUIT $$; sleep 1")); r.Signal != syscall.SIGQUIT {
		t.Errorf("a command ended by SIGQUIT: exit %+v", r.Exit)
	}
}
