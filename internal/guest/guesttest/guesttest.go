// Package guesttest is the conformance suite of [guest.Conn], and a helper for tests of other packages.
//
// [Run] runs the suite. [Plain] returns a connection to a real helper that is an ordinary process: it needs no
// privileges and isolates nothing.
package guesttest

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/guest"
)

// Harness makes and describes the instances that the suite tests.
type Harness struct {
	// New makes a running instance, which ends with the test. It returns a function that opens a new Conn to the
	// instance and closes it at the end of the test.
	New func(t testing.TB) func(t testing.TB) guest.Conn

	// Isolated is set if instances are isolated: they have an agent user, a root user, and a helper that their
	// processes cannot end.
	Isolated bool
	// Single is set if instances have only one user.
	Single bool
}

// patience is the timeout of every operation. It is long because the machine may be busy.
const patience = 60 * time.Second

type testCase struct {
	name     string
	test     func(t *testing.T, in instance)
	isolated bool // the case needs Harness.Isolated
}

var cases = [][]testCase{commandCases, killCases, userCases, outputCases, inputCases, terminalCases, networkCases, lifeCases}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	for _, group := range cases {
		for _, c := range group {
			if c.isolated && !h.Isolated {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				connect := h.New(t)
				c.test(t, instance{Conn: connect(t), connect: connect, harness: h})
			})
		}
	}
}

// instance is the connection and the harness of one case.
type instance struct {
	guest.Conn
	connect func(t testing.TB) guest.Conn
	harness Harness
}

// result is the exit and the output of a command.
type result struct {
	guest.Exit
	out, err string
}

// run runs a command and fails the test if the command cannot be run. Any exit code is allowed.
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

// sh runs a line of shell, which must succeed, and returns its stdout.
func (in instance) sh(t testing.TB, line string) string {
	t.Helper()
	r := in.run(t, shell(line))
	if r.Code != 0 || r.err != "" {
		t.Fatalf("%q: exit %d %s, stderr %q", line, r.Code, r.Reason, r.err)
	}
	return r.out
}

func shell(line string) guest.Cmd { return guest.Cmd{Argv: []string{"sh", "-c", line}} }

// start starts a process and fails the test on an error.
func (in instance) start(t testing.TB, id string, cmd guest.Cmd) guest.Process {
	t.Helper()
	ctx, cancel := contextFor(patience)
	defer cancel()
	if err := in.Start(ctx, id, cmd); err != nil {
		t.Fatalf("start %s: %v", id, err)
	}
	return in.Process(id)
}

// written is the output of a process from an offset to its end.
type written struct {
	all      string // the output of both streams, in the order of the chunks
	out, err string
	next     int64
	exit     *guest.Exit
}

// collect reads a process's output from an offset to the end, and checks that no byte is missing.
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

// until reads a process's output until it contains text, and returns the offset after the last chunk.
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

// want fails the test if err is not wanted.
func want(t testing.TB, doing string, err, wanted error) {
	t.Helper()
	if !errors.Is(err, wanted) {
		t.Errorf("%s: error %v, want %v", doing, err, wanted)
	}
}
