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

// atOrdinaryPriority runs do, which starts a process, with the default priority if the server has a higher one. The
// process inherits the priority of the thread. If the thread cannot get its own priority back, it stays locked to its
// goroutine and ends with it.
func atOrdinaryPriority(do func() error) error {
	runtime.LockOSThread()
	was, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil || was <= 20 { // the kernel returns 20 minus the nice value
		runtime.UnlockOSThread()
		return do()
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 0); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("lower priority: %w", err)
	}
	err = do()
	if unix.Setpriority(unix.PRIO_PROCESS, 0, 20-was) == nil {
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
