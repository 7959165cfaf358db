package local

import (
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// instanceOOM is the OOM score of instances. With it the kernel ends their processes before others when the machine runs
// out of memory.
const instanceOOM = "200"

// atOrdinaryPriority runs do, which starts a process, with the default priority if the server has a higher one, and with
// the default time slice. The process inherits both from the thread. If the thread cannot get back what it had, it stays
// locked to its goroutine and ends with it.
func atOrdinaryPriority(do func() error) error {
	runtime.LockOSThread()
	was, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		runtime.UnlockOSThread()
		return do()
	}
	ordinary := *was
	ordinary.Nice, ordinary.Runtime = max(was.Nice, 0), 0
	if err := unix.SchedSetAttr(0, &ordinary, 0); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("lower priority: %w", err)
	}
	err = do()
	if unix.SchedSetAttr(0, was, 0) == nil {
		runtime.UnlockOSThread()
	}
	return err
}

// exposeToOOM sets the OOM score of an instance's helper to instanceOOM. All processes of the instance inherit it.
func exposeToOOM(pid int, tier Tier) error {
	err := writeFile("/proc/"+strconv.Itoa(pid), "oom_score_adj", instanceOOM)
	if err != nil && os.IsPermission(err) && tier != TierRoot {
		return nil // some containers forbid it for processes of other users; the score is then that of the server
	}
	return err
}
