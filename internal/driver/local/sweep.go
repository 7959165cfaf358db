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

// sweeper finishes or removes the remains of a server that ended in the middle of its work.
type sweeper struct{ d *Driver }

// sweep removes unfinished work of drivers that have ended, and attaches to running instances.
func (sw sweeper) sweep() {
	sw.d.background(sw.d.trash.empty)
	sw.sweepUnlocked(newDir)
	sw.sweepProbes()
	sw.sweepUnlocked(disksDir)
	sw.sweepSkeletons()
	for _, id := range sw.d.dirs.ids() {
		sw.adopt(id)
	}
	sw.endRemoved("")
}

// sweepUnlocked discards the subdirectories of name that no process has locked: unfinished claims, and prepared disks of
// servers that have ended.
func (sw sweeper) sweepUnlocked(name string) {
	top := filepath.Join(sw.d.dir, name)
	entries, err := os.ReadDir(top)
	if err != nil {
		sw.d.opts.Log.Warn("sweep unfinished instances", "path", top, "error", err)
	}
	for _, e := range entries {
		p, err := openInstanceDir("", filepath.Join(top, e.Name()))
		if err != nil {
			continue
		}
		if p.tryLock(unix.LOCK_EX) == nil {
			err = sw.d.trash.discard(p.path)
		}
		p.Close()
		if err != nil {
			sw.d.opts.Log.Warn("sweep unfinished instances", "path", top, "error", err)
		}
	}
}

// sweepProbes discards the directories of probes that were cut short.
func (sw sweeper) sweepProbes() {
	left, err := filepath.Glob(filepath.Join(sw.d.dir, probePrefix+"*"))
	for _, path := range left {
		p, openErr := openInstanceDir("", path)
		if openErr != nil {
			continue
		}
		if p.tryLock(unix.LOCK_EX) == nil {
			err = errors.Join(err, sw.discardProbe(path))
		}
		p.Close()
	}
	if err != nil {
		sw.d.opts.Log.Warn("sweep unfinished probes", "error", err)
	}
}

// discardProbe discards the directory of a probe. It discards the instances in it one by one before, so that emptyTrash
// ends their processes.
func (sw sweeper) discardProbe(path string) error {
	var err error
	for _, sub := range []string{"", newDir, trashDir} {
		entries, _ := os.ReadDir(filepath.Join(path, probeDir, sub))
		for _, e := range entries {
			if e.Name() != newDir && e.Name() != trashDir {
				err = errors.Join(err, sw.d.trash.discard(filepath.Join(path, probeDir, sub, e.Name())))
			}
		}
	}
	return errors.Join(err, sw.d.trash.discard(path))
}

// sweepAfter is the time between a start and the sweep of uploads. An upload that made its file just before the start
// has locked it by then.
const sweepAfter = 5 * time.Second

// sweepUploads removes, in the background, files of uploads that a crash cut short before now. It keeps the files of
// uploads that are in progress in this or another server.
func (sw sweeper) sweepUploads(id driver.ID) {
	before := time.Now()
	sw.d.background(func() {
		select {
		case <-time.After(sweepAfter):
		case <-sw.d.ctx.Done():
			return
		}
		select {
		case sw.d.removalSlots <- struct{}{}:
			defer func() { <-sw.d.removalSlots }()
		case <-sw.d.ctx.Done():
			return
		}
		for name := range roots {
			if err := sw.sweepRoot(id, name, before); err != nil && sw.d.ctx.Err() == nil {
				sw.d.opts.Log.Debug("sweep unfinished uploads", "instance", id, "root", name, "error", err)
			}
		}
	})
}

func (sw sweeper) sweepRoot(id driver.ID, name string, before time.Time) error {
	root, err := sw.d.Files(sw.d.ctx, id, name)
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
	n, err := sweeper.Sweep(sw.d.ctx, before)
	if n > 0 {
		sw.d.opts.Log.Info("removed unfinished uploads", "instance", id, "root", name, "files", n)
	}
	return err
}

// adopt attaches to a running instance, removes an unfinished one, and cleans up after an instance that ended while no
// server ran. It does nothing if another process has the lock of the instance.
func (sw sweeper) adopt(id driver.ID) {
	p, err := sw.d.dirs.find(id)
	if err != nil {
		return
	}
	defer p.Close()
	if p.tryLock(unix.LOCK_EX) != nil {
		return // another process is changing the instance
	}
	p.held = true
	if !p.current() {
		return
	}
	if err := errors.Join(sw.settle(p), sw.d.makeInert(p)); err != nil {
		sw.d.opts.Log.Warn("adopt an instance", "instance", id, "error", err)
	}
}

// settle attaches to an instance, cleans up after it or removes it, according to its phase.
func (sw sweeper) settle(p *instanceDir) error {
	st, err := sw.d.status(p)
	if err != nil {
		return err
	}
	switch st.Phase {
	case driver.PhaseFailed:
		return sw.d.drop(p)
	case driver.PhaseStopped:
		return sw.d.runs.afterRun(sw.d.ctx, p)
	case driver.PhaseRunning:
		r, err := p.record()
		if err == nil {
			sw.d.attachments.attach(st, r.Spec)
			sw.sweepUploads(p.id)
		}
		return err
	}
	return nil
}
