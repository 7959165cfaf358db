package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// counters lists resources that the kernel counts for each user or for the whole machine. Each function takes the
// i-th resource of its kind and keeps it.
var counters = map[string]func(i int) error{
	"instances": func(int) error { _, err := unix.InotifyInit1(0); return err },
	"watches":   takeWatch,
	"terminals": func(int) error { _, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0); return err },
	"timers":    takeTimer,
	"queues":    takeQueue,
	"requests":  takeRequests,
}

// take takes the given number of resources of a kind. With 0 it takes as many as it gets, and then keeps them until it
// is killed.
func take(args []string) error {
	w, err := words(args, 2)
	if err != nil || counters[w[0]] == nil {
		return errUsage
	}
	n, err := number(w[1:], 1)
	if err != nil {
		return err
	}
	for i := 0; n[0] == 0 || i < n[0]; i++ {
		if err := counters[w[0]](i); err != nil {
			fmt.Printf("took %d: %v\n", i, err)
			if n[0] == 0 {
				return hold(nil)
			}
			return fmt.Errorf("after %d: %w", i, err)
		}
	}
	return nil
}

// watched is the number of empty directories. Each inotify instance watches all of them.
const watched = 2048

var watching struct {
	fd  int
	dir string
}

// takeWatch adds an inotify watch. It puts many watches on each inotify instance, because the number of instances is
// small.
func takeWatch(i int) (err error) {
	if i == 0 {
		if watching.dir, err = os.MkdirTemp("/tmp", "watched-"); err != nil {
			return err
		}
	}
	if i < watched {
		if err := os.Mkdir(filepath.Join(watching.dir, strconv.Itoa(i)), 0o755); err != nil {
			return err
		}
	}
	if i%watched == 0 {
		if watching.fd, err = unix.InotifyInit1(0); err != nil {
			return err
		}
	}
	_, err = unix.InotifyAddWatch(watching.fd, filepath.Join(watching.dir, strconv.Itoa(i%watched)), unix.IN_DELETE)
	return err
}

// takeTimer makes a timer. The kernel counts it as a pending signal.
func takeTimer(int) error {
	var id int32
	return rawSyscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, 0, pointer(&id))
}

// takeQueue makes a message queue without a name.
func takeQueue(i int) error {
	name, err := unix.BytePtrFromString(fmt.Sprintf("berth-attack-%d-%d", os.Getpid(), i))
	if err != nil {
		return err
	}
	_, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return rawSyscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name)), 0, 0) // the queue exists until its descriptor is closed
}

// takeRequests makes a context for 500 asynchronous I/O requests.
func takeRequests(int) error {
	var context uint64
	return rawSyscall(unix.SYS_IO_SETUP, 500, pointer(&context), 0)
}
