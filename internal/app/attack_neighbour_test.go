package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// Whatever a process can do to those beside it in one sandbox, it cannot do to those in another.
func TestSandboxesDoNotReachEachOther(t *testing.T) {
	testkit.Proves(t, "E3")
	t.Parallel()
	const secret = "canary-of-the-neighbour"
	a := newArena(t, "")
	a.box("victim", "")
	a.box("other", "")
	a.sh("victim", "agent", "for d in /workspace /home/agent /tmp /dev/shm; do echo "+secret+" > $d/secret; done")
	a.sh("victim", "root", "echo "+secret+" > /run/secret; echo "+secret+" > /etc/secret; chmod 644 /etc/secret /run/secret")
	serve := a.spawn("victim", api.Exec{Command: []string{"perl", "-MIO::Socket::INET", "-MIO::Socket::UNIX", "-e", neighbour, secret}, Env: map[string]string{"SECRET": secret}})
	a.await(serve, "listening")
	for _, words := range [][]string{
		{"read", "/workspace/secret"}, {"read", "/home/agent/secret"}, {"read", "/tmp/secret"}, {"read", "/dev/shm/secret"}, {"read", "/run/secret"}, {"read", "/etc/secret"},
		{"processes"}, {"read", "/proc/[0-9]*/environ"},
		{"connect", "tcp", "127.0.0.1:8123"}, {"connect", "unix", "@neighbour"}, {"connect", "unix", "/tmp/socket"},
	} {
		for _, user := range []string{"agent", "root"} {
			if user == "root" && words[0] == "read" && strings.HasPrefix(words[1], "/proc/") {
				continue // root is no more than another user to the agent's processes
			}
			command := append([]string{"/workspace/attacker"}, words...)
			// In the same sandbox it works, so it is the wall between them that holds.
			if res := a.run("victim", api.Exec{Command: command, User: user}); res.ExitCode != 0 || !strings.Contains(res.Stdout, secret) {
				t.Errorf("%q as %s does not work beside the victim, so it proves nothing: %+v", words, user, res)
			}
			if res := a.run("other", api.Exec{Command: command, User: user}); strings.Contains(res.Stdout+res.Stderr, secret) || res.ExitCode > 1 {
				t.Errorf("%q as %s: %+v", words, user, res)
			}
		}
	}
}

// neighbour listens in every way there is, and tells its argument.
const neighbour = `
	use Socket;
	my @l = (IO::Socket::INET->new(LocalAddr => "127.0.0.1:8123", Listen => 5), IO::Socket::UNIX->new(Local => "/tmp/socket", Listen => 5));
	socket(my $abstract, AF_UNIX, SOCK_STREAM, 0) or die;
	bind($abstract, pack("S a*", AF_UNIX, "\0neighbour")) or die;
	listen($abstract, 5) or die;
	my $all = ""; vec($all, fileno($_), 1) = 1 for @l, $abstract;
	$| = 1; print "listening\n";
	while (select(my $ready = $all, undef, undef, undef)) {
		for my $l (@l, $abstract) {
			next unless vec($ready, fileno($l), 1);
			accept(my $c, $l) or next;
			sysread($c, my $hello, 6); syswrite($c, "$ARGV[0]\n"); close $c;
		}
	}`

// Other users of the machine get at nothing of a sandbox, or of the server: not even where a program that
// makes its user root lies within.
func TestUsersOfTheMachineStayOut(t *testing.T) {
	testkit.Proves(t, "E3")
	t.Parallel()
	const secret = "canary-of-the-sandbox"
	a := newArena(t, "\n[templates.watched]\nextends = \"default\"\ndisk = \"soft\"\n")
	box := a.box("box", "watched") // its files are directories of this machine
	a.sh("box", "root", "echo "+secret+" > /workspace/secret; cp /workspace/attacker /workspace/setuid; chown 0:0 /workspace/setuid; chmod 4755 /workspace/setuid")
	dir := a.instanceDir(box.ID)
	upper := filepath.Join(dir, "fs", "upper", "workspace")
	if info, err := os.Stat(filepath.Join(upper, "setuid")); err != nil || info.Mode()&os.ModeSetuid == 0 || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Fatalf("there is no program of root's: %v, %v", info, err)
	}
	pid := a.guest("box")
	for _, words := range [][]string{
		{"read", filepath.Join(upper, "secret")},
		{"read", filepath.Join("/proc", pid, "root/workspace/secret")},
		{"read", filepath.Join(a.data, "*")},
		{"list", a.data},
		{"list", filepath.Join(dir, "spool")},
		{"link", filepath.Join("/proc", pid, "root")},
		{"open", filepath.Join("/proc", pid, "mem")},
	} {
		if code, out := a.plain(nil, "", words...); code != 0 {
			t.Errorf("%q does not work for root, so it proves nothing: %q", words, out)
		}
		if code, out := a.plain(&syscall.SysProcAttr{Credential: nobody()}, "", words...); code != 1 {
			t.Errorf("%q: exit code %d, %q", words, code, out)
		}
	}
	if code, out := a.plain(&syscall.SysProcAttr{Credential: nobody()}, "", "become", filepath.Join(upper, "setuid")); code != 1 || !strings.Contains(out, "permission denied") {
		t.Errorf("another user runs a sandbox's program: exit code %d, %q", code, out)
	}
	if code, out := a.plain(&syscall.SysProcAttr{Credential: nobody()}, "", "connect", "unixpacket", filepath.Join(dir, "sock")); code != 1 || !strings.Contains(out, "permission denied") {
		t.Errorf("another user talks to the helper: exit code %d, %q", code, out)
	}
}
