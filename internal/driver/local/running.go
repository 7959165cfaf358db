package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// running is the first process of an instance. It holds a pidfd, so that it never acts on another process that has got
// the same pid later.
type running struct {
	pid  int
	file *os.File
	raw  syscall.RawConn

	first atomic.Int64          // first of its uids; zero: not looked up yet
	group atomic.Pointer[group] // its cgroups; nil: not looked up yet

	process *os.Process // nil if another server started it
	reap    sync.Once
}

// childOf returns the running for a process that this server started.
func childOf(process *os.Process) (*running, error) {
	fd, err := unix.PidfdOpen(process.Pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		_ = process.Kill()
		_, waitErr := process.Wait()
		return nil, errors.Join(fmt.Errorf("open process: %w", err), waitErr)
	}
	return newRunning(process.Pid, fd, process)
}

func newRunning(pid, fd int, process *os.Process) (*running, error) {
	file := os.NewFile(uintptr(fd), "pidfd")
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("open process: %w", err)
	}
	return &running{pid: pid, file: file, raw: raw, process: process}, nil
}

func (r *running) reapChild() {
	r.reap.Do(func() {
		if r.process != nil {
			_, _ = r.process.Wait()
		}
	})
}

// alive reports whether the process has not ended yet. A process that was not reaped yet has ended.
func (r *running) alive() bool {
	ended := true
	err := r.raw.Control(func(fd uintptr) { ended = readable(int(fd)) })
	return err == nil && !ended
}

// readable reports whether a poll of the descriptor returns an event or an error.
func readable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if err != unix.EINTR {
			return n > 0 || err != nil
		}
	}
}

// kill sends SIGKILL to the process. It is the first in its process namespace, so the kernel then ends every other process
// of the instance.
func (r *running) kill() error {
	var err error
	control := r.raw.Control(func(fd uintptr) { err = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) })
	return errors.Join(control, ignoreGone(err))
}

// wait waits until the process has ended, and with it all other processes of the instance.
func (r *running) wait(ctx context.Context) error {
	own, err := r.dup()
	if err != nil {
		return err
	}
	defer own.file.Close()
	defer context.AfterFunc(ctx, func() { _ = own.file.SetReadDeadline(aLongTimeAgo) })()
	err = own.raw.Read(func(fd uintptr) bool { return readable(int(fd)) })
	if ctx.Err() != nil {
		return fmt.Errorf("wait for the instance's end: %w", ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("wait for the instance's end: %w", err)
	}
	r.reapChild()
	return nil
}

// dup returns the same process with a copy of the descriptor, which has a separate deadline.
func (r *running) dup() (*running, error) {
	var fd int
	var err error
	control := r.raw.Control(func(own uintptr) { fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) })
	if err := errors.Join(control, err); err != nil {
		return nil, fmt.Errorf("open process: %w", err)
	}
	return newRunning(r.pid, fd, nil)
}

// socketListener returns the process that listens on an instance's socket, or nil if there is none.
func socketListener(p *instanceDir) (*running, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("look for the helper: %w", err)
	}
	defer unix.Close(fd)
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: p.self(sockName)})
	if err == unix.ECONNREFUSED || err == unix.ENOENT {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the helper: %w", err)
	}
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, fmt.Errorf("look for the helper: %w", err)
	}
	return openPeer(p, fd, int(cred.Pid))
}

// openPeer opens the process at the other end of a connection.
func openPeer(p *instanceDir, conn, pid int) (*running, error) {
	pidfd, err := unix.GetsockoptInt(conn, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if err == nil {
		unix.CloseOnExec(pidfd)
		if err := unix.SetNonblock(pidfd, true); err != nil {
			unix.Close(pidfd)
			return nil, fmt.Errorf("open the helper: %w", err)
		}
		return newRunning(pid, pidfd, nil)
	}
	pidfd, err = unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err == unix.ESRCH {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the helper: %w", err)
	}
	return newRunning(pid, pidfd, nil)
}
