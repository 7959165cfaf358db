package pid1

import (
	"syscall"
	"time"
	"unsafe"

	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// child is a process that the helper forked and has not reaped yet.
type child struct {
	pid  int
	done func(*wire.Exit) // called once by reap, which holds the server's lock
}

// fork starts a command. It holds the lock until the child is in s.children, so that reap finds it there. If the
// command cannot be run, fork returns an exit with the reason and does not call done.
func (s *server) fork(cmd *command, files [3]int, done func(*wire.Exit)) (*child, *wire.Exit) {
	defer cmd.close()
	attr := syscall.ProcAttr{
		Dir: "/proc/self/fd/" + digits(cmd.dirFD), Env: cmd.env, Sys: &cmd.sys,
		Files: []uintptr{uintptr(files[0]), uintptr(files[1]), uintptr(files[2])},
	}
	s.mu.Lock()
	pid, err := syscall.ForkExec(cmd.path, cmd.argv, &attr)
	if err != nil {
		s.mu.Unlock()
		return nil, refusal(codeOf(err), cmd.argv[0], err)
	}
	c := &child{pid: pid, done: done}
	s.children[pid] = c
	s.mu.Unlock()
	select {
	case s.forked <- struct{}{}:
	default:
	}
	return c, nil
}

// reap reaps the children of the helper, also orphans that the kernel gave to it, until forked is closed. It reaps only
// with the lock: while another function holds the lock, no pid is reused.
func (s *server) reap() {
	for {
		pid, err := waitAny()
		if err != nil { // there are no children
			if _, ok := <-s.forked; !ok {
				return
			}
			continue
		}
		s.mu.Lock()
		exit, err := collect(pid)
		if c := s.children[pid]; c != nil && err == nil {
			delete(s.children, pid)
			c.done(exit)
		}
		s.mu.Unlock()
	}
}

// waitAny waits until a child has ended, and does not reap it.
func waitAny() (pid int, err error) {
	var info [128]byte // struct siginfo
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, unix.P_ALL, 0, uintptr(unsafe.Pointer(&info)),
			unix.WEXITED|unix.WNOWAIT|unix.WALL, 0, 0)
		if errno == 0 {
			const pidOffset = 16 // after three 32-bit fields and padding
			return int(*(*int32)(unsafe.Pointer(&info[pidOffset]))), nil
		}
		if errno != unix.EINTR {
			return 0, errno
		}
	}
}

// collect reaps one child that has ended.
func collect(pid int) (*wire.Exit, error) {
	var status syscall.WaitStatus
	var usage syscall.Rusage
	for {
		_, err := syscall.Wait4(pid, &status, unix.WALL, &usage)
		if err == nil {
			return exitOf(status, &usage), nil
		}
		if err != syscall.EINTR {
			return nil, err
		}
	}
}

func exitOf(status syscall.WaitStatus, usage *syscall.Rusage) *wire.Exit {
	x := &wire.Exit{
		Code: status.ExitStatus(), At: now(),
		CPU: usage.Utime.Nano() + usage.Stime.Nano(), MaxRSS: usage.Maxrss << 10,
	}
	if status.Signaled() {
		x.Code, x.Signal = 128+int(status.Signal()), uint8(status.Signal())
	}
	return x
}

// alive reports whether c was not reaped yet, so that its pid is still its own. The caller holds the lock.
func (s *server) alive(c *child) bool { return c != nil && s.children[c.pid] == c }

func now() int64 { return time.Now().UnixNano() }

// backOff pauses before a retry after a shortage of descriptors or memory.
func backOff() { time.Sleep(10 * time.Millisecond) }
