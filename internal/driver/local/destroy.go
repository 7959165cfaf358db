package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/berthdev/berth/internal/driver"
)

// Destroy kills the instance and takes its name away. Its processes are beyond help then; what is left of
// them and of its files is removed in the background.
func (d *Driver) Destroy(ctx context.Context, id driver.ID) error {
	p, err := d.lock(ctx, id)
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

// drop ends an instance whose lock is held. Its name goes first: from then on whoever empties the trash
// ends it, if this process does not get that far.
func (d *Driver) drop(p *place) error {
	alive, err := d.live(p)
	if err != nil {
		return err
	}
	r := d.lastRun(p)
	if err := d.moveToTrash(p.path); err != nil {
		return err
	}
	d.opts.At("mid-destroy", p.id)
	if alive != nil {
		d.detach(p.id)
		d.forget(p.id, alive) // the name is free: whoever takes it must not meet the dying
		err = alive.kill()
		d.release(p.id, r.Group, alive)
	}
	d.background(d.emptyTrash)
	return err
}
