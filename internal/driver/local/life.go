package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/guest"
)

// Stop sends SIGTERM to the instance's processes, waits up to Options.Grace and then kills them.
func (d *Driver) Stop(ctx context.Context, id driver.ID) error {
	p, err := d.dirs.lock(ctx, id)
	if err != nil {
		return err
	}
	defer p.Close()
	alive, err := d.processes.live(p)
	if err != nil {
		return err
	}
	if alive != nil {
		err = d.runs.halt(ctx, p, alive)
	}
	if err != nil {
		return fmt.Errorf("stop instance: %w", err)
	}
	return d.runs.afterRun(ctx, p)
}

// runs starts, freezes and ends the processes of instances.
type runs struct{ d *Driver }

// halt ends the processes of a running instance.
func (rs runs) halt(ctx context.Context, p *instanceDir, alive *running) error {
	// The Create of the instance may not have returned. Its files are kept in this case too.
	if !p.made() {
		if err := p.adopt(); err != nil {
			return err
		}
	}
	r := rs.lastRun(p)
	rs.d.attachments.detach(p.id)
	rs.terminate(ctx, p.id, r.Group, alive)
	rs.d.io.removeLimits(r.Group, r.Device)
	if err := alive.kill(); err != nil {
		return err
	}
	rs.release(p.id, r.Group, alive)
	if err := alive.wait(ctx); err != nil {
		return err
	}
	rs.d.processes.forget(p.id, alive)
	return nil
}

// terminate sends SIGTERM to the processes of an instance. It returns once they have ended, the grace period is over, or
// ctx ends.
func (rs runs) terminate(ctx context.Context, id driver.ID, g group, alive *running) {
	others, err := rs.d.others(g, alive)
	if err != nil || len(others) == 0 {
		return
	}
	for _, pid := range others {
		_ = unix.Kill(pid, unix.SIGTERM)
	}
	rs.release(id, g, alive)
	over := time.After(rs.d.opts.Grace)
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
		select {
		case <-time.After(wait):
		case <-over:
			return
		case <-ctx.Done():
			return
		}
		if others, err := rs.d.others(g, alive); err != nil || len(others) == 0 {
			return
		}
	}
}

// afterRun marks the output of the instance's processes as complete and removes the cgroups of a run that has ended.
func (rs runs) afterRun(ctx context.Context, p *instanceDir) error {
	if err := guest.EndSpools(p.join(spoolDir)); err != nil {
		// An error about the output must not prevent the next start.
		rs.d.opts.Log.Warn("end the output of an instance's processes", "instance", p.id, "error", err)
	}
	return rs.lastRun(p).Group.remove(ctx)
}

// Start starts a stopped instance with its recorded Spec and limits, or thaws a frozen one.
func (d *Driver) Start(ctx context.Context, id driver.ID) (driver.Status, error) {
	p, err := d.dirs.lock(ctx, id)
	if err != nil {
		return driver.Status{}, err
	}
	defer p.Close()
	if err := d.runs.start(ctx, p); err != nil {
		return driver.Status{}, fmt.Errorf("start instance: %w", err)
	}
	return d.status(p)
}

func (rs runs) start(ctx context.Context, p *instanceDir) error {
	alive, err := rs.d.processes.live(p)
	if err != nil {
		return err
	}
	if alive != nil {
		return rs.thaw(ctx, p, alive)
	}
	r, err := p.record()
	if err != nil {
		return err
	}
	// If the last run ended by itself, no Stop has cleaned up after it.
	if err := errors.Join(rs.afterRun(ctx, p), p.setReason("")); err != nil {
		return err
	}
	if err := p.makeMissing(r); err != nil {
		return err
	}
	disk, err := rs.d.disks.moveToImage(ctx, p, &r)
	if err != nil {
		return err
	}
	if err := rs.launch(ctx, p, r, disk); err != nil {
		return err
	}
	if !p.made() {
		if err := p.adopt(); err != nil {
			return err
		}
	}
	st, err := rs.d.status(p)
	if err == nil {
		rs.d.attachments.attach(st, r.Spec)
		rs.d.sweeper.sweepUploads(p.id)
	}
	return err
}

