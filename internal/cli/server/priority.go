package server

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// The priority of the server. The driver starts sandboxes with the default priority.
const (
	serverNice  = -10
	serverOOM   = "-500"
	serverSlice = 100 * time.Microsecond // the shortest that the kernel has
)

// raisePriority gives the server precedence over the processes of its sandboxes, for processor time and when memory
// runs out, if its user has the permission. It does not change a priority that was set before.
//
// The caller must call restore when the server ends.
func raisePriority() (restore func()) {
	restore = func() {}
	const ordinary = 20 // the kernel's value for nice 0
	if now, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil && now == ordinary {
		raiseThreads(serverNice, serverSlice)
		restore = raiseSession(serverNice)
	}
	const file = "/proc/self/oom_score_adj"
	if now, err := os.ReadFile(file); err == nil && string(bytes.TrimSpace(now)) == "0" {
		_ = os.WriteFile(file, []byte(serverOOM), 0)
	}
	return restore
}

// raiseThreads sets the priority and the time slice of every thread. A thread that wakes up interrupts one with a longer
// slice at once; otherwise it may wait for the next tick of the clock, 4 ms or more. Linux before 6.12 ignores the slice.
//
// A new thread inherits both from the thread that created it, so raiseThreads lists the threads again until there is no
// new one.
func raiseThreads(nice int, slice time.Duration) {
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Nice: int32(nice), Runtime: uint64(slice)}
	seen := map[string]bool{}
	for again := true; again; {
		again = false
		tasks, _ := filepath.Glob("/proc/self/task/*")
		for _, task := range tasks {
			tid, err := strconv.Atoi(filepath.Base(task))
			if err != nil || seen[task] {
				continue
			}
			seen[task], again = true, true
			err = unix.SchedSetAttr(tid, &attr, 0)
			if err == unix.EACCES || err == unix.EPERM {
				attr.Nice = 0 // an ordinary user may set the slice only
				_ = unix.SchedSetAttr(tid, &attr, 0)
			}
		}
	}
}

// raiseSession sets the priority of the server's session. If the kernel groups processes by session (autogroup), a
// thread's own priority counts only among the threads of its session, and the server as a whole would have the same
// priority as any other program. A priority that was set before stays. restore resets the priority, because the session
// of a terminal outlives the server.
func raiseSession(nice int) (restore func()) {
	const file = "/proc/self/autogroup" // content: "/autogroup-17 nice 0"
	now, err := os.ReadFile(file)
	if err != nil || !bytes.HasSuffix(bytes.TrimSpace(now), []byte(" nice 0")) {
		return func() {}
	}
	_ = os.WriteFile(file, []byte(strconv.Itoa(nice)), 0)
	return func() { _ = os.WriteFile(file, []byte("0"), 0) }
}
