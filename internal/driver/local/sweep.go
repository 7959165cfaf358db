package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/driver"
)

// sweep removes what others left unfinished, and finds what runs.
func (d *Driver) sweep() {
	d.background(d.emptyTrash)
	d.sweepNew()
	d.sweepProbes()
	d.sweepSkeletons()
	for _, id := range d.ids() {
		d.adopt(id)
	}
}

// sweepNew discards claims that nobody is making any more.
func (d *Driver) sweepNew() {
	staged := filepath.Join(d.dir, newDir)
	entries, err := os.ReadDir(staged)
	if err != nil {
		d.opts.Log.Warn("sweep unfinished claims", "error", err)
	}
	for _, e := range entries {
		p, err := openPlace("", filepath.Join(staged, e.Name()))
		if err != nil {
			continue
		}
		if p.tryLock(unix.LOCK_EX) == nil {
			err = d.discard(p.path)
		}
		p.Close()
		if err != nil {
			d.opts.Log.Warn("sweep unfinished claims", "error", err)
		}
	}
}

// sweepProbes discards what a probe left that was not allowed to finish.
func (d *Driver) sweepProbes() {
	left, err := filepath.Glob(filepath.Join(d.dir, probePrefix+"*"))
	for _, path := range left {
		p, openErr := openPlace("", path)
		if openErr != nil {
			continue
		}
		if p.tryLock(unix.LOCK_EX) == nil {
			err = errors.Join(err, d.discardProbe(path))
		}
		p.Close()
	}
	if err != nil {
		d.opts.Log.Warn("sweep unfinished probes", "error", err)
	}
}

// discardProbe discards the instances of a probe one by one, so that they are ended like any other.
func (d *Driver) discardProbe(path string) error {
	var err error
	for _, sub := range []string{"", newDir, trashDir} {
		entries, _ := os.ReadDir(filepath.Join(path, probeDir, sub))
		for _, e := range entries {
			if e.Name() != newDir && e.Name() != trashDir {
				err = errors.Join(err, d.discard(filepath.Join(path, probeDir, sub, e.Name())))
			}
		}
	}
	return errors.Join(err, d.discard(path))
}

// sweepAge is how old a file must be to be taken for one whose writer is gone.
const sweepAge = 5 * time.Second

// sweepUploads removes, in the background, what uploads left in an instance that a crash cut off. Uploads that
// go on, of this server or another one, stay.
func (d *Driver) sweepUploads(id driver.ID) {
	before := time.Now().Add(-sweepAge)
	d.background(func() {
		select {
		case d.tidy <- struct{}{}:
			defer func() { <-d.tidy }()
		case <-d.ctx.Done():
			return
		}
		for name := range roots {
			if err := d.sweepRoot(id, name, before); err != nil && d.ctx.Err() == nil {
				d.opts.Log.Debug("sweep unfinished uploads", "instance", id, "root", name, "error", err)
			}
		}
	})
}

func (d *Driver) sweepRoot(id driver.ID, name string, before time.Time) error {
	root, err := d.Files(d.ctx, id, name)
	if err != nil {
		return err
	}
	defer root.Close()
	sweeper, ok := root.(interface {
		Sweep(ctx context.Context, before time.Time) (int, error)
	})
	if !ok {
		return nil
	}
	n, err := sweeper.Sweep(d.ctx, before)
	if n > 0 {
		d.opts.Log.Info("removed unfinished uploads", "instance", id, "root", name, "files", n)
	}
	return err
}

// adopt attaches to an instance that runs. One whose creation was cut short goes; one that ended while
// nobody looked is cleared up.
func (d *Driver) adopt(id driver.ID) {
	p, err := d.find(id)
	if err != nil {
		return
	}
	defer p.Close()
	if p.tryLock(unix.LOCK_EX) != nil {
		return // somebody sees to it
	}
	p.held = true
	if !p.current() {
		return
	}
	if err := d.settle(p); err != nil {
		d.opts.Log.Warn("adopt an instance", "instance", id, "error", err)
	}
}

func (d *Driver) settle(p *place) error {
	st, err := d.status(p)
	if err != nil {
		return err
	}
	switch st.Phase {
	case driver.PhaseFailed:
		return d.drop(p)
	case driver.PhaseStopped:
		return d.afterRun(d.ctx, p)
	case driver.PhaseRunning:
		r, err := p.record()
		if err == nil {
			d.attach(st, r.Spec)
			d.sweepUploads(p.id)
		}
		return err
	}
	return nil
}
