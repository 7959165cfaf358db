package main

import (
	"crypto/x509"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/egress/gateway"
)

// fdSocket is the descriptor of the listening socket with which the process is started.
const fdSocket = 3

// unprivileged is the user and group that the process of root takes. It needs no file and no right but to connect.
const unprivileged = 65534

// egress serves the ways out of sandboxes until they are not needed any more, and returns the exit code.
func egress() int {
	owner := os.Geteuid()
	err := closeInherited(fdSocket + 1)
	unix.CloseOnExec(fdSocket)
	socket := os.NewFile(fdSocket, "socket")
	if err == nil {
		err = dropRights()
	}
	if err == nil {
		err = gateway.Serve(socket, owner)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "berth-egress:", err)
		return 1
	}
	return 0
}

// closeInherited closes the descriptors from a number on that this process did not open itself: the server may have
// inherited some that its children inherit, too. The runtime opens its own ones with close-on-exec.
func closeInherited(from int) error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("close inherited files: %w", err)
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < from {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
	return nil
}

// dropRights reads the files that the process needs and gives up all rights.
func dropRights() error {
	raiseSession()
	_, _ = x509.SystemCertPool() // the files may be readable for the server's user only; crypto/x509 keeps the result
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return fmt.Errorf("limit core dumps: %w", err)
	}
	if os.Geteuid() == 0 && ownsMachine() {
		for _, change := range []func() error{
			func() error { return syscall.Setgroups(nil) },
			func() error { return syscall.Setresgid(unprivileged, unprivileged, unprivileged) },
			func() error { return syscall.Setresuid(unprivileged, unprivileged, unprivileged) },
		} {
			// A root without the right to change has no more than its files once the capabilities are gone.
			if err := change(); err != nil && err != syscall.EPERM {
				return fmt.Errorf("become an ordinary user: %w", err)
			}
		}
	}
	return dropCapabilities()
}

// raiseSession gives the new session of the process the priority that it has from the server, where the kernel groups
// processes by session.
func raiseSession() {
	const zero = 20 // the kernel's value for nice 0
	if now, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil && now > zero {
		_ = os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(zero-now)), 0)
	}
}

// ownsMachine reports whether root here is root of the machine. In a user namespace, the ids below belong to sandboxes.
func ownsMachine() bool {
	var inside, outside, n uint64
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	_, err = fmt.Sscan(string(text), &inside, &outside, &n)
	return err == nil && inside == 0 && outside == 0 && n >= 1<<32-1
}

// dropCapabilities drops all capabilities on every thread, for good, and keeps other processes from looking into this
// one.
func dropCapabilities() error {
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("set no_new_privs: %w", errno)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0)
	if errno != 0 {
		return fmt.Errorf("drop capabilities: %w", errno)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("prevent tracing: %w", err)
	}
	return nil
}
