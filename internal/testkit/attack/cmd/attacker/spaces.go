package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// spaceFlags holds the clone flag of each kind of namespace.
var spaceFlags = map[string]uintptr{
	"user": unix.CLONE_NEWUSER, "mnt": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "net": unix.CLONE_NEWNET,
	"ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP, "time": unix.CLONE_NEWTIME,
}

func flagsOf(kinds []string) (flags uintptr, err error) {
	for _, kind := range kinds {
		if spaceFlags[kind] == 0 {
			return 0, errUsage
		}
		flags |= spaceFlags[kind]
	}
	return flags, nil
}

// clone starts a process in new namespaces.
func clone(args []string) error {
	flags, err := flagsOf(args)
	if err != nil {
		return err
	}
	return spawn(&syscall.SysProcAttr{Cloneflags: flags})
}

// unshare starts a process that moves itself into new namespaces.
func unshare(args []string) error {
	flags, err := flagsOf(args)
	if err != nil {
		return err
	}
	return spawn(&syscall.SysProcAttr{Unshareflags: flags})
}

func spawn(sys *syscall.SysProcAttr) error {
	cmd := exec.Command("/proc/self/exe", "nothing")
	cmd.SysProcAttr = sys
	return cmd.Run()
}

// clone3 starts a process in new namespaces with the newer system call. A seccomp filter cannot read its flags.
func clone3(args []string) error {
	flags, err := flagsOf(args)
	if err != nil {
		return err
	}
	call := struct {
		flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls uint64
	}{flags: uint64(flags), exitSignal: uint64(unix.SIGCHLD)}
	pid, _, errno := syscall.RawSyscall(unix.SYS_CLONE3, pointer(&call), 64, 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	_, err = unix.Wait4(int(pid), nil, 0, nil)
	return err
}

// setns enters the namespace of the given kind and file. It may be the process's present namespace.
func setns(args []string) error {
	w, err := words(args, 2)
	if err != nil {
		return err
	}
	fd, err := unix.Open(w[1], unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return unix.Setns(fd, int(spaceFlags[w[0]]))
}

// mount mounts a file system on a directory, or bind-mounts another directory there.
func mount(args []string) error {
	w, err := words(args, 3)
	if err != nil {
		return err
	}
	if w[0] == "bind" {
		return unix.Mount(w[1], w[2], "", unix.MS_BIND, "")
	}
	return unix.Mount(w[1], w[2], w[0], 0, "")
}

// unmount removes the mount at a path.
func unmount(args []string) error {
	w, err := words(args, 1)
	if err != nil {
		return err
	}
	return unix.Unmount(w[0], unix.MNT_DETACH)
}

// releaseAgent mounts a cgroup hierarchy of version 1 and writes release_agent, the program that the host runs when a
// cgroup becomes empty. It writes the value that the file already has.
func releaseAgent(args []string) error {
	w, err := words(args, 1)
	if err != nil {
		return err
	}
	if err := unix.Mount("cgroup", w[0], "cgroup", 0, "memory"); err != nil {
		return err
	}
	agent := filepath.Join(w[0], "release_agent")
	data, err := os.ReadFile(agent)
	if err != nil {
		return err
	}
	fmt.Printf("%q\n", data)
	return os.WriteFile(agent, data, 0)
}
