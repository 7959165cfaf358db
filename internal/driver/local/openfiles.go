package local

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The kernel limits the open files of the whole machine (fs.file-max). A file that is only in the queue of a socket
// counts too, so limits of processes do not bound the files of an instance. Its memory does: an open file takes memory of
// the kernel that counts as the instance's. The limit of the machine is by default so low that instances reach it before
// their memory is full. New raises it.

const (
	fileMax = "/proc/sys/fs/file-max"

	// leastFileBytes is less than the memory of an open file in any kernel. It is 192 bytes or more.
	leastFileBytes = 128

	// The bounds of the limit for open files of one process.
	leastOpenFiles = 1 << 10
	mostOpenFiles  = 1 << 16
)

// noFile returns the limit for open files of each process of an instance. All processes of an instance together can have
// at most half of the machine's limit open, unless that leaves less than leastOpenFiles for each.
func noFile(processes, machine int64) uint64 {
	return uint64(min(max(machine/2/max(processes, 1), leastOpenFiles), mostOpenFiles))
}

// maxOpenFiles returns the machine's limit for open files.
func maxOpenFiles() int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(readShort("/", fileMax)), 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return n
}

// enoughOpenFiles returns a limit for open files that the machine cannot reach, because its memory is full before. It
// returns 0 if open files do not count as memory of the cgroup whose process opened them: no limit is enough then.
func enoughOpenFiles() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil || !filesTakeMemory() {
		return 0
	}
	return int64((uint64(info.Totalram) + uint64(info.Totalswap)) * uint64(info.Unit) / leastFileBytes)
}

// filesTakeMemory reports whether open files count as memory. They do unless the kernel was started with an option.
func filesTakeMemory() bool {
	options, err := os.ReadFile("/proc/cmdline")
	return err == nil && !strings.Contains(string(options), "nokmem")
}

// raiseOpenFiles raises the machine's limit for open files, so that instances reach their limits of memory before it.
func (d *Driver) raiseOpenFiles() {
	enough := enoughOpenFiles()
	if d.opts.Tier != TierRoot || maxOpenFiles() >= enough {
		return
	}
	if err := writeFile("/", fileMax, strconv.FormatInt(enough, 10)); err != nil {
		d.opts.Log.Warn("raise the machine's limit for open files", "error", err)
	}
}

// fileNotes returns a note on what bounds the open files of all instances. processes is the process limit of an instance,
// machine the limit for open files, and enough is the result of enoughOpenFiles. canRaise reports that a server can raise
// the limit.
func fileNotes(processes, machine, enough int64, canRaise bool) string {
	partial := fmt.Sprintf("limits partial: fs.file-max is %d, ", machine)
	n := int64(noFile(processes, machine)) * processes
	switch {
	case enough == 0:
		return partial + "which sandboxes can reach: this kernel does not count open files as memory (cgroup.memory=nokmem)"
	case machine >= enough:
		return fmt.Sprintf("open files: sandboxes reach their limits of memory before fs.file-max, %d", machine)
	case canRaise:
		return fmt.Sprintf("open files: fs.file-max is %d; a server raises it to %d, so that sandboxes reach their limits of memory before it", machine, enough)
	case n > machine/2:
		return partial + fmt.Sprintf("and one sandbox can have %d files open; raise it: sysctl -w fs.file-max=%d", n, enough)
	}
	return partial + fmt.Sprintf("which sandboxes can reach with files in the queues of sockets; raise it: sysctl -w fs.file-max=%d", enough)
}