// Freeze freezes every process of the instance, the helper too.
func (d *Driver) Freeze(ctx context.Context, id driver.ID) error {
	return d.runs.freezeOrThaw(ctx, id, true)
}

// Thaw resumes every process of the instance.
func (d *Driver) Thaw(ctx context.Context, id driver.ID) error {
	return d.runs.freezeOrThaw(ctx, id, false)
}

func (rs runs) freezeOrThaw(ctx context.Context, id driver.ID, frozen bool) error {
	p, err := rs.d.dirs.lock(ctx, id)
	if err != nil {
		return err
	}
	defer p.Close()
	alive, err := rs.d.processes.live(p)
	if err != nil {
		return err
	}
	switch {
	case alive == nil:
		return driver.ErrNotRunning
	case !frozen:
		return rs.thaw(ctx, p, alive)
	}
	return rs.setFrozen(ctx, p, alive, true)
}

// thaw also attaches to an instance that was frozen when the driver was opened: its helper could not answer then.
func (rs runs) thaw(ctx context.Context, p *instanceDir, alive *running) error {
	if err := rs.setFrozen(ctx, p, alive, false); err != nil || rs.d.opts.Attach == nil || rs.d.attachments.isAttached(p.id) {
		return err
	}
	r, err := p.record()
	if err != nil {
		return err
	}
	st, err := rs.d.status(p)
	if err == nil {
		rs.d.attachments.attach(st, r.Spec)
	}
	return err
}

func (rs runs) setFrozen(ctx context.Context, p *instanceDir, alive *running, frozen bool) error {
	if rs.frozen(p, alive) == frozen {
		return nil
	}
	r, err := p.run()
	if err != nil {
		return err
	}
	if !r.Group.canFreeze() {
		return hold(ctx, alive, frozen)
	}
	return r.Group.freeze(ctx, frozen)
}

func (rs runs) frozen(p *instanceDir, alive *running) bool {
	g, err := p.groupOf(alive)
	if err != nil {
		return false
	}
	if !g.canFreeze() {
		return stopped(alive.pid)
	}
	return g.frozen()
}

// groupOf returns the cgroups of the run whose first process is alive. The run file is valid for that run while the
// process exists, because only the next start replaces it.
func (p *instanceDir) groupOf(alive *running) (group, error) {
	if known := alive.group.Load(); known != nil {
		return *known, nil
	}
	r, err := p.run()
	if err == nil && alive.alive() {
		alive.group.Store(&r.Group)
	}
	return r.Group, err
}

// release thaws or continues the processes of an instance that is being ended: a frozen process ends only after that.
func (rs runs) release(id driver.ID, g group, alive *running) {
	var err error
	switch {
	case g.canFreeze():
		err = g.thawDying()
	case stopped(alive.pid) && alive.alive():
		err = hold(rs.d.ctx, alive, false)
	}
	if err != nil {
		rs.d.opts.Log.Warn("thaw an instance that is ended", "instance", id, "error", err)
	}
}

// watch waits for the end of a run and cleans up after it.
func (rs runs) watch(id driver.ID, r *running) {
	if r.wait(rs.d.ctx) != nil {
		return
	}
	if rs.d.processes.forget(id, r) {
		rs.d.attachments.detach(id)
	}
	p, err := rs.d.dirs.lock(rs.d.ctx, id)
	if err != nil {
		return // the instance is destroyed, or the driver is being closed
	}
	defer p.Close()
	if alive, err := rs.d.processes.live(p); alive != nil || err != nil {
		return // the instance was started again
	}
	if err := rs.afterRun(rs.d.ctx, p); err != nil {
		rs.d.opts.Log.Warn("clear up after an instance", "instance", id, "error", err)
	}
}
