package app_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// spellings of the address at which clouds tell secrets to whoever asks, and of this machine's own.
var spellings = []string{
	"169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "0xa9.0xfe.0xa9.0xfe", "169.254.43518", "169.16689662",
	"[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[0:0:0:0:0:ffff:a9fe:a9fe]", "[::169.254.169.254]", "[2002:a9fe:a9fe::]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::a9fe:a9fe]",
	"[fe80::1]", "[fd00:ec2::254]", "169.254.169.254.", "①⑥⑨.254.169.254",
	"127.0.0.1", "localhost", "LOCALHOST.", "127.1", "0", "0.0.0.0", "2130706433", "0x7f.1", "[::1]", "[::]", "[::ffff:127.0.0.1]", "127.255.255.254", "10.0.0.1", "192.168.0.1", "172.16.0.1", "100.64.0.1",
}

// A sandbox that may go anywhere goes anywhere but here: no private or link-local address, however it is
// written, is dialled for it.
func TestEgressLeadsNowhereNear(t *testing.T) {
	testkit.Proves(t, "E3")
	t.Parallel()
	const secret = "canary-behind-the-proxy"
	a := newArena(t, `
[templates.open]
extends = "default"
egress = "all"
`)
	a.box("box", "open")
	port := tell(t, "tcp4", "0.0.0.0:0", "HTTP/1.0 200 OK\r\n\r\n"+secret).(*net.TCPAddr).Port
	if code, out := a.plain(nil, "", "connect", "tcp", fmt.Sprintf("127.0.0.1:%d", port)); code != 0 || !strings.Contains(out, secret) {
		t.Fatalf("a plain process does not get there, so this proves nothing: %q", out)
	}
	if proxy := a.sh("box", "agent", "echo $HTTPS_PROXY $https_proxy"); !strings.Contains(proxy, "127.0.0.1:3128") {
		t.Fatalf("there is no proxy: %q", proxy)
	}
	var script strings.Builder
	for _, host := range append(spellings, ownAddress(t)) {
		for _, target := range []string{fmt.Sprintf("%s:%d", host, port), host + ":80"} {
			fmt.Fprintf(&script, "ask 'CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n'\n", target)
			fmt.Fprintf(&script, "ask 'GET http://%s/ HTTP/1.1\r\nHost: %[1]s\r\nConnection: close\r\n\r\n'\n", target)
		}
	}
	asked := strings.Count(script.String(), "ask '")
	res := a.run("box", api.Exec{Command: []string{"perl", "-MIO::Socket::INET", "-e", asking}, Stdin: script.String()})
	lines := strings.Split(strings.TrimSpace(res.Stdout), "\n")
	if res.ExitCode != 0 || len(lines) != asked || strings.Contains(res.Stdout, secret) {
		t.Fatalf("%d answers to %d questions: %+v", len(lines), asked, res)
	}
	for _, line := range lines {
		status, request, _ := strings.Cut(line, " ← ")
		if !strings.HasPrefix(status, "403") && !strings.HasPrefix(status, "400") {
			t.Errorf("%s: %s", request, status)
		}
	}
}

// asking reads requests and tells how the proxy answers each.
const asking = `
	local $/; my $all = <STDIN>; $| = 1;
	while ($all =~ /ask '(.*?)'\n/gs) {
		my $request = $1; my ($first) = $request =~ /^(.*?)\r/;
		my $c = IO::Socket::INET->new(PeerAddr => "127.0.0.1:3128", Timeout => 20) or die "no proxy: $!";
		syswrite($c, $request);
		my $answer = ""; alarm 20;
		while (sysread($c, my $more, 65536)) { $answer .= $more; last if $answer =~ /\r\n\r\n./s }
		my ($status) = $answer =~ m{^HTTP/1\.[01] (\d+)}; $status = "none: $answer" unless $status;
		$answer =~ s/\s+/ /g;
		print $status, " ", ($answer =~ /canary-\S+/ ? $& : ""), " ← $first\n";
	}`

// Without an egress rule there is no way out at all: no proxy, no name is resolved, no address is reached.
func TestNoEgressIsNoWayOut(t *testing.T) {
	testkit.Proves(t, "E3")
	t.Parallel()
	a := newArena(t, "")
	a.box("box", "")
	udp := tellUDP(t, "answer").String()
	tcp := tell(t, "tcp4", "0.0.0.0:0", "answer").(*net.TCPAddr).Port
	own := ownAddress(t)
	for _, words := range [][]string{
		{"connect", "udp", udp},
		{"connect", "tcp", fmt.Sprintf("127.0.0.1:%d", tcp)},
		{"connect", "tcp", fmt.Sprintf("%s:%d", own, tcp)},
	} {
		if code, out := a.plain(nil, "", words...); code != 0 {
			t.Errorf("%q does not work for a plain process, so it proves nothing: %q", words, out)
		}
		for _, user := range []string{"agent", "root"} {
			if res := a.run("box", api.Exec{Command: append([]string{"/workspace/attacker"}, words...), User: user}); res.ExitCode != 1 {
				t.Errorf("%q as %s: %+v", words, user, res)
			}
		}
	}
	for _, line := range []string{
		"getent ahosts example.com", "getent hosts " + own,
		"/workspace/attacker connect tcp 127.0.0.1:3128", "/workspace/attacker connect udp 127.0.0.53:53",
		`grep -q . /proc/net/route && [ "$(wc -l < /proc/net/route)" -gt 1 ]`,
	} {
		if res := a.run("box", api.Exec{Command: api.Shell(line)}); res.ExitCode == 0 {
			t.Errorf("%s: %+v", line, res)
		}
	}
	if out := a.sh("box", "agent", "env"); strings.Contains(strings.ToLower(out), "proxy") {
		t.Errorf("there is a proxy: %s", out)
	}
}
