package local

import (
	"errors"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

// tend looks after the instances from time to time, until Close: it measures their files, and attaches to
// those that another driver started.
func (d *Driver) tend() {
	if d.opts.DiskEvery < 0 {
		return
	}
	pause := d.opts.DiskEvery
	for {
		select {
		case <-d.ctx.Done():
			return
		case <-time.After(pause):
		}
		begun := time.Now()
		for _, id := range d.ids() {
			if err := d.look(id); err != nil && d.ctx.Err() == nil && !errors.Is(err, driver.ErrNotFound) {
				d.opts.Log.Warn("look after an instance", "instance", id, "error", err)
			}
		}
		d.emptyTrash() // what could not be removed before
		pause = max(d.opts.DiskEvery, 10*time.Since(begun))
	}
}

// look looks after one instance that runs.
func (d *Driver) look(id driver.ID) error {
	p, err := d.find(id)
	if err != nil {
		return err
	}
	defer p.Close()
	if d.opts.Attach != nil && !d.isAttached(id) {
		d.adopt(id)
	}
	st, err := d.status(p)
	if err != nil || st.Phase != driver.PhaseRunning {
		return err
	}
	r, err := p.record()
	if err != nil {
		return err
	}
	return d.checkDisk(d.ctx, p, r)
}
