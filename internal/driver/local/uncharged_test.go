package local_test

import (
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/testkit"
)

// Data in connections that are not accepted, and in netlink sockets that are not read, is charged to no cgroup. Who has
// much of it is ended, with a reason; a server that is slow to accept is not.
func TestUnacceptedConnectionsAreBounded(t *testing.T) {
	testkit.Proves(t, "E3")
	d := open(t, t.TempDir())
	s := limited(driver.Limits{MemoryBytes: 256 << 20})
	s.Mounts = []driver.Mount{{Source: programs(), Target: "/opt/programs"}}
	hog, slow := create(t, d, s), create(t, d, spec())
	conn, err := d.Guest(t.Context(), slow.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Start(t.Context(), "slow", sh(`exec perl -MIO::Socket::INET -e '
		my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1:8000", Listen => 100) or die;
		my @c = map { my $c = IO::Socket::INET->new("127.0.0.1:8000"); syswrite($c, "x" x 9000); $c } 1..50;
		sleep 600'`)); err != nil {
		t.Fatal(err)
	}
	for _, attack := range [][]string{{"backlog", "30"}, {"netlink", "60"}} {
		r := run(t, d, hog.ID, guest.Cmd{Argv: append([]string{"/opt/programs/attack"}, attack...)})
		if r.Code != 137 {
			t.Errorf("%q: 240 MiB that were not read: %+v", attack, r)
		}
		if st, err := d.Inspect(t.Context(), hog.ID); err != nil || !strings.Contains(st.Reason, "did not accept") {
			t.Errorf("%+v, %v", st, err)
		}
	}
	if got := output(t, d, hog.ID, sh("echo on")); got != "on\n" {
		t.Errorf("afterwards: %q", got)
	}
	processes, err := conn.Processes(t.Context())
	if err != nil || len(processes) != 1 || processes[0].Exit != nil {
		t.Errorf("a server that is slow to accept was ended: %+v, %v", processes, err)
	}
}
