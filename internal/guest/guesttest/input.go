package guesttest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/guest"
)

var inputCases = []testCase{
	{name: "Input", test: input},
	{name: "InputWaitsForTheReader", test: inputWaits},
	{name: "NoInput", test: noInput},
}

func input(t *testing.T, in instance) {
	p := in.start(t, "p", guest.Cmd{Argv: []string{"cat"}, Input: true})
	var next int64
	for _, text := range []string{"hello\n", "again\n", strings.Repeat("long ", 100<<10) + "end\n"} {
		if n, err := p.Write(t.Context(), []byte(text)); err != nil || n != len(text) {
			t.Fatalf("write %.10q: %d, %v", text, n, err)
		}
		next = until(t, p, next, text[len(text)-4:])
	}
	// Another server can write to the same input.
	if _, err := in.connect(t).Process("p").Write(t.Context(), []byte("another\n")); err != nil {
		t.Fatal(err)
	}
	next = until(t, p, next, "another\n")
	if err := p.CloseInput(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w := collect(t, p, next); w.exit.Code != 0 || w.all != "" {
		t.Errorf("after the end of its input: %q, exit %+v", w.all, w.exit)
	}
	_, err := p.Write(t.Context(), []byte("late"))
	want(t, "write to one that ended", err, guest.ErrNoInput)
	want(t, "close the input of one that ended", p.CloseInput(t.Context()), guest.ErrNoInput)
}

func inputWaits(t *testing.T, in instance) {
	p := in.start(t, "p", guest.Cmd{Argv: []string{"sleep", "86393"}, Input: true})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	n, err := p.Write(ctx, make([]byte, 4<<20))
	want(t, "write to one that does not read", err, context.DeadlineExceeded)
	if n <= 0 || n >= 4<<20 {
		t.Errorf("%d bytes were written to one that does not read", n)
	}
	q := in.start(t, "q", guest.Cmd{Argv: []string{"sh", "-c", "exec <&-; echo ready; sleep 86392"}, Input: true})
	until(t, q, 0, "ready")
	_, err = q.Write(t.Context(), []byte("x"))
	want(t, "write to one that closed its input", err, guest.ErrNoInput)
}

func noInput(t *testing.T, in instance) {
	p := in.start(t, "p", shell("cat; echo end"))
	if w := collect(t, p, 0); w.all != "end\n" {
		t.Errorf("without input: %q", w.all)
	}
	q := in.start(t, "q", guest.Cmd{Argv: []string{"sleep", "86391"}})
	_, err := q.Write(t.Context(), []byte("x"))
	want(t, "write to one without input", err, guest.ErrNoInput)
	want(t, "close the input of one without", q.CloseInput(t.Context()), guest.ErrNoInput)
	_, err = in.Process("nobody").Write(t.Context(), []byte("x"))
	want(t, "write to nobody", err, guest.ErrNoProcess)
	want(t, "close nobody's input", in.Process("nobody").CloseInput(t.Context()), guest.ErrNoProcess)
	want(t, "resize one without a terminal", q.Resize(t.Context(), guest.Size{Rows: 1, Cols: 1}), guest.ErrInvalid)
	want(t, "resize nobody", in.Process("nobody").Resize(t.Context(), guest.Size{Rows: 1, Cols: 1}), guest.ErrNoProcess)
}
