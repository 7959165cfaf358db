package process

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

func newApp(stderr io.Writer) *app {
	u := ui.New(strings.NewReader(""), io.Discard, stderr, func(string) (string, bool) { return "", false })
	return &app{remote.New(u, "", nil)}
}

func TestDetachKeys(t *testing.T) {
	for _, c := range []struct {
		keys  string
		typed []string
		want  string
		left  bool
	}{
		{"ctrl-p,ctrl-q", []string{"ab\x10\x11cd"}, "ab", true},
		{"ctrl-p,ctrl-q", []string{"\x10", "\x11"}, "", true},
		{"ctrl-p,ctrl-q", []string{"\x10", "x"}, "\x10x", false},
		{"ctrl-p,ctrl-q", []string{"\x10", "\x10", "\x11"}, "\x10", true},
		{"ctrl-p,ctrl-q", []string{"\x10"}, "", false},
		{"none", []string{"\x10\x11"}, "\x10\x11", false},
		{"a,a,b", []string{"aaab"}, "a", true},
		{"a,b,a,c", []string{"ababac"}, "ab", true},
		{"~", []string{"x~"}, "x", true},
	} {
		var keys detachKeys
		if err := keys.Set(c.keys); err != nil || keys.String() != c.keys {
			t.Fatalf("%s: %v, %s", c.keys, err, keys.String())
		}
		d, got, left := detector{keys: keys}, "", false
		for _, typed := range c.typed {
			send, now := d.pass([]byte(typed))
			got, left = got+string(send), left || now
		}
		if got != c.want || left != c.left {
			t.Errorf("%s: %q sends %q, left %v; want %q, %v", c.keys, c.typed, got, left, c.want, c.left)
		}
	}
	for _, bad := range []string{"", "ctrl-", "ctrl-1", "ab", "a,,b", "none,a", "é"} {
		var keys detachKeys
		if keys.Set(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestExecStates(t *testing.T) {
	for want, e := range map[string]api.ExecStatus{
		"running": {Running: true}, "unknown": {}, "lost": {Exit: &api.ExecExit{Lost: true}},
		"exit 0": {Exit: &api.ExecExit{}}, "exit 7": {Exit: &api.ExecExit{ExitCode: 7}}, "killed KILL": {Exit: &api.ExecExit{ExitCode: 137, Signal: "KILL"}},
	} {
		if got := execState(e).Text; got != want {
			t.Errorf("%+v: %s, want %s", e, got, want)
		}
	}
	if got := ui.Truncate("abcdef", 4); got != "abc…" {
		t.Error(got)
	}
	if got := ui.ShellQuote([]string{"a", "", "b c"}); got != "a '' 'b c'" {
		t.Error(got)
	}
}

func TestTrimmedOutputSaysWhereItBegins(t *testing.T) {
	gone := api.NewProblem(api.CodeOutputTrimmed, "that part is gone")
	err := trimmedHint(logFlags{}, api.ExecStatus{First: 42}, gone)
	var out bytes.Buffer
	newApp(&out).Fail(err)
	if want := "The output kept begins at 42: omit --after."; !strings.Contains(out.String(), want) {
		t.Errorf("%q", out.String())
	}
}

func TestLostCommandSaysSo(t *testing.T) {
	var err bytes.Buffer
	a := newApp(&err)
	a.Fail(a.exit("box", api.Exec{}, api.ExecExit{ExitCode: -1, Lost: true}))
	if err.String() != "berth: box stopped before the command had ended; how it would have ended is not known\n  hint: 'berth history box' says why it stopped.\n" {
		t.Error(err.String())
	}
	if got := ui.ExitCode(3).Error(); got != "exit code 3" {
		t.Error(got)
	}
}
