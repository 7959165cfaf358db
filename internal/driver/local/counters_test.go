package local_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/testkit"
)

// The kernel charges what an instance uses to the owner of its user namespace. That is a user of its own, and
// every thread of the server is root afterwards.
func TestUserNamespaceBelongsToTheInstance(t *testing.T) {
	testkit.Proves(t, "E3")
	d := open(t, t.TempDir())
	for range 8 {
		id := create(t, d, spec()).ID
		proc := "/proc/" + strconv.Itoa(firstProcess(t, d, id))
		uids, err := os.ReadFile(proc + "/uid_map")
		if err != nil {
			t.Fatal(err)
		}
		space, err := os.Open(proc + "/ns/user")
		if err != nil {
			t.Fatal(err)
		}
		owner, err := unix.IoctlGetUint32(int(space.Fd()), unix.NS_GET_OWNER_UID)
		space.Close()
		if want := strings.Fields(string(uids))[1]; err != nil || strconv.Itoa(int(owner)) != want {
			t.Errorf("the user namespace belongs to %d, not %s: %v", owner, want, err)
		}
	}
	threads, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(threads) < 2 {
		t.Fatalf("threads %v, %v", threads, err)
	}
	for _, path := range threads {
		status, err := os.ReadFile(path)
		if err == nil && !strings.Contains(string(status), "Uid:\t0\t0\t0\t0\n") {
			t.Errorf("%s is not root's:\n%s", path, status)
		}
	}
}

// The helper's program need not be for everybody.
func TestProgramOfRootAloneBecomesTheHelper(t *testing.T) {
	program, err := os.ReadFile(helper)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "helper")
	if err := os.WriteFile(path, program, 0o700); err != nil {
		t.Fatal(err)
	}
	d := open(t, t.TempDir(), func(o *local.Options) { o.Exe = path })
	id := create(t, d, spec()).ID
	if got := output(t, d, id, sh("echo on; readlink /proc/self/exe")); !strings.HasPrefix(got, "on\n") {
		t.Errorf("got %q", got)
	}
}

// The directory of instances is closed to other users, also if it was not before.
func TestDirectoryIsClosedToOthers(t *testing.T) {
	testkit.Proves(t, "E3")
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// Namespaces cannot be made inside even where the filter of system calls would let one pass.
func TestKernelLimitsOfTheNamespaces(t *testing.T) {
	testkit.Proves(t, "E3")
	d := open(t, t.TempDir())
	id := create(t, d, spec()).ID
	for path, want := range map[string]string{
		"user/max_user_namespaces": "0", "user/max_net_namespaces": "0", "user/max_mnt_namespaces": "0", "user/max_fanotify_groups": "0",
		"user/max_inotify_watches": "65536", "net/ipv4/tcp_rmem": "4096\t131072\t1048576", "net/core/optmem_max": "20480",
	} {
		if got := strings.TrimSpace(output(t, d, id, asRoot(sh("cat /proc/sys/"+path)))); got != want {
			t.Errorf("%s is %q, not %q", path, got, want)
		}
		if r := run(t, d, id, asRoot(sh("echo 1000 >/proc/sys/"+path))); r.Code == 0 {
			t.Errorf("root inside changes %s", path)
		}
	}
	if r := run(t, d, id, asRoot(sh("ulimit -H -n $(($(ulimit -H -n) + 1))"))); r.Code == 0 {
		t.Error("root inside raises how many files a process may open")
	}
}
