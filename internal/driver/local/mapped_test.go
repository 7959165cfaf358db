package local_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/testkit"
)

// mappedUser is an ordinary user with subordinate ids. It exists in the tests' own mount namespace only.
const mappedUser = 65532

// inNamespace has a command run in cgroups and in a user namespace with the subordinate ids of its user, as rootless
// containers do.
func inNamespace(t *testing.T, cgroups ...string) func(*exec.Cmd) {
	t.Helper()
	etc := t.TempDir()
	for name, line := range map[string]string{
		"passwd": fmt.Sprintf("berthtest:x:%d:%d::/nonexistent:/bin/sh\n", mappedUser, mappedUser),
		"group":  fmt.Sprintf("berthtest:x:%d:\n", mappedUser),
		"subuid": "berthtest:1500000000:65536\n",
		"subgid": "berthtest:1500000000:65536\n",
	} {
		old, err := os.ReadFile("/etc/" + name)
		if err == nil {
			err = os.WriteFile(filepath.Join(etc, name), append(old, line...), 0o644)
		}
		if err != nil {
			t.Fatalf("is the package uidmap installed? %v", err)
		}
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = self.Close() })
	script := fmt.Sprintf(`for d in %s; do echo $$ > $d/cgroup.procs || exit 9; done
		for f in passwd group subuid subgid; do mount --bind %s/$f /etc/$f || exit 9; done
		exec setpriv --reuid %d --regid %d --clear-groups unshare --map-root-user --map-auto /proc/self/fd/3 "$@"`, strings.Join(cgroups, " "), etc, mappedUser, mappedUser)
	return func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args = "/usr/bin/unshare", append([]string{"unshare", "--mount", "sh", "-c", script, "sh"}, cmd.Args[1:]...)
		cmd.ExtraFiles, cmd.SysProcAttr = []*os.File{self}, nil
		cmd.Env = append(cmd.Env, tierEnv+"="+string(local.TierMapped))
	}
}

// tierEnv is the tier of the drivers in such a process.
const tierEnv = "BERTH_LOCAL_TEST_TIER"

// With subordinate ids an ordinary user's instances pass the same suite.
func TestDriverPassesSuiteWithSubordinateIDs(t *testing.T) {
	testkit.Proves(t, "E3")
	if !inUser() {
		asUser(t, mappedUser, "TestDriverPassesSuiteWithSubordinateIDs", inNamespace(t))
		return
	}
	passesSuite(t)
}

// The helper and the walls of an instance hold with subordinate ids, too.
func TestIsolationWithSubordinateIDs(t *testing.T) {
	testkit.Proves(t, "E3")
	if !inUser() {
		asUser(t, mappedUser, "TestIsolationWithSubordinateIDs", inNamespace(t))
		return
	}
	for name, test := range map[string]func(*testing.T){
		"guest": TestGuestPassesSuite, "host": TestNothingOfTheHostIsShown, "helper": TestHelperIsOutOfReach,
		"signals": TestRootsSignalsNeverEndTheHelper, "privileges": TestPrivilegesAreBounded,
		"threads": TestEveryThreadOfTheHelperIsBounded, "calls": TestForbiddenCallsAreRefused,
		"services": TestHostsServicesAreOutOfReach, "apart": TestInstancesAreApart, "links": TestLinksLeftBehindAreNotFollowed,
		"replaced": TestReplacedDirectoriesAreMadeAgain, "mounts": TestMountsAreReadOnly,
	} {
		t.Run(name, test)
	}
}

// With subordinate ids an instance has a root: its files are kept from the agent, and the server reads and removes them.
func TestSubordinateIDsMakeRoot(t *testing.T) {
	testkit.Proves(t, "E3")
	if !inUser() {
		asUser(t, mappedUser, "TestSubordinateIDsMakeRoot", inNamespace(t))
		return
	}
	dir := t.TempDir()
	report, err := local.Probe(t.Context(), local.Options{Dir: dir, Exe: helper})
	if err != nil || report.Tier != local.TierMapped {
		t.Fatalf("%+v, %v", report, err)
	}
	d := open(t, dir)
	id := create(t, d, spec()).ID
	const make = `id -u; umask 077; mkdir -p /workspace/d/e; echo secret >/workspace/d/e/f; echo x >/etc/made; chown 33:33 /etc/made; stat -c %u /etc/made; su -s /bin/sh agent -c 'id -u' 2>/dev/null || setpriv --reuid 1000 id -u`
	if got := output(t, d, id, asRoot(sh(make))); got != "0\n33\n1000\n" {
		t.Errorf("root inside: %q", got)
	}
	if r := run(t, d, id, sh("id -u; echo mine >/workspace/mine; cat /workspace/d/e/f")); r.Out != "1000\n" || !strings.Contains(r.Err, "Permission denied") {
		t.Errorf("the agent: %+v", r)
	}
	for _, running := range []bool{true, false} {
		if !running {
			if err := d.Stop(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		if got := content(t, d, id, "d/e/f"); got != "secret\n" {
			t.Errorf("running %v: the server reads %q", running, got)
		}
	}
	if err := d.Destroy(t.Context(), id); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		if left, err := filepath.Glob(filepath.Join(dir, "*-1")); err != nil || len(left) > 0 {
			return fmt.Errorf("left %v, %v", left, err)
		}
		if left, err := filepath.Glob(filepath.Join(dir, ".trash", "*")); err != nil || len(left) > 0 {
			return fmt.Errorf("left %v, %v", left, err)
		}
		return nil
	})
}

// Subordinate ids and delegated cgroups go together: root inside, with limits.
func TestDelegatedCgroupsWithSubordinateIDs(t *testing.T) {
	testkit.Proves(t, "E3")
	if !inUser() {
		asUser(t, mappedUser, "TestDelegatedCgroupsWithSubordinateIDs", inNamespace(t, delegated(t, mappedUser)...))
		return
	}
	d := open(t, t.TempDir())
	if left := d.Unlimited(); len(left) > 0 {
		t.Errorf("not limited: %v", left)
	}
	id := create(t, d, limited(driver.Limits{MemoryBytes: 64 << 20, Processes: 64})).ID
	if r := run(t, d, id, asRoot(sh("id -u; head -c 400m /dev/zero | tail >/dev/null; echo ended with $?"))); r.Out != "0\nended with 137\n" {
		t.Errorf("400 MiB as root under a limit of 64: %+v", r)
	}
	if err := d.Destroy(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// A server without the subordinate ids says what it needs for an instance that was made with them.
func TestFilesOfSubordinateIDsAreNamed(t *testing.T) {
	if !inUser() {
		asUser(t, mappedUser, "TestFilesOfSubordinateIDsAreNamed")
		return
	}
	dir := t.TempDir()
	d := open(t, dir, func(o *local.Options) { o.Tier = local.TierUser })
	id := create(t, d, spec()).ID
	if err := d.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	spools := filepath.Join(dir, string(id), "spool")
	if err := os.Chmod(spools, 0o500); err != nil { // as if it were another's
		t.Fatal(err)
	}
	_, err := d.Start(t.Context(), id)
	if err == nil || !strings.Contains(err.Error(), "subordinate ids") {
		t.Errorf("started: %v", err)
	}
	if err := os.Chmod(spools, 0o700); err != nil {
		t.Fatal(err)
	}
}

// content reads a file of an instance's working directory.
func content(t *testing.T, d *local.Driver, id driver.ID, path string) string {
	t.Helper()
	root, err := d.Files(t.Context(), id, files.WorkingDir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	f, err := root.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
