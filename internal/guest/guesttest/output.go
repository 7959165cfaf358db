package guesttest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/guest"
)

var outputCases = []testCase{
	{name: "OutputIsFollowedToItsEnd", test: outputIsFollowed},
	{name: "OutputResumesAnywhere", test: outputResumesAnywhere},
	{name: "OldOutputIsTrimmed", test: oldOutputIsTrimmed},
	{name: "ManySmallWrites", test: manySmallWrites},
	{name: "DescendantsMayFinish", test: descendantsMayFinish},
	{name: "DescendantsAreNotWaitedFor", test: descendantsAreNotWaitedFor},
	{name: "IdsAreNotReused", test: idsAreNotReused},
	{name: "Statuses", test: statuses},
}

func outputIsFollowed(t *testing.T, in instance) {
	before := time.Now().Add(-time.Minute)
	p := in.start(t, "p", shell("echo one; sleep 1; echo two >&2; sleep 1; echo three; exit 7"))
	w := collect(t, p, 0)
	if w.out != "one\nthree\n" || w.err != "two\n" || w.all != "one\ntwo\nthree\n" {
		t.Errorf("stdout %q, stderr %q, all %q", w.out, w.err, w.all)
	}
	if w.exit.Code != 7 || w.exit.Lost || w.exit.At.Before(before) || w.exit.MaxRSS == 0 {
		t.Errorf("exit %+v", w.exit)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	q := in.start(t, "q", guest.Cmd{Argv: []string{"sleep", "86395"}})
	for c, err := range q.Output(ctx, 0) {
		want(t, fmt.Sprintf("output of one that says nothing (%v)", c), err, context.DeadlineExceeded)
	}
	for _, err := range in.Process("nobody").Output(t.Context(), 0) {
		want(t, "output of nobody", err, guest.ErrNoProcess)
	}
	var oldest string
	for c, err := range p.Output(t.Context(), -1) {
		if err != nil {
			t.Fatal(err)
		}
		oldest += string(c.Data)
	}
	if oldest != w.all {
		t.Errorf("from the oldest on: %q", oldest)
	}
	for _, err := range p.Output(t.Context(), w.next+1) {
		want(t, "output behind the end", err, guest.ErrInvalid)
	}
}

func outputResumesAnywhere(t *testing.T, in instance) {
	p := in.start(t, "p", shell("for i in 1 2 3 4 5 6; do echo out $i; echo err $i >&2; done"))
	whole := collect(t, p, 0)
	for after := range int64(len(whole.all)) + 1 {
		if part := collect(t, p, after); part.all != whole.all[after:] || part.next != whole.next {
			t.Fatalf("after %d: %q, want %q", after, part.all, whole.all[after:])
		}
	}
	// A reader can stop and another can continue at its offset.
	q := in.start(t, "q", shell("echo one; sleep 0.3; echo two"))
	next := until(t, q, 0, "one\n")
	if w := collect(t, q, next); w.all != "two\n" {
		t.Errorf("after %d: %q", next, w.all)
	}
}

func oldOutputIsTrimmed(t *testing.T, in instance) {
	const keep, wrote = 256 << 10, 8 << 20
	p := in.start(t, "p", guest.Cmd{Argv: []string{"sh", "-c", fmt.Sprintf("yes 0123456 | head -c %d", wrote)}, Keep: keep})
	end := waitFor(t, p)
	if end.End != wrote || end.First <= 0 || end.End-end.First < keep || end.End-end.First > 4*keep {
		t.Errorf("kept from %d to %d, of %d, with %d to keep", end.First, end.End, wrote, keep)
	}
	for _, after := range []int64{0, 1, end.First - 1} {
		for _, err := range p.Output(t.Context(), after) {
			want(t, fmt.Sprintf("output after %d", after), err, guest.ErrTrimmed)
		}
	}
	w := collect(t, p, end.First)
	if tail := strings.Repeat("0123456\n", wrote/8)[end.First:]; w.all != tail {
		t.Errorf("%d bytes are kept, and not those that were written last", len(w.all))
	}
}

// waitFor waits for a process's end. It reads only output that is newer than the first status.
func waitFor(t testing.TB, p guest.Process) guest.Status {
	t.Helper()
	ctx, cancel := contextFor(patience)
	defer cancel()
	for {
		s, err := p.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if s.Exit != nil {
			return s
		}
		for _, err := range p.Output(ctx, s.End) {
			if err != nil {
				break
			}
		}
	}
}

// manySmallWrites checks the output of a process that writes single bytes as fast as it can.
func manySmallWrites(t *testing.T, in instance) {
	p := in.start(t, "p", shell("i=0; while [ $i -lt 5000 ]; do printf x; i=$((i+1)); done; echo .; echo end >&2"))
	if w := collect(t, p, 0); w.out != strings.Repeat("x", 5000)+".\n" || w.err != "end\n" {
		t.Errorf("%d bytes, stderr %q, exit %+v", len(w.out), w.err, w.exit)
	}
}

func descendantsMayFinish(t *testing.T, in instance) {
	p := in.start(t, "p", shell("(sleep 0.1; echo late) & echo main; exit 3"))
	if w := collect(t, p, 0); w.out != "main\nlate\n" || w.exit.Code != 3 {
		t.Errorf("output %q, exit %+v", w.out, w.exit)
	}
}

// descendantsAreNotWaitedFor checks that a process ends while a descendant still writes to its output.
func descendantsAreNotWaitedFor(t *testing.T, in instance) {
	p := in.start(t, "p", guest.Cmd{Argv: []string{"sh", "-c", "echo main; yes & exit 4"}, Keep: 64 << 10})
	end := waitFor(t, p)
	if end.Exit.Code != 4 {
		t.Errorf("exit %+v", end.Exit)
	}
	collect(t, p, end.First)
	if after, err := p.Status(t.Context()); err != nil || after.End != end.End {
		t.Errorf("it goes on behind its end: from %d to %d, error %v", end.End, after.End, err)
	}
}

func idsAreNotReused(t *testing.T, in instance) {
	p := in.start(t, "p", shell("echo first"))
	want(t, "start it again", in.Start(t.Context(), "p", shell("echo second")), guest.ErrExists)
	if w := collect(t, p, 0); w.all != "first\n" {
		t.Errorf("output %q", w.all)
	}
	want(t, "start it after its end", in.Start(t.Context(), "p", shell("echo third")), guest.ErrExists)
}

func statuses(t *testing.T, in instance) {
	_, err := in.Process("nobody").Status(t.Context())
	want(t, "status of nobody", err, guest.ErrNoProcess)
	if list, err := in.Processes(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("at first: %v, error %v", list, err)
	}
	p := in.start(t, "ends", shell("echo 12345; exit 2"))
	collect(t, p, 0)
	q := in.start(t, "runs", guest.Cmd{Argv: []string{"sleep", "86394"}, Terminal: &guest.Size{Rows: 1, Cols: 1}})
	if s, err := p.Status(t.Context()); err != nil || s.ID != "ends" || s.Exit == nil || s.Exit.Code != 2 || s.First != 0 || s.End != 6 || s.Terminal {
		t.Errorf("of one that ended: %+v, error %v", s, err)
	}
	s, err := q.Status(t.Context())
	if err != nil || s.Exit != nil || !s.Terminal || strings.Join(s.Argv, " ") != "sleep 86394" {
		t.Errorf("of one that runs: %+v, error %v", s, err)
	}
	if time.Since(s.StartedAt) > time.Hour || time.Until(s.StartedAt) > time.Hour {
		t.Errorf("started at %v", s.StartedAt)
	}
	list, err := in.Processes(t.Context())
	if err != nil || len(list) != 2 || list[0].ID != "ends" || list[1].ID != "runs" {
		t.Errorf("all: %v, error %v", list, err)
	}
}
