package local_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/testkit"
)

// asUserEnv tells another process of this test binary that it is an ordinary user, and where its files go.
const (
	asUserEnv = "BERTH_LOCAL_TEST_DIR"
	helperEnv = "BERTH_LOCAL_TEST_HELPER"
)

// asUser runs one test of this binary in a process of an ordinary user.
func asUser(t *testing.T, uid uint32, test string, change ...func(*exec.Cmd)) {
	t.Helper()
	dir, err := os.MkdirTemp("", "berth-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, int(uid), int(uid)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+test+"$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), asUserEnv+"="+dir, helperEnv+"="+helper, "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	for _, c := range change {
		c(cmd)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "--- PASS: "+test) {
		t.Fatalf("as uid %d: %v\n%s", uid, err, out.String())
	}
	t.Log(out.String())
}

// inUser says whether this is such a process.
func inUser() bool { return os.Getenv(asUserEnv) != "" }

// An ordinary user gets instances, too.
func TestDriverPassesSuiteAsUser(t *testing.T) {
	if !inUser() {
		asUser(t, 65534, "TestDriverPassesSuiteAsUser")
		return
	}
	passesSuite(t, func(o *local.Options) { o.Tier = local.TierUser })
}

// Where cgroups are delegated to an ordinary user, its instances have limits of memory, processors and processes.
func TestDelegatedCgroupsLimitAUsersInstances(t *testing.T) {
	const uid = 65533
	if !inUser() {
		dirs := delegated(t, uid)
		asUser(t, uid, "TestDelegatedCgroupsLimitAUsersInstances", enterFirst(t, uid, dirs))
		return
	}
	d := open(t, t.TempDir(), func(o *local.Options) { o.Tier = local.TierUser })
	if left := d.Unlimited(); len(left) > 0 || strings.Contains(d.Report(), "NOT LIMITED") {
		t.Errorf("not limited: %v; %s", left, d.Report())
	}
	id := create(t, d, limited(driver.Limits{MemoryBytes: 64 << 20, Processes: 64})).ID
	r := run(t, d, id, sh("head -c 400m /dev/zero | tail >/dev/null; echo ended with $?"))
	if !strings.Contains(r.Out, "ended with 137") {
		t.Errorf("400 MiB under a limit of 64: %+v", r)
	}
	if err := d.Destroy(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// delegated makes a cgroup in each hierarchy of version 1 that belongs to an ordinary user, until the test ends.
func delegated(t *testing.T, uid int) (dirs []string) {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(own)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		for _, controller := range []string{"cpu", "memory", "pids", "freezer"} {
			if !slices.Contains(strings.Split(fields[1], ","), controller) {
				continue
			}
			dir, err := os.MkdirTemp(filepath.Join("/sys/fs/cgroup", controller, fields[2]), "berth-user-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				testkit.Eventually(t, 30*time.Second, func() error { return os.Remove(dir) })
			})
			for _, path := range []string{dir, dir + "/tasks", dir + "/cgroup.procs"} {
				if err := os.Chown(path, uid, uid); err != nil {
					t.Fatal(err)
				}
			}
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) != 4 {
		t.Fatalf("this machine has no cgroups of version 1 to delegate: %v", dirs)
	}
	return dirs
}

// enterFirst has a command enter cgroups before it becomes an ordinary user.
func enterFirst(t *testing.T, uid int, dirs []string) func(*exec.Cmd) {
	t.Helper()
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = self.Close() })
	script := fmt.Sprintf(`for d in %s; do echo $$ > $d/cgroup.procs || exit 9; done
		exec setpriv --reuid %d --regid %d --clear-groups /proc/self/fd/3 "$@"`, strings.Join(dirs, " "), uid, uid)
	return func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", script, "sh"}, cmd.Args[1:]...)
		cmd.ExtraFiles, cmd.SysProcAttr = []*os.File{self}, nil
	}
}
