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

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/guest/boot"
	"github.com/berthdev/berth/internal/guest/wire"
)

// launch is an instance on its way to running.
type launch struct {
	d      *Driver
	place  *place
	record record
	group  group

	child *running
	line  *wire.Conn // to the helper, until it is ready
}

// namespaces that an instance has of its own. The one for cgroups it makes itself, once it is in them.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// launch makes the instance in p run. When it fails, nothing of the run is left but files.
func (d *Driver) launch(ctx context.Context, p *place, r record) error {
	l := &launch{d: d, place: p, record: r, group: d.groups.group(p.id)}
	err := l.run(ctx)
	if l.line != nil {
		l.line.Close()
	}
	if err == nil {
		l.child.group.Store(&l.group)
		d.remember(p.id, l.child)
		return nil
	}
	return errors.Join(full(err), l.undo(context.WithoutCancel(ctx)))
}

// full makes an error that says that there is no room one of its class. The helper has only words for it.
func full(err error) error {
	setup, _ := errors.AsType[*setupError](err)
	for _, errno := range []unix.Errno{unix.ENOSPC, unix.EDQUOT} {
		if errors.Is(err, errno) || setup != nil && strings.HasSuffix(setup.text, errno.Error()) {
			return fmt.Errorf("%w: %w", driver.ErrQuota, err)
		}
	}
	return err
}

func (l *launch) run(ctx context.Context) error {
	if err := writeJSON(l.place, runName, run{Group: l.group}); err != nil {
		return err
	}
	if err := l.group.make(l.record.Limits); err != nil {
		return err
	}
	l.d.opts.At("after-cgroup", l.place.id)
	if err := l.clone(); err != nil {
		return err
	}
	l.d.opts.At("after-clone", l.place.id)
	return l.setup(ctx)
}

// undo ends what run began.
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
	spools, err := os.Open(l.place.join(spoolDir))
	if err != nil {
		return fmt.Errorf("open spools: %w", err)
	}
	defer spools.Close()
	ours, theirs, err := wire.Pair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	if l.line, err = lineOf(ours); err != nil {
		return err
	}
	return l.exec(ids, listener, theirs, spools)
}

// lineOf makes a connection of a file, which it closes.
func lineOf(f *os.File) (*wire.Conn, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open setup line: %w", err)
	}
	return wire.NewConn(fd)
}

// bind makes the helper's socket. Nobody listens on it until the helper does: that is how everybody else
// sees that the instance runs.
func (l *launch) bind() (*os.File, error) {
	if err := os.Remove(l.place.join(sockName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: l.place.self(sockName)}); err != nil {
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
	sys.Setsid = true // a terminal's signals are not for instances
	attr := &os.ProcAttr{
		Dir: "/", Env: boot.Environ(), Sys: sys,
		Files: []*os.File{null, null, null, listener, line, spools, ids.held(null)},
	}
	var process *os.Process
	err = l.d.groups.start(l.group, sys, func() (err error) {
		process, err = l.d.exe.start(attr)
		return err
	})
	if err != nil {
		return fmt.Errorf("clone the helper: %w", err)
	}
	if l.child, err = childOf(process); err != nil {
		return err
	}
	if err := ids.grant(process.Pid); err != nil {
		return fmt.Errorf("map the instance's uids: %w", err)
	}
	return nil
}

// setup tells the helper what to make and waits until it is made.
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
	l.d.opts.At("mid-mount", l.place.id)
	return l.await(ctx)
}

// await waits for the helper's word that it is ready, and for the end of the line: then it listens.
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

// setupError is the helper's word on what it could not make.
type setupError struct{ text string }

func (e *setupError) Error() string { return "set up the instance: " + e.text }

// died explains a setup line that was closed.
func (l *launch) died(err error) error {
	return fmt.Errorf("the helper ended before it was ready (%s): %w", l.d.opts.Exe, err)
}
