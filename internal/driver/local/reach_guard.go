package local

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
)

// A layer must not be changed directly while an overlay with it is mounted, nor through an overlay that is no longer
// mounted. So every change of files holds the instance's shared lock, which prevents starts and stops. Then it checks
// that the instance has not been started, stopped or destroyed since the files were opened.

// opened is an open directory of an instance's files. It is valid for the state in which the instance was opened.
type opened struct {
	*files.Dir
	d        *Driver
	instance *instanceDir
	alive    *running // the first process at that time; nil: the instance did not run
}

// fileAccess opens the files of instances for reads and writes from outside.
type fileAccess struct{ d *Driver }

// guarded returns the files in dir with the guard. Their Close closes dir and p.
func (fa fileAccess) guarded(dir *files.Dir, p *instanceDir, alive *running) files.FS {
	o := &opened{dir, fa.d, p, alive}
	dir.Guard = o.hold
	return o
}

// Close closes the files and the instance's directory.
func (o *opened) Close() error { return errors.Join(o.Dir.Close(), o.instance.Close()) }

// hold prevents that the instance is started, stopped or destroyed until release is called. It returns an error if that
// has already happened since the files were opened.
func (o *opened) hold(ctx context.Context) (release func(), err error) {
	p, err := o.d.access.share(ctx, o.instance.id)
	if errors.Is(err, driver.ErrNotFound) {
		return nil, changedError()
	}
	if err != nil {
		return nil, err
	}
	same, err := o.same(p)
	if err == nil && !same {
		err = changedError()
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	// Close alone is not enough: a process that is being started has a copy of the descriptor until its exec.
	return func() { _ = errors.Join(p.unlock(), p.Close()) }, nil
}

// same reports whether the instance has not been started, stopped or replaced since the files were opened. The caller
// holds the lock of p.
func (o *opened) same(p *instanceDir) (bool, error) {
	was, err := o.instance.dir.Stat()
	if err != nil {
		return false, err
	}
	is, err := p.dir.Stat()
	if err != nil || !os.SameFile(was, is) {
		return false, err
	}
	if o.alive != nil {
		return o.alive.alive(), nil
	}
	alive, err := o.d.processes.live(p)
	return alive == nil, err
}

// openError returns the error for files that could not be opened. If the instance was destroyed, started or stopped in the
// meantime, it returns an error about that instead of err.
func (fa fileAccess) openError(p *instanceDir, was *running, err error) error {
	is, failed := fa.d.processes.live(p)
	switch {
	case !p.current():
		return driver.ErrNotFound
	case failed == nil && is != was:
		return changedError()
	}
	return err
}

func changedError() error {
	return &fault.Error{
		Op: "use files", Code: api.CodeBusy, Retry: true, Hint: "Send the same request again.",
		Err: errors.New("the sandbox was started, stopped or deleted in between"),
	}
}

// share opens an instance's directory and waits for its shared lock. Hold the lock only for a short time. Requests for
// the exclusive lock come first, because many holders of the shared lock could otherwise delay them without end.
func (fa fileAccess) share(ctx context.Context, id driver.ID) (*instanceDir, error) {
	p, err := fa.d.dirs.find(id)
	if err != nil {
		return nil, err
	}
	return p.locked(p.poll(ctx, func() error {
		if fa.isAwaited(id) {
			return unix.EWOULDBLOCK
		}
		return p.tryLock(unix.LOCK_SH)
	}))
}

// announce registers a request that waits for the exclusive lock of an instance, until done is called.
func (fa fileAccess) announce(id driver.ID) (done func()) {
	fa.d.mu.Lock()
	defer fa.d.mu.Unlock()
	fa.d.awaited[id]++
	return func() {
		fa.d.mu.Lock()
		defer fa.d.mu.Unlock()
		if fa.d.awaited[id]--; fa.d.awaited[id] == 0 {
			delete(fa.d.awaited, id)
		}
	}
}

func (fa fileAccess) isAwaited(id driver.ID) bool {
	fa.d.mu.Lock()
	defer fa.d.mu.Unlock()
	return fa.d.awaited[id] > 0
}
