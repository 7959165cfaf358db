package local_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/testkit"
)

// Every program finds the devices that it expects, as the agent and as root.
func TestDevicesWork(t *testing.T) {
	d := open(t, t.TempDir())
	id := create(t, d, spec()).ID
	for user, as := range users {
		got := output(t, d, id, as(sh(`set -e
			echo x >/dev/null; head -c 4 /dev/zero | tr '\0' z; echo
			head -c 8 /dev/random | wc -c; head -c 8 /dev/urandom | wc -c
			dd if=/dev/zero of=/dev/full count=1 2>&1 | grep -o 'No space.*'
			echo in | cat /dev/stdin; echo out >/dev/stdout; ls /dev/fd >/dev/null; echo x >/dev/shm/mine-$$
			script -qc 'tty; echo typed >/dev/tty' /dev/null | tr -d '\r'
			stat -c '%A %U' /dev/null /dev/ptmx /dev/pts/ptmx`)))
		want := "zzzz\n8\n8\nNo space left on device\nin\nout\n/dev/pts/0\ntyped\ncrw-rw-rw- root\nlrwxrwxrwx root\ncrw-rw-rw- root\n"
		if got != want {
			t.Errorf("as %s: got %q, want %q", user, got, want)
		}
	}
	if r := run(t, d, id, asRoot(sh("mknod /dev/mem c 1 1 || cp -a /dev/null /dev/other"))); r.Code == 0 {
		t.Errorf("root inside makes a device: %+v", r)
	}
}

// A device is an inode, which can be locked and watched. Those of an instance are its own: it neither sees what others
// do with theirs nor keeps them from anything.
func TestDevicesAreEachInstancesOwn(t *testing.T) {
	testkit.Proves(t, "E3")
	d := open(t, t.TempDir())
	hog, neighbour := create(t, d, spec()).ID, create(t, d, spec()).ID
	conn, err := d.Guest(t.Context(), hog)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const nodes = "/dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty"
	seen := map[string]string{}
	for name, stat := range map[string]string{
		"hog": output(t, d, hog, sh("stat -c %d:%i "+nodes)), "neighbour": output(t, d, neighbour, sh("stat -c %d:%i "+nodes)), "the machine": hostNodes(t, nodes),
	} {
		for node := range strings.FieldsSeq(stat) {
			if other := seen[node]; other != "" && other != name {
				t.Errorf("%s and %s have the inode %s in common", name, other, node)
			}
			seen[node] = name
		}
	}
	if err := conn.Start(t.Context(), "lock", asRoot(sh("for n in "+nodes+"; do (flock $n sh -c 'echo >>/tmp/locked; exec sleep 600') & done; wait"))); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		if got := output(t, d, hog, sh("cat /tmp/locked 2>/dev/null | wc -l")); strings.TrimSpace(got) != "5" {
			return fmt.Errorf("only %s nodes are locked", got)
		}
		return nil
	})
	for node := range strings.FieldsSeq(nodes) {
		if node == "/dev/tty" {
			continue // opened only by who has a terminal
		}
		if r := run(t, d, neighbour, sh("flock -n "+node+" true")); r.Code != 0 {
			t.Errorf("%s of the neighbour is locked: %+v", node, r)
		}
		f, err := os.Open(node)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			t.Errorf("%s of this machine is locked: %v", node, err)
		}
		f.Close()
	}
}

func hostNodes(t *testing.T, nodes string) string {
	t.Helper()
	var all strings.Builder
	for node := range strings.FieldsSeq(nodes) {
		var st unix.Stat_t
		if err := unix.Stat(node, &st); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%d:%d\n", st.Dev, st.Ino)
	}
	return all.String()
}
