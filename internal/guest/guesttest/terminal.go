package guesttest

import (
	"syscall"
	"testing"

	"github.com/berthdev/berth/internal/guest"
)

var terminalCases = []testCase{
	{name: "Terminal", test: terminal},
	{name: "TerminalResizes", test: terminalResizes},
	{name: "TerminalInterrupts", test: terminalInterrupts},
	{name: "TerminalEndsInput", test: terminalEndsInput},
}

func screen(line string) guest.Cmd {
	return guest.Cmd{Argv: []string{"sh", "-c", line}, Terminal: &guest.Size{Rows: 24, Cols: 80}}
}

func typed(t testing.TB, p guest.Process, text string) {
	t.Helper()
	ctx, cancel := contextFor(patience)
	defer cancel()
	if _, err := p.Write(ctx, []byte(text)); err != nil {
		t.Fatalf("type %q: %v", text, err)
	}
}

func terminal(t *testing.T, in instance) {
	p := in.start(t, "p", screen("test -t 0 && test -t 1 && test -t 2 && stty size; echo err >&2; echo x > /dev/tty; echo y > /dev/stdout; exit 5"))
	w := collect(t, p, 0)
	if w.out != "24 80\r\nerr\r\nx\r\ny\r\n" || w.err != "" || w.exit.Code != 5 {
		t.Errorf("stdout %q, stderr %q, exit %+v", w.out, w.err, w.exit)
	}
	want(t, "resize one that ended", p.Resize(t.Context(), guest.Size{Rows: 1, Cols: 1}), guest.ErrNoProcess)
	if w := collect(t, in.start(t, "q", guest.Cmd{Argv: []string{"no-such"}, Terminal: &guest.Size{}}), 0); w.exit.Code != guest.ExitNotFound {
		t.Errorf("a missing command: %+v", w.exit)
	}
}

func terminalResizes(t *testing.T, in instance) {
	p := in.start(t, "p", screen("trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done"))
	next := until(t, p, 0, "ready")
	if err := p.Resize(t.Context(), guest.Size{Rows: 33, Cols: 121}); err != nil {
		t.Fatal(err)
	}
	if w := collect(t, p, next); w.out != "\r\n33 121\r\n" && w.out != "33 121\r\n" {
		t.Errorf("after a resize: %q, exit %+v", w.out, w.exit)
	}
}

func terminalInterrupts(t *testing.T, in instance) {
	p := in.start(t, "p", screen("echo ready; exec sleep 86390"))
	until(t, p, 0, "ready")
	typed(t, p, "\x03")
	if w := collect(t, p, 0); w.exit.Signal != syscall.SIGINT || w.exit.Code != 130 {
		t.Errorf("after Ctrl-C: exit %+v", w.exit)
	}
}

func terminalEndsInput(t *testing.T, in instance) {
	p := in.start(t, "p", screen("stty -echo; echo ready; cat; echo end"))
	next := until(t, p, 0, "ready\r\n")
	typed(t, p, "a line\n")
	next = until(t, p, next, "a line\r\n")
	if err := p.CloseInput(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w := collect(t, p, next); w.out != "end\r\n" || w.exit.Code != 0 {
		t.Errorf("after the end of its input: %q, exit %+v", w.out, w.exit)
	}
	_, err := p.Write(t.Context(), []byte("x"))
	want(t, "type into one that ended", err, guest.ErrNoInput)
}
