package app_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

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
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(a.server.cmd.Process.Pid) + "/task/*/stat")
	if err != nil || len(tasks) == 0 {
		t.Fatalf("%v, %v", tasks, err)
	}
	for _, task := range tasks {
		data, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
		if nice := fields[16]; nice != "-10" {
			t.Errorf("thread %s has a nice value of %s", filepath.Base(filepath.Dir(task)), nice)
		}
	}
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
	own, err := os.ReadFile("/proc/" + strconv.Itoa(a.server.cmd.Process.Pid) + "/oom_score_adj")
	if text := strings.TrimSpace(string(own)); err != nil || text != "-500" && text != "0" { // 0 without CAP_SYS_RESOURCE
		t.Errorf("the server's oom_score_adj is %q, %v", text, err)
	}
}
