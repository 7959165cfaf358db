package local

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// start starts a process that is in the cgroups from its first moment. Moving a process there afterwards
// would make the kernel wait for all processors, once for each hierarchy of version 1; a thread that moves
// itself costs nothing, and what it starts is where it is.
func (c cgroups) start(g group, sys *syscall.SysProcAttr, start func() error) error {
	if dir := g[unified]; dir != "" {
		f, err := os.Open(dir)
		if err != nil {
			return fmt.Errorf("open cgroup: %w", err)
		}
		defer f.Close()
		sys.UseCgroupFD, sys.CgroupFD = true, int(f.Fd())
		return start()
	}
	if len(g) == 0 {
		return start()
	}
	return onThread(func() (back bool, err error) { return c.visit(g, start) })
}

// onThread runs do on a thread of its own, which ends with it unless do brought it back to where it was.
// It is never the process's first: that one cannot end, and all of the process's memory is counted where
// it is.
func onThread(do func() (back bool, err error)) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			done <- onThread(do) // elsewhere: this thread is taken
			runtime.UnlockOSThread()
			return
		}
		back, err := do()
		done <- err
		if back {
			runtime.UnlockOSThread()
		}
	}()
	return <-done
}

// visit does something in the cgroups and returns to this thread's own, if it can.
func (c cgroups) visit(g group, do func() error) (back bool, err error) {
	own, err := ownCgroups("/proc/thread-self/cgroup")
	if err != nil {
		return true, err
	}
	for _, dir := range g {
		if err = writeFile(dir, "tasks", "0"); err != nil {
			err = fmt.Errorf("enter cgroup: %w", err)
			break
		}
	}
	if err == nil {
		err = do()
	}
	for controller := range g {
		dir := filepath.Join(c[controller].mount, c[controller].relative(own[controller]))
		if writeFile(dir, "tasks", "0") != nil {
			return false, err
		}
	}
	return true, err
}
