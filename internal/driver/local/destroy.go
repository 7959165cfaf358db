package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/berthdev/berth/internal/driver"
)

// Destroy kills the instance and moves its directory to the trash. Its remaining processes and its files are
// removed in the background.
func (d *Driver) Destroy(ctx context.Context, id driver.ID) error {
	p, err := d.dirs.lock(ctx, id)
	if errors.Is(err, driver.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer p.Close()
	if err := d.drop(p); err != nil {
		return fmt.Errorf("destroy instance: %w", err)
	}
	return nil
}

// drop ends an instance whose lock is held. It moves the directory to the trash first: if this process dies after that,
// the next emptyTrash ends the instance.
func (d *Driver) drop(p *instanceDir) error {
	alive, err := d.processes.live(p)
	if err != nil {
		return err
	}
	r := d.runs.lastRun(p)
	if err := d.trash.put(p.path); err != nil {
		return err
	}
	d.opts.At("mid-destroy", p.id)
	if alive != nil {
		d.attachments.detach(p.id)
		d.processes.forget(p.id, alive) // the ID is free now: a new instance with it must not find the old process
		err = alive.kill()
		d.runs.release(p.id, r.Group, alive)
	}
	d.background(d.trash.empty)
	return err
}
