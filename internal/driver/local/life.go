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

// Stop asks the instance's processes to end, gives them the grace, and ends them.
func (d *Driver) Stop(ctx context.Context, id driver.ID) error {
	p, err := d.lock(ctx, id)
	if err != nil {
		return err
	}
	defer p.Close()
	alive, err := d.live(p)
	if err != nil {
		return err
	}
	if alive != nil {
		err = d.halt(ctx, p, alive)
	}
	if err != nil {
		return fmt.Errorf("stop instance: %w", err)
	}
	return d.afterRun(ctx, p)
}

func (d *Driver) halt(ctx context.Context, p *place, alive *running) error {
	// It may be one that was never acknowledged; its files are kept all the same.
	if !p.made() {
		if err := p.adopt(); err != nil {
			return err
		}
	}
	r := d.lastRun(p)
	d.detach(p.id)
	d.ask(ctx, p.id, r.Group, alive)
	if err := alive.kill(); err != nil {
		return err
	}
	d.release(p.id, r.Group, alive)
	if err := alive.wait(ctx); err != nil {
		return err
	}
	d.forget(p.id, alive)
	return nil
}

// ask lets the processes of an instance end by themselves. It is done when they are gone, when the grace
// is over, or when nobody wants to wait.
func (d *Driver) ask(ctx context.Context, id driver.ID, g group, alive *running) {
	others, err := d.others(g, alive)
	if err != nil || len(others) == 0 {
		return
	}
	for _, pid := range others {
		_ = unix.Kill(pid, unix.SIGTERM)
	}
	d.release(id, g, alive)
	over := time.After(d.opts.Grace)
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
		select {
		case <-time.After(wait):
		case <-over:
			return
		case <-ctx.Done():
			return
		}
		if others, err := d.others(g, alive); err != nil || len(others) == 0 {
			return
		}
	}
}

// afterRun does what the end of a run asks for: nothing can be written any more.
func (d *Driver) afterRun(ctx context.Context, p *place) error {
	if err := guest.EndSpools(p.join(spoolDir)); err != nil {
		// The output of a process is no reason not to start the instance again.
		d.opts.Log.Warn("end the output of an instance's processes", "instance", p.id, "error", err)
	}
	return d.lastRun(p).Group.remove(ctx)
}

// Start makes the instance run as it was made.
func (d *Driver) Start(ctx context.Context, id driver.ID) (driver.Status, error) {
	p, err := d.lock(ctx, id)
	if err != nil {
		return driver.Status{}, err
	}
	defer p.Close()
	if err := d.start(ctx, p); err != nil {
		return driver.Status{}, fmt.Errorf("start instance: %w", err)
	}
	return d.status(p)
}

func (d *Driver) start(ctx context.Context, p *place) error {
	alive, err := d.live(p)
	if err != nil {
		return err
	}
	if alive != nil {
		return d.setFrozen(ctx, p, alive, false)
	}
	r, err := p.record()
	if err != nil {
		return err
	}
	// The last run may have ended by itself.
	if err := errors.Join(d.afterRun(ctx, p), p.setReason("")); err != nil {
		return err
	}
	if err := p.makeMissing(r); err != nil {
		return err
	}
	if err := d.launch(ctx, p, r); err != nil {
		return err
	}
	if !p.made() {
		if err := p.adopt(); err != nil {
			return err
		}
	}
	st, err := d.status(p)
	if err == nil {
		d.attach(st, r.Spec)
		d.sweepUploads(p.id)
	}
	return err
}

// Freeze holds every process of the instance, the helper too.
func (d *Driver) Freeze(ctx context.Context, id driver.ID) error { return d.turn(ctx, id, true) }

// Thaw lets them go on.
func (d *Driver) Thaw(ctx context.Context, id driver.ID) error { return d.turn(ctx, id, false) }

func (d *Driver) turn(ctx context.Context, id driver.ID, frozen bool) error {
	p, err := d.lock(ctx, id)
	if err != nil {
		return err
	}
	defer p.Close()
	alive, err := d.live(p)
	if err != nil {
		return err
	}
	if alive == nil {
		return driver.ErrNotRunning
	}
	return d.setFrozen(ctx, p, alive, frozen)
}

func (d *Driver) setFrozen(ctx context.Context, p *place, alive *running, frozen bool) error {
	if d.frozen(p, alive) == frozen {
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

func (d *Driver) frozen(p *place, alive *running) bool {
	g, err := p.groupOf(alive)
	if err != nil {
		return false
	}
	if !g.canFreeze() {
		return stopped(alive.pid)
	}
	return g.frozen()
}

// groupOf are the cgroups of the run that alive is the first process of: the file is written anew only
// when that has ended.
func (p *place) groupOf(alive *running) (group, error) {
	if known := alive.group.Load(); known != nil {
		return *known, nil
	}
	r, err := p.run()
	if err == nil && alive.alive() {
		alive.group.Store(&r.Group)
	}
	return r.Group, err
}

// release lets the processes of an instance go that are held: even a killed one dies only then.
func (d *Driver) release(id driver.ID, g group, alive *running) {
	var err error
	switch {
	case g.canFreeze():
		err = g.thawDying()
	case stopped(alive.pid) && alive.alive():
		err = hold(d.ctx, alive, false)
	}
	if err != nil {
		d.opts.Log.Warn("thaw an instance that is ended", "instance", id, "error", err)
	}
}

// watch sees to the end of a run, whoever ended it.
func (d *Driver) watch(id driver.ID, r *running) {
	if r.wait(d.ctx) != nil {
		return
	}
	if d.forget(id, r) {
		d.detach(id)
	}
	p, err := d.lock(d.ctx, id)
	if err != nil {
		return // destroyed, or we are closing
	}
	defer p.Close()
	if alive, err := d.live(p); alive != nil || err != nil {
		return // started again
	}
	if err := d.afterRun(d.ctx, p); err != nil {
		d.opts.Log.Warn("clear up after an instance", "instance", id, "error", err)
	}
}
