package local_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/testkit"
)

// A driver that ended while it had lowered what an instance gets leaves it so. The next one gives it its limit back.
func TestLoweredLimitsAreRestored(t *testing.T) {
	testkit.Proves(t, "E3")
	dir := t.TempDir()
	d := open(t, dir)
	hog := create(t, d, limited(driver.Limits{CPU: 2})).ID
	full := func(quota, idle string) bool { return quota == "200000" && idle == "0" }
	awaitCgroup(t, hog, "as it was made", full)
	for file, value := range map[string]string{quotaFile(): "20000", "cpu.idle": "1"} {
		if err := os.WriteFile(cgroupPath(t, hog, file), []byte(value), 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := open(t, dir).Inspect(t.Context(), hog); err != nil {
		t.Fatal(err)
	}
	awaitCgroup(t, hog, "restored by another driver", full)
}

// awaitCgroup waits until an instance's cgroup has a state.
func awaitCgroup(t *testing.T, id driver.ID, state string, is func(quota, idle string) bool) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func() error {
		quota, _, _ := strings.Cut(strings.TrimSpace(cgroupFile(t, id, quotaFile())), " ")
		idle := strings.TrimSpace(cgroupFile(t, id, "cpu.idle"))
		if !is(quota, idle) {
			return fmt.Errorf("not %s: quota %s, idle %s", state, quota, idle)
		}
		return nil
	})
}

// quotaFile is the name of the file with the CPU quota.
func quotaFile() string {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return "cpu.max" // the quota and the period
	}
	return "cpu.cfs_quota_us"
}
