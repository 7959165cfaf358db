package boot

import (
	"syscall"
	"unsafe"

	"github.com/berthdev/berth/internal/guest/unix"
)

// identity makes this process, which so far is nobody in its namespace, the instance's root. An ordinary
// user's only user it is already.
func (w *world) identity() error {
	if w.config.Single {
		return nil
	}
	// Each of these acts on every thread.
	if err := syscall.Setgroups(nil); err != nil {
		return failed("setgroups", err)
	}
	if err := syscall.Setresgid(0, 0, 0); err != nil {
		return failed("setresgid", err)
	}
	return failed("setresuid", syscall.Setresuid(0, 0, 0))
}

// cgroups hides where in the host's tree this instance's cgroups are. Every thread must be in the new
// namespace: any of them may be the one that forks a command.
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

// setLimit never asks for more than there is: raising a limit is not ours to do.
func setLimit(resource int, value uint64) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err != nil {
		return err
	}
	value = min(value, now.Max)
	return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: value, Max: value})
}

// kept are the capabilities that remain: what package managers and servers need, and nothing that reaches
// beyond the instance's own files, processes and ports. Commands of the agent have none of them.
const kept = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID |
	1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETFCAP | 1<<unix.CAP_KILL |
	1<<unix.CAP_NET_BIND_SERVICE | 1<<unix.CAP_SYS_CHROOT

// bounds gives up privileges for good, on every thread. The bounding set stays as it is: with no new
// privileges nothing that is executed gets more than it had.
func (w *world) bounds() error {
	if err := everyThread(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return failed("no new privileges", err)
	}
	keep := uint64(kept)
	if w.config.Single {
		keep = 0 // one user is everybody, and nobody has privileges
	}
	if err := keepCaps(keep); err != nil {
		return failed("capset", err)
	}
	// Changed credentials reset this, so it comes last. Nobody inside may look at this process: its
	// descriptors lead to the host.
	return failed("dumpable", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// keepCaps leaves these capabilities, and none that are inherited. Ambient ones go with those: the kernel
// keeps no capability ambient that is not inheritable.
func keepCaps(set uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{
		{Effective: uint32(set), Permitted: uint32(set)},
		{Effective: uint32(set >> 32), Permitted: uint32(set >> 32)},
	}
	return everyThread(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0)
}
