package local

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/sandbox"
)

// A layer must not be changed behind the back of an overlay that is mounted, nor through one that is not
// any more. So every change of files holds the instance's lock together with other such changes, which
// keeps the instance as it is, and looks first whether it is what it was when the files were opened.

// opened are files of an instance in one state of it.
type opened struct {
	*files.Dir
	d     *Driver
	place *place
	alive *running // nil: it did not run
}

// guarded takes over the directory and the place.
func (d *Driver) guarded(dir *files.Dir, p *place, alive *running) files.FS {
	o := &opened{dir, d, p, alive}
	dir.Guard = o.hold
	return o
}

// Close closes the directory and what the guard goes by.
func (o *opened) Close() error { return errors.Join(o.Dir.Close(), o.place.Close()) }

// hold keeps the instance from being started, stopped or destroyed until release.
func (o *opened) hold(ctx context.Context) (release func(), err error) {
	p, err := o.d.share(ctx, o.place.id)
	if errors.Is(err, driver.ErrNotFound) {
		return nil, changed()
	}
	if err != nil {
		return nil, err
	}
	same, err := o.same(p)
	if err == nil && !same {
		err = changed()
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	// Closing alone would leave the lock to a process that is being started just now, for a moment.
	return func() { _ = errors.Join(p.unlock(), p.Close()) }, nil
}

// same reports whether an instance whose lock is held is in the state that the files were opened in.
func (o *opened) same(p *place) (bool, error) {
	was, err := o.place.dir.Stat()
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
	alive, err := o.d.live(p)
	return alive == nil, err
}

// unopened is why files could not be opened: what could not be found because the instance was changed
// meanwhile is no error of its own.
func (d *Driver) unopened(p *place, was *running, err error) error {
	is, failed := d.live(p)
	switch {
	case !p.current():
		return driver.ErrNotFound
	case failed == nil && is != was:
		return changed()
	}
	return err
}

func changed() error {
	return &sandbox.Error{
		Op: "use files", Code: api.CodeBusy, Retry: true, Hint: "Send the same request again.",
		Err: errors.New("the sandbox was started, stopped or deleted meanwhile"),
	}
}

// share is lock for what may happen at the same time: nobody has the instance to itself meanwhile. It is
// to be held for a moment only, and whoever waits to have the instance alone goes first: else many who
// take turns at sharing it could keep that one waiting for ever.
func (d *Driver) share(ctx context.Context, id driver.ID) (*place, error) {
	p, err := d.find(id)
	if err != nil {
		return nil, err
	}
	return p.locked(p.poll(ctx, func() error {
		if d.isAwaited(id) {
			return unix.EWOULDBLOCK
		}
		return p.tryLock(unix.LOCK_SH)
	}))
}

// announce says that somebody waits to have an instance alone, until done.
func (d *Driver) announce(id driver.ID) (done func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.awaited[id]++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.awaited[id]--; d.awaited[id] == 0 {
			delete(d.awaited, id)
		}
	}
}

func (d *Driver) isAwaited(id driver.ID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.awaited[id] > 0
}
