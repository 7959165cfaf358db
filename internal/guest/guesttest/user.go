package guesttest

import (
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/guest"
)

var userCases = []testCase{
	{name: "Users", test: users, isolated: true},
	{name: "NothingIsInherited", test: nothingIsInherited},
}

func users(t *testing.T, in instance) {
	all := `id -u; id -g; id -G; echo $HOME $USER; grep -E 'CapEff|CapPrm|CapInh|CapAmb' /proc/self/status | cut -f2 | tr '\n' ' '; umask`
	r := in.run(t, shell(all))
	none := strings.Repeat("0000000000000000 ", 4)
	if want := "1000\n1000\n1000\n" + guest.Home + " agent\n" + none + "0022\n"; r.out != want {
		t.Errorf("agent: %q, want %q", r.out, want)
	}
	if in.harness.Single {
		return
	}
	r = in.run(t, guest.Cmd{Argv: []string{"sh", "-c", "id -u; id -g; id -G; echo $HOME $USER"}, User: guest.Root})
	if want := "0\n0\n0\n/root root\n"; r.out != want {
		t.Errorf("root: %q, want %q", r.out, want)
	}
	r = in.run(t, guest.Cmd{Argv: []string{"sh", "-c", "echo x > /dev/stdout; touch /workspace/roots; chown 1000 /workspace/roots"}, User: guest.Root})
	if r.Code != 0 || r.out != "x\n" {
		t.Errorf("root: exit %+v, stdout %q, stderr %q", r.Exit, r.out, r.err)
	}
	w := collect(t, in.start(t, "p", guest.Cmd{Argv: []string{"sh", "-c", "id -u > /dev/stdout"}, User: guest.Root}), 0)
	if w.out != "0\n" {
		t.Errorf("started as root: %q, %+v", w.all, w.exit)
	}
}

// nothingIsInherited checks that a command inherits no descriptors of the helper.
func nothingIsInherited(t *testing.T, in instance) {
	const line = "ls /proc/self/fd | wc -l" // the three standard ones, and the directory that ls reads
	if out := strings.TrimSpace(in.sh(t, line)); out != "4" {
		t.Errorf("a command has %s descriptors", out)
	}
	w := collect(t, in.start(t, "p", guest.Cmd{Argv: []string{"sh", "-c", line}, Input: true}), 0)
	if strings.TrimSpace(w.out) != "4" {
		t.Errorf("a process has %s descriptors", w.out)
	}
	// The command runs in a new session without a terminal.
	if out := strings.Fields(in.sh(t, "sed 's/.*) //' /proc/$$/stat; echo $$")); out[2] != out[len(out)-1] || out[3] != out[2] || out[4] != "0" {
		t.Errorf("group %s, session %s, terminal %s", out[2], out[3], out[4])
	}
}
