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

// running is the first process of an instance. It is known by a descriptor, which a number that comes
// back as another process cannot deceive.
type running struct {
	pid  int
	file *os.File
	raw  syscall.RawConn

	first atomic.Int64          // of its uids; zero: not looked up yet
	group atomic.Pointer[group] // its cgroups; nil: not looked up yet

	process *os.Process // if it is our child
	reap    sync.Once
}

// childOf is a process that we started.
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

func (r *running) reaped() {
	r.reap.Do(func() {
		if r.process != nil {
			_, _ = r.process.Wait()
		}
	})
}

// alive reports whether the process has not ended yet; it does not wait for what is left of it.
func (r *running) alive() bool {
	ended := true
	err := r.raw.Control(func(fd uintptr) { ended = readable(int(fd)) })
	return err == nil && !ended
}

// readable reports whether a poll of the descriptor has something to say.
func readable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if err != unix.EINTR {
			return n > 0 || err != nil
		}
	}
}

// kill sends SIGKILL, from which the first process of an instance has no protection against us. With it
// the kernel ends every other process of the instance.
func (r *running) kill() error {
	var err error
	control := r.raw.Control(func(fd uintptr) { err = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) })
	return errors.Join(control, ignoreGone(err))
}

// wait waits until the process is gone, and with it all others of its instance.
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
	r.reaped()
	return nil
}

// dup is the same process under a descriptor of its own, whose deadline is nobody else's.
func (r *running) dup() (*running, error) {
	var fd int
	var err error
	control := r.raw.Control(func(own uintptr) { fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) })
	if err := errors.Join(control, err); err != nil {
		return nil, fmt.Errorf("open process: %w", err)
	}
	return newRunning(r.pid, fd, nil)
}

// peerOf is the process that listens on an instance's socket, or nil where nobody does.
func peerOf(p *place) (*running, error) {
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
func openPeer(p *place, conn, pid int) (*running, error) {
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
