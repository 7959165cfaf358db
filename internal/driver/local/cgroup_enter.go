package local

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// start calls the function start, which starts a process, so that the process begins in the cgroups. In version 1 a
// thread of the server enters the cgroups first, and the process inherits them. To move the process afterwards would
// be slow: the kernel would wait for all processors, once for each hierarchy. The function runs on a separate thread.
func (c cgroups) start(g group, sys *syscall.SysProcAttr, start func() error) error {
	if dir := g[unified]; dir != "" {
		f, err := os.Open(dir)
		if err != nil {
			return fmt.Errorf("open cgroup: %w", err)
		}
		defer f.Close()
		sys.UseCgroupFD, sys.CgroupFD = true, int(f.Fd())
	}
	if len(g) == 0 || sys.UseCgroupFD {
		return onThread(func() (back bool, err error) { return true, start() })
	}
	return onThread(func() (back bool, err error) { return c.visit(g, start) })
}

// onThread runs do on a separate thread. The thread ends after do, unless do reports that it is back in its own
// cgroups. onThread never uses the main thread of the process, which cannot end, and in whose cgroup the kernel counts
// the memory of the whole process.
func onThread(do func() (back bool, err error)) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			done <- onThread(do) // uses another thread, because this goroutine occupies the main thread
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

// visit moves this thread into the cgroups, calls do and moves the thread back. It reports whether the thread is back
// in its own cgroups.
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
