package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest/pid1"
	"github.com/berthdev/berth/internal/guest/wire"
)

// launch is the start of an instance.
type launch struct {
	d      *Driver
	dir    *instanceDir
	record record
	group  group
	disk   *image // the instance's file system, until the helper gets its mount; nil: it has a directory

	child *running   // the helper; nil until clone
	line  *wire.Conn // connection to the helper for its setup
}

// namespaces are the flags of clone for the namespaces of an instance. The helper makes its cgroup namespace later, once
// it is in its cgroups.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// launch starts the instance in p. disk is its image if that is already mounted. launch closes the mount. After an error
// it removes the processes and cgroups of the run; files may remain.
func (rs runs) launch(ctx context.Context, p *instanceDir, r record, disk *image) error {
	l := &launch{d: rs.d, dir: p, record: r, group: rs.d.groups.group(p.id), disk: disk}
	err := l.run(ctx)
	if l.disk != nil {
		unix.Close(l.disk.mount)
	}
	if l.line != nil {
		l.line.Close()
	}
	if err == nil {
		l.child.group.Store(&l.group)
		rs.d.processes.remember(p.id, l.child)
		return nil
	}
	return errors.Join(asQuotaError(err), l.undo(context.WithoutCancel(ctx)))
}

// asQuotaError wraps an error about missing disk space with driver.ErrQuota. It finds the helper's errors by their text.
func asQuotaError(err error) error {
	setup, _ := errors.AsType[*setupError](err)
	for _, errno := range []unix.Errno{unix.ENOSPC, unix.EDQUOT} {
		if errors.Is(err, errno) || setup != nil && strings.HasSuffix(setup.text, errno.Error()) {
			return fmt.Errorf("%w: %w", driver.ErrQuota, err)
		}
	}
	return err
}

func (l *launch) run(ctx context.Context) error {
	if l.record.Limits.DiskHard && l.disk == nil {
		mounted, err := mountImage(l.dir.join(imageName))
		if err != nil {
			return err
		}
		l.disk = &mounted
		defer mounted.lendRoom()()
	}
	this := run{Group: l.group}
	if l.disk != nil {
		this.Device = l.disk.device
	} else if err := l.d.makeInert(l.dir); err != nil {
		return err
	}
	if err := writeJSON(l.dir, runName, this); err != nil {
		return err
	}
	if err := l.group.make(l.record.Limits); err != nil {
		return err
	}
	if l.disk != nil {
		if err := l.d.io.bound(l.group, l.disk.device); err != nil {
			return err
		}
	}
	l.d.opts.At("after-cgroup", l.dir.id)
	if err := l.clone(); err != nil {
		return err
	}
	l.d.opts.At("after-clone", l.dir.id)
	return l.setup(ctx)
}

// undo ends the helper and removes the cgroups.
func (l *launch) undo(ctx context.Context) error {
	if l.child != nil {
		if err := errors.Join(l.child.kill(), l.child.wait(ctx)); err != nil {
			return err
		}
		l.child.file.Close()
	}
	return l.group.remove(ctx)
}

// clone starts the helper in its namespaces, where it waits for its configuration.
func (l *launch) clone() error {
	ids, err := l.d.identity()
	if err != nil {
		return err
	}
	defer ids.close()
	listener, err := l.bind()
	if err != nil {
		return err
	}
	defer listener.Close()
	if err := l.giveSpools(); err != nil {
		return err
	}
	spools, err := os.Open(l.dir.join(spoolDir))
	if err != nil {
		return fmt.Errorf("open spools: %w", err)
	}
	defer spools.Close()
	ours, theirs, err := wire.Pair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	if l.line, err = setupConn(ours); err != nil {
		return err
	}
	return l.exec(ids, listener, theirs, spools)
}

// giveSpools lets the helper write to the spools. In TierMapped the helper writes as root of the instance.
func (l *launch) giveSpools() error {
	path := l.dir.join(spoolDir)
	switch l.d.opts.Tier {
	case TierMapped:
		if err := os.Chown(path, mappedRoot, mappedRoot); err != nil {
			return fmt.Errorf("give spools to the helper: %w", err)
		}
	case TierUser:
		if unix.Access(path, unix.W_OK) != nil {
			err := fault.Errorf("start instance", api.CodeUnsupported, "its files belong to subordinate ids, which this server does not have")
			err.Hint = "Start the server as it was when the sandbox was made: " + mappedStart
			return err
		}
	}
	return nil
}

// setupConn makes the setup connection from a socket's file. It closes the file.
func setupConn(f *os.File) (*wire.Conn, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open setup line: %w", err)
	}
	return wire.NewConn(fd)
}

// bind makes the helper's socket. Only the helper listens on it, so other processes can connect to find out whether the
// instance runs.
func (l *launch) bind() (*os.File, error) {
	if err := os.Remove(l.dir.join(sockName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: l.dir.self(sockName)}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("make socket: %w", err)
	}
	return os.NewFile(uintptr(fd), sockName), nil
}

func (l *launch) exec(ids *identity, listener, line, spools *os.File) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	sys := ids.attributes()
	sys.Setsid = true // instances do not get the signals of the server's terminal
	attr := &os.ProcAttr{
		Dir: "/", Env: pid1.Environ(), Sys: sys,
		Files: append([]*os.File{null, null, null, listener, line, spools}, ids.heldFiles(null)...),
	}
	var process *os.Process
	err = l.d.groups.start(l.group, sys, func() error {
		return atOrdinaryPriority(func() error {
			return ids.start(func() (err error) {
				process, err = l.d.exe.start(attr)
				return err
			})
		})
	})
	if err != nil {
		return fmt.Errorf("clone the helper: %w", err)
	}
	if l.child, err = childOf(process); err != nil {
		return err
	}
	if err := exposeToOOM(process.Pid, l.d.opts.Tier); err != nil {
		return fmt.Errorf("expose the instance to the kernel's OOM killer: %w", err)
	}
	if err := ids.mapIDs(process.Pid); err != nil {
		return fmt.Errorf("map the instance's uids: %w", err)
	}
	return nil
}

// setup sends the configuration to the helper and waits until the instance is set up.
func (l *launch) setup(ctx context.Context) error {
	var t trees
	defer t.close()
	if err := l.trees(&t); err != nil {
		return err
	}
	config := l.config()
	config.Trees = t.specs
	if err := l.line.Send(append(wire.Packet(nil), config.Encode()...), t.files...); err != nil {
		return l.died(err)
	}
	t.close()
	t.files = nil
	l.d.opts.At("mid-mount", l.dir.id)
	return l.await(ctx)
}

// await waits for the helper's reply and then for the end of the connection. The helper listens on its socket by then.
func (l *launch) await(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = l.line.SetReadDeadline(aLongTimeAgo) })()
	buf := make([]byte, wire.RecvBuffer)
	body, files, err := l.line.Recv(buf)
	wire.CloseAll(files)
	if err == nil {
		var reply wire.Reply
		if reply, err = wire.DecodeReply(body); err == nil && reply.Code != wire.OK {
			return &setupError{reply.Text}
		}
	}
	if err == nil {
		if _, _, err = l.line.Recv(buf); err == io.EOF {
			return nil
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("wait for the helper: %w", ctx.Err())
	}
	return l.died(err)
}

// setupError is an error of the helper during the setup, as text.
type setupError struct{ text string }

func (e *setupError) Error() string { return "set up the instance: " + e.text }

// died returns the error for a setup connection that the helper closed early.
func (l *launch) died(err error) error {
	return fmt.Errorf("the helper ended before it was ready (%s): %w", l.d.opts.Exe, err)
}
