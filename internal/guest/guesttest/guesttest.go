// Package guesttest is the suite that every [guest.Conn] passes, and a helper to test others with.
//
// [Run] runs the suite. [Plain] is a connection to a real helper that is an ordinary process: it needs no
// privileges, and isolates nothing.
package guesttest

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/guest"
)

// Harness is what the suite is run on.
type Harness struct {
	// New makes a running instance, which ends with the test, and returns how to connect to it. Each call
	// of that is a Conn of its own, to be closed at the end of the test.
	New func(t testing.TB) func(t testing.TB) guest.Conn

	// World says that instances are machines of their own: with an agent, a root, and a first process
	// that cannot be ended from within.
	World bool
	// Single says that instances have only one user.
	Single bool
}

// patience is how long anything may take on a machine that has other things to do.
const patience = 60 * time.Second

type testCase struct {
	name  string
	test  func(t *testing.T, in instance)
	world bool // only where instances are machines of their own
}

var cases = [][]testCase{commandCases, killCases, userCases, outputCases, inputCases, terminalCases, networkCases, lifeCases}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	for _, group := range cases {
		for _, c := range group {
			if c.world && !h.World {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				connect := h.New(t)
				c.test(t, instance{Conn: connect(t), connect: connect, harness: h})
			})
		}
	}
}

// instance is what a case works with.
type instance struct {
	guest.Conn
	connect func(t testing.TB) guest.Conn
	harness Harness
}

// result is all that a command left.
type result struct {
	guest.Exit
	out, err string
}

// run runs a command that must be runnable at all.
func (in instance) run(t testing.TB, cmd guest.Cmd) result {
	t.Helper()
	var out, err bytes.Buffer
	ctx, cancel := contextFor(patience)
	defer cancel()
	exit, failed := in.Run(ctx, cmd, guest.Stdio{Stdout: &out, Stderr: &err})
	if failed != nil {
		t.Fatalf("run %.60q: %v", cmd.Argv, failed)
	}
	return result{exit, out.String(), err.String()}
}

// sh runs a line of shell, which must succeed, and returns what it wrote.
func (in instance) sh(t testing.TB, line string) string {
	t.Helper()
	r := in.run(t, shell(line))
	if r.Code != 0 || r.err != "" {
		t.Fatalf("%q: exit %d %s, stderr %q", line, r.Code, r.Reason, r.err)
	}
	return r.out
}

func shell(line string) guest.Cmd { return guest.Cmd{Argv: []string{"sh", "-c", line}} }

// start starts a process that must be startable.
func (in instance) start(t testing.TB, id string, cmd guest.Cmd) guest.Process {
	t.Helper()
	ctx, cancel := contextFor(patience)
	defer cancel()
	if err := in.Start(ctx, id, cmd); err != nil {
		t.Fatalf("start %s: %v", id, err)
	}
	return in.Process(id)
}

// written is what a process wrote, from an offset to its end.
type written struct {
	all      string // both streams, in their order
	out, err string
	next     int64
	exit     *guest.Exit
}

// collect reads a process's output to the end, and checks that it is whole.
func collect(t testing.TB, p guest.Process, after int64) written {
	t.Helper()
	ctx, cancel := contextFor(patience)
	defer cancel()
	w := written{next: after}
	for c, err := range p.Output(ctx, after) {
		if err != nil {
			t.Fatalf("output after %d: %v (so far %.200q)", w.next, err, w.all)
		}
		w.add(t, c)
	}
	if w.exit == nil {
		t.Fatalf("output ends without an exit: %.200q", w.all)
	}
	return w
}

func (w *written) add(t testing.TB, c guest.Chunk) {
	t.Helper()
	if w.exit != nil {
		t.Fatal("a chunk behind the exit")
	}
	if w.next+int64(len(c.Data)) != c.Next {
		t.Fatalf("a chunk of %d bytes leads from %d to %d", len(c.Data), w.next, c.Next)
	}
	w.next, w.exit = c.Next, c.Exit
	w.all += string(c.Data)
	switch {
	case c.Exit != nil && len(c.Data) > 0, c.Exit == nil && len(c.Data) == 0:
		t.Fatalf("a chunk has data or an exit, not %d bytes and %v", len(c.Data), c.Exit)
	case c.Stream == guest.Stdout:
		w.out += string(c.Data)
	case c.Stream == guest.Stderr:
		w.err += string(c.Data)
	}
}

// until reads a process's output until it has a text, and returns the offset behind what was read.
func until(t testing.TB, p guest.Process, after int64, text string) int64 {
	t.Helper()
	ctx, cancel := contextFor(patience)
	defer cancel()
	var all string
	for c, err := range p.Output(ctx, after) {
		if err != nil {
			t.Fatalf("wait for %q: %v (so far %.500q)", text, err, all)
		}
		all += string(c.Data)
		if bytes.Contains([]byte(all), []byte(text)) {
			return c.Next
		}
	}
	t.Fatalf("output ends without %q: %.500q", text, all)
	return 0
}

func contextFor(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// want fails a test whose error is another.
func want(t testing.TB, doing string, err, wanted error) {
	t.Helper()
	if !errors.Is(err, wanted) {
		t.Errorf("%s: error %v, want %v", doing, err, wanted)
	}
}
