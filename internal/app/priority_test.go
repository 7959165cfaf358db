package app_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/testkit"
)

// The server comes before what runs in its sandboxes, for processors and when memory is short, and what it starts
// inherits nothing of that.
func TestTheServerComesBeforeItsSandboxes(t *testing.T) {
	testkit.Proves(t, "E3")
	t.Parallel()
	// The server keeps a priority that it was given, so it is started with the ordinary one.
	runtime.LockOSThread()
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 0); err != nil {
		t.Fatal(err)
	}
	a := newArena(t, "")
	runtime.UnlockOSThread()
	// Where processes are grouped by session, the session's priority counts. This one may have had another before.
	if group, err := os.ReadFile("/proc/" + strconv.Itoa(a.server.cmd.Process.Pid) + "/autogroup"); err == nil && strings.HasSuffix(strings.TrimSpace(string(group)), " nice 0") {
		t.Errorf("the server's session has no priority: %s", group)
	}
	a.box("box", "")
	for _, user := range []string{"agent", "root"} {
		if got := a.sh("box", user, "nice; cat /proc/1/oom_score_adj /proc/self/oom_score_adj"); got != "0\n200\n200\n" {
			t.Errorf("nice and oom_score_adj as %s: %q", user, got)
		}
		if got := a.sh("box", user, "nice -n -5 nice 2>/dev/null; echo -1 2>/dev/null >/proc/self/oom_score_adj; cat /proc/self/oom_score_adj"); got != "0\n200\n" {
			t.Errorf("raised as %s: %q", user, got)
		}
	}
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(a.server.cmd.Process.Pid) + "/task/*")
	if err != nil || len(threads) == 0 {
		t.Fatalf("%v, %v", threads, err)
	}
	for _, thread := range threads {
		if got, ok := schedulingOf(t, filepath.Base(thread)); ok && got != (scheduling{-10, shortSlice}) {
			t.Errorf("thread %s has %+v", filepath.Base(thread), got)
		}
	}
	if got, ok := schedulingOf(t, a.guest("box")); !ok || got.nice != 0 || got.slice == shortSlice {
		t.Errorf("the sandbox has %+v, %v", got, ok)
	}
	own, err := os.ReadFile("/proc/" + strconv.Itoa(a.server.cmd.Process.Pid) + "/oom_score_adj")
	if text := strings.TrimSpace(string(own)); err != nil || text != "-500" && text != "0" { // 0 without CAP_SYS_RESOURCE
		t.Errorf("the server's oom_score_adj is %q, %v", text, err)
	}
}

// shortSlice is the time slice of the server.
const shortSlice = 100 * time.Microsecond

// scheduling is how the kernel schedules a thread.
type scheduling struct {
	nice  int32
	slice time.Duration
}

// schedulingOf reads how the kernel schedules a thread. It returns false if the thread has ended. Kernels without time
// slices of threads get shortSlice for a raised priority.
func schedulingOf(t *testing.T, id string) (scheduling, bool) {
	t.Helper()
	tid, err := strconv.Atoi(id)
	if err != nil {
		t.Fatal(err)
	}
	attr, err := unix.SchedGetAttr(tid, 0)
	if err != nil {
		return scheduling{}, false
	}
	if attr.Runtime == 0 && attr.Nice < 0 {
		attr.Runtime = uint64(shortSlice)
	}
	return scheduling{attr.Nice, time.Duration(attr.Runtime)}, true
}
