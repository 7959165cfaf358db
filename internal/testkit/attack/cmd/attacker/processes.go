package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hold prints "here" and then does nothing until it is killed. Other attacks use it as their target.
func hold([]string) error {
	fmt.Println("here")
	for {
		_ = unix.Pause()
	}
}

// processes prints the command lines of all processes.
func processes([]string) error {
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		data, _ := os.ReadFile(path)
		fmt.Println(strings.ReplaceAll(string(data), "\x00", " "))
	}
	return err
}

func number(args []string, n int) ([]int, error) {
	w, err := words(args, n)
	if err != nil {
		return nil, err
	}
	numbers := make([]int, n)
	for i := range w {
		if numbers[i], err = strconv.Atoi(w[i]); err != nil {
			return nil, errUsage
		}
	}
	return numbers, nil
}

// kill sends a signal to a process.
func kill(args []string) error {
	n, err := number(args, 2)
	if err != nil {
		return err
	}
	return unix.Kill(n[0], unix.Signal(n[1]))
}

// killEveryone kills all processes that it may. It succeeds if it sees the given process of the host and may kill. If
// it sees that process as root, it runs on the host itself, and succeeds without killing anything.
func killEveryone(args []string) error {
	n, err := number(args, 1)
	if err != nil {
		return err
	}
	there := func() bool { return unix.Kill(n[0], 0) != unix.ESRCH }
	if !there() {
		_ = unix.Kill(-1, unix.SIGKILL)
		return errors.New("the process is not to be seen from here")
	}
	if os.Getuid() == 0 {
		return nil
	}
	return unix.Kill(-1, unix.SIGKILL)
}

// trace attaches to a process as a debugger. The kernel detaches it when the attacker ends.
func trace(args []string) error {
	n, err := number(args, 1)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	return unix.PtraceSeize(n[0])
}

// peek reads the memory of a process.
func peek(args []string) error {
	n, err := number(args, 1)
	if err != nil {
		return err
	}
	address := uintptr(0x400000) // the usual start address of a static program
	if maps, err := os.ReadFile("/proc/" + args[0] + "/maps"); err == nil {
		first, _, _ := strings.Cut(string(maps), "-")
		if a, err := strconv.ParseUint(first, 16, 64); err == nil {
			address = uintptr(a)
		}
	}
	var buf [16]byte
	local := unix.Iovec{Base: &buf[0], Len: uint64(len(buf))}
	remote := unix.RemoteIovec{Base: address, Len: len(buf)}
	_, err = unix.ProcessVMReadv(n[0], []unix.Iovec{local}, []unix.RemoteIovec{remote}, 0)
	if err == unix.EFAULT {
		return nil // the read was permitted, but the address is not mapped
	}
	if err != nil {
		return err
	}
	fmt.Printf("%x\n", buf)
	return nil
}

// steal duplicates a file descriptor of another process.
func steal(args []string) error {
	n, err := number(args, 1)
	if err != nil {
		return err
	}
	pidfd, err := unix.PidfdOpen(n[0], 0)
	if err != nil {
		return err
	}
	why := error(unix.EBADF)
	for fd := range 32 {
		got, err := unix.PidfdGetfd(pidfd, fd, 0)
		if err == nil {
			fmt.Println(fd, "is now", got)
			return nil
		}
		why = err
	}
	return why
}

func pointer[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }
