package pid1

import (
	"syscall"
	"unsafe"

	"github.com/berthdev/berth/internal/guest/unix"
)

// identity changes the uid of this process to 0 in the instance's user namespace. With a single mapped uid there is
// nothing to change.
func (w *world) identity() error {
	if w.config.Single {
		return nil
	}
	// Each of these calls changes every thread.
	if err := syscall.Setgroups(nil); err != nil {
		return failed("setgroups", err)
	}
	if err := syscall.Setresgid(0, 0, 0); err != nil {
		return failed("setresgid", err)
	}
	return failed("setresuid", syscall.Setresuid(0, 0, 0))
}

// cgroups enters a new cgroup namespace. It hides the path of the instance's cgroup on the host. Every thread must
// enter it: any thread may fork a command.
func (w *world) cgroups() error {
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return err
	}
	fd, err := unix.Open("/proc/thread-self/ns/cgroup", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return everyThread(unix.SYS_SETNS, uintptr(fd), unix.CLONE_NEWCGROUP, 0)
}

func everyThread(call, a, b, c uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall(call, a, b, c); errno != 0 {
		return errno
	}
	return nil
}

func (w *world) limits() error {
	l := w.config.Limits
	for _, r := range []struct {
		resource int
		value    uint64
	}{
		{unix.RLIMIT_FSIZE, l.FileSize}, {unix.RLIMIT_NOFILE, l.NoFile}, {unix.RLIMIT_NPROC, l.Processes},
		{unix.RLIMIT_SIGPENDING, maxPending}, {unix.RLIMIT_MSGQUEUE, maxQueues},
	} {
		if r.value == 0 {
			continue
		}
		if err := setLimit(r.resource, r.value); err != nil {
			return err
		}
	}
	return syscall.Setrlimit(unix.RLIMIT_CORE, &syscall.Rlimit{})
}

// setLimit sets the soft and hard limit to value, or to the current hard limit if that is lower: the helper may not
// raise a hard limit.
func setLimit(resource int, value uint64) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err != nil {
		return err
	}
	value = min(value, now.Max)
	return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: value, Max: value})
}

// kept is the set of capabilities that remain. Package managers and servers need them, and they affect only the
// instance's files, processes and ports. Commands of the agent have none of them.
const kept = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID |
	1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETFCAP | 1<<unix.CAP_KILL |
	1<<unix.CAP_NET_BIND_SERVICE | 1<<unix.CAP_SYS_CHROOT

// bounds drops privileges for good, on every thread. It does not change the capability bounding set: with
// no_new_privs, execve grants no capabilities.
func (w *world) bounds() error {
	if err := everyThread(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return failed("no new privileges", err)
	}
	keep := uint64(kept)
	if w.config.Single {
		keep = 0 // there is one user, without privileges
	}
	if err := keepCaps(keep); err != nil {
		return failed("capset", err)
	}
	// This comes last because a change of credentials resets the flag. No process inside may inspect this one: its
	// descriptors lead to the host.
	return failed("dumpable", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// keepCaps drops all capabilities but set, and all inheritable ones. This also drops the ambient capabilities: the
// kernel keeps only inheritable ones ambient.
func keepCaps(set uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{
		{Effective: uint32(set), Permitted: uint32(set)},
		{Effective: uint32(set >> 32), Permitted: uint32(set >> 32)},
	}
	return everyThread(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0)
}
