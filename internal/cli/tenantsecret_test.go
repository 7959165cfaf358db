package cli

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/ptytest"
)

// Secrets on a real server: set from stdin and at a terminal, rotated, listed, used by a sandbox, kept over a restart,
// and removed. The value is in no output.
func TestSecretsOnARealServer(t *testing.T) {
	testkit.Proves(t, "E7")
	real := newReal(t)
	const first, second, third = "canary-first-value", "canary-second-value", "canary-third-value"
	s := real.shell()
	printed := ""
	run := func(stdin string, args ...string) result {
		t.Helper()
		c := s.with()
		c.deps.Stdin = strings.NewReader(stdin)
		r := c.berth(args...)
		printed += r.out + r.err
		return r
	}
	if r := run(first+"\n", "secret", "set", "ANTHROPIC_API_KEY"); r.code != 0 || r.out != "" || !strings.Contains(r.err, "ANTHROPIC_API_KEY is set. Sandboxes of claude_code, github,") {
		t.Fatalf("%+v", r)
	}
	key := func() string { return s.ok("exec", "box", "--", "printenv", "ANTHROPIC_API_KEY") }
	s.ok("create", "box", "--template", "claude_code")
	if got := key(); got != first+"\n" {
		t.Errorf("the sandbox has %q", got)
	}
	run(second, "secret", "set", "ANTHROPIC_API_KEY")
	if got := key(); got != second+"\n" {
		t.Errorf("after the rotation, without a restart, it has %q", got)
	}
	if r := run("x", "secret", "set", "NOT_NAMED"); r.code != 0 || !strings.Contains(r.err, "no sandbox gets it") {
		t.Errorf("%+v", r)
	}
	list := run("", "secret", "ls")
	contains(t, "ls", list.out, "ANTHROPIC_API_KEY", "claude_code, github,", "NOT_NAMED")
	if got := decode[api.List[api.Secret]](t, run("", "secret", "ls", "--json").out); len(got.Items) != 2 {
		t.Errorf("%+v", got)
	}

	m := newTerminal(t)
	hidden(t, s, m, func() {
		m.Wait("Value of ANTHROPIC_API_KEY (not shown): ")
		m.Type(third + "\r")
	}, 0, "secret", "set", "ANTHROPIC_API_KEY")
	hidden(t, s, m, func() {
		m.Wait("Value of OTHER (not shown): ")
		m.Type("half of a val")
		_ = syscall.Kill(os.Getpid(), syscall.SIGINT) // as Ctrl-C does
	}, 130, "secret", "set", "OTHER")
	if got := key(); got != third+"\n" {
		t.Errorf("typed at a terminal: %q", got)
	}
	if strings.Contains(m.Text(), third) {
		t.Error("the terminal shows what was typed")
	}

	real.end(syscall.SIGKILL)
	real.start()
	s = real.shell()
	if got := key(); got != third+"\n" {
		t.Errorf("after a restart: %q", got)
	}
	for _, args := range [][]string{{"KEY", first}, {"KEY=" + first}, {first + "!"}, {}} {
		if r := run(first, append([]string{"secret", "set"}, args...)...); r.code != 125 {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if r := run("\n", "secret", "set", "KEY"); r.code != 125 || !strings.Contains(r.err, "the value is empty") {
		t.Errorf("%+v", r)
	}
	if r := run("", "secret", "rm", "ANTHROPIC_API_KEY", "NOT_NAMED"); r.code != 0 || r.out != "deleted ANTHROPIC_API_KEY\ndeleted NOT_NAMED\n" {
		t.Errorf("%+v", r)
	}
	if r := s.berth("exec", "box", "--", "printenv", "ANTHROPIC_API_KEY"); r.code != 1 {
		t.Errorf("after rm: %+v", r)
	}
	for _, value := range []string{first, second, third} {
		if strings.Contains(printed, value) || strings.Contains(real.logs.String(), value) {
			t.Errorf("%s was printed or logged", value)
		}
	}
}

// hidden runs a command while a person is at the keys of its terminal.
func hidden(t *testing.T, s *shell, m *ptytest.Terminal, person func(), code int, args ...string) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); person() }()
	if r := s.at(m).berth(args...); r.code != code {
		t.Errorf("exit %d", r.code)
	}
	<-done
}
