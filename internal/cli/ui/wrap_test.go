package ui

import (
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit/ptytest"
)

func TestMessagesWrapAtWords(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"short", "short"},
		{"  hint: type more of the id", "  hint: type more of\n  the id"},
		{"\x1b[31mberth:\x1b[0m twelve chars", "\x1b[31mberth:\x1b[0m twelve chars"}, // colours take no columns
		{"see http://127.0.0.1:7070/api/v1 there", "see\nhttp://127.0.0.1:7070/api/v1\nthere"},
		{"店舗のプロジェクト 作業台 あ", "店舗のプロジェクト\n作業台 あ"},
		{"  " + strings.Repeat("x", 30), "  " + strings.Repeat("x", 30)},
	} {
		if got := wrapWords(c.line, 20); got != c.want {
			t.Errorf("%q became %q, want %q", c.line, got, c.want)
		}
	}
}

// Output that is no terminal keeps its lines: programs read it.
func TestMessagesOutsideATerminalKeepTheirLines(t *testing.T) {
	var out strings.Builder
	u := New(nil, &out, &out, func(string) (string, bool) { return "", false })
	p := api.NewProblem(api.CodeNotFound, strings.Repeat("word ", 50))
	u.Fail(p)
	if first, _, _ := strings.Cut(out.String(), "\n"); !strings.HasSuffix(strings.TrimSpace(first), strings.TrimSpace(strings.Repeat("word ", 50))) {
		t.Errorf("the first line is %q", first)
	}
}

// The answer is on the line of the question's end, also where the question fills the line.
func TestQuestionsLeaveRoomForTheAnswer(t *testing.T) {
	for n := range 60 {
		m := ptytest.New(t)
		m.Resize(60, 40)
		u := New(m.TTY, m.TTY, m.TTY, func(string) (string, bool) { return "", false })
		m.Type("y\n")
		if err := u.Confirm(t.Context(), "delete "+strings.Repeat("x", n)+"?"); err != nil {
			t.Fatal(err)
		}
		m.Wait("[y/N] ")
		for row := range strings.SplitSeq(m.Text(), "\n") {
			if before, _, ok := strings.Cut(row, "[y/N] "); ok && Width(before)+len("[y/N] y") > 60 {
				t.Errorf("no room for the answer behind %q", row)
			}
		}
	}
}

// Notes, results, warnings, errors and hints fit the terminal, and their words stay whole.
func TestMessagesFitTheTerminal(t *testing.T) {
	const address = "http://127.0.0.1:7070/api/v1/sandboxes/作業台"
	m := ptytest.New(t)
	m.Resize(60, 40)
	u := New(nil, m.TTY, m.TTY, func(string) (string, bool) { return "", false })
	long := strings.Repeat("many words ", 12) + address
	u.Notef("%s", long)
	u.Printf("  %s", long)
	u.Warnf("%s", long)
	u.Fail(Hint(api.NewProblem(api.CodeNotFound, long), long))
	u.Printf("the end")
	m.Wait("the end")
	for row := range strings.SplitSeq(m.Text(), "\n") {
		if w := Width(colours.ReplaceAllString(row, "")); w > 60 {
			t.Errorf("a line of %d columns: %q", w, row)
		}
	}
	if n := strings.Count(m.Text(), address); n != 5 {
		t.Errorf("%d whole addresses, want 5:\n%s", n, m.Text())
	}
}
