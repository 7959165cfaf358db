package local_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/drivertest"
	"github.com/berthdev/berth/internal/driver/local"
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
	user := func(o *local.Options) { o.Tier = local.TierUser }
	dirs := map[driver.Driver]string{}
	drivertest.Run(t, drivertest.Harness{
		New: func(t *testing.T) driver.Driver {
			dir := t.TempDir()
			d := open(t, dir, user)
			dirs[d] = dir
			return d
		},
		Reopen:   func(t *testing.T, d driver.Driver) driver.Driver { return open(t, dirs[d], user) },
		Patience: 30 * time.Second,
	})
}
