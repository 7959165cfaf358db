package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The attacks in this file keep a resource of the machine busy for the given number of seconds, so that other
// processes have to wait for it. They print "here" after the start.

// repeatFor calls do repeatedly in n goroutines until the seconds are over or do fails.
func repeatFor(seconds, n int, do func(i int) error) error {
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	failed := make(chan error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for time.Now().Before(end) {
				if err := do(i); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	fmt.Println("here")
	all.Wait()
	close(failed)
	return <-failed
}

// bomb runs a fork bomb for the given number of seconds. Its processes end by themselves.
func bomb(args []string) error {
	n, err := number(args, 1)
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGCHLD) // the kernel then reaps the children
	runtime.LockOSThread()
	end := time.Now().Add(time.Duration(n[0]) * time.Second)
	if pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0); errno != 0 {
		return errno
	} else if pid == 0 {
		explode(end.Unix())
	}
	fmt.Println("here")
	time.Sleep(time.Until(end))
	return nil
}

// explode forks until the end time. One child in four does the same, the others end at once. It uses only raw system
// calls, because Go's runtime does not work in a forked process.
func explode(end int64) {
	for i := 0; ; i++ {
		pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		child := errno == 0 && pid == 0
		if child && i%4 != 0 || i%64 == 0 && isOver(end) {
			for {
				syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
			}
		}
	}
}

func isOver(end int64) bool {
	var now syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, unix.CLOCK_REALTIME, uintptr(unsafe.Pointer(&now)), 0)
	return now.Sec >= end
}

// storm writes and syncs files for the given number of seconds: 12 goroutines write small files, and 8 write files of
// 16 MiB. The files never take more than 130 MiB at once.
func storm(args []string) error {
	what, n, err := wordAndNumber(args)
	if err != nil {
		return err
	}
	small, large := make([]byte, 4096), make([]byte, mebibyte)
	return repeatFor(n, 20, func(i int) error {
		block, blocks, times := small, 1, 8
		if i < 8 {
			block, blocks, times = large, 16, 1
		}
		path := filepath.Join(what, fmt.Sprintf("storm-%d", i))
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		defer f.Close()
		for range times {
			for range blocks {
				if _, err := f.Write(block); err != nil {
					return err
				}
			}
			if err := f.Sync(); err != nil {
				return err
			}
		}
		return os.Remove(path)
	})
}

// spin keeps the given number of threads busy for the given number of seconds.
func spin(args []string) error {
	n, err := number(args, 2)
	if err != nil {
		return err
	}
	return repeatFor(n[1], n[0], func(int) error { return nil })
}

// flood writes to standard output for the given number of seconds, as fast as it is read.
func flood(args []string) error {
	n, err := number(args, 1)
	if err != nil {
		return err
	}
	block := make([]byte, 64<<10)
	for i := range block {
		block[i] = "flood of output\n"[i%16]
	}
	return repeatFor(n[0], 1, func(int) error {
		_, err := os.Stdout.Write(block)
		return err
	})
}
