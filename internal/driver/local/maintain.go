package local

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

// maintain regularly measures the files of instances, attaches to instances that another driver started, empties the
// trash and ends instances without a directory, until Close.
func (d *Driver) maintain() {
	if d.opts.DiskEvery < 0 {
		return
	}
	due := map[driver.ID]*maintenance{}
	for {
		select {
		case <-d.ctx.Done():
			return
		case <-time.After(d.opts.DiskEvery):
		}
		known := map[driver.ID]*maintenance{}
		for _, id := range d.dirs.ids() {
			l := due[id]
			if l == nil {
				l = new(maintenance)
			}
			known[id] = l
			if l.begin() {
				d.background(func() { l.end(d.opts.DiskEvery, d.maintainOnce(id)) })
			}
		}
		due = known
		d.trash.empty() // tries failed removals again
		d.sweeper.endRemoved("")
	}
}

// maintenance is the schedule for one instance's measurements. An instance that takes long to measure is measured less
// often and does not delay the others.
type maintenance struct {
	busy atomic.Bool // a measurement is in progress
	next time.Time   // earliest time of the next measurement
}

// begin marks the instance as busy and returns true if it is time to measure it and no measurement is in progress.
func (l *maintenance) begin() bool {
	if !l.busy.CompareAndSwap(false, true) {
		return false
	}
	if time.Now().Before(l.next) {
		l.busy.Store(false)
		return false
	}
	return true
}

func (l *maintenance) end(every, took time.Duration) {
	if pause := 10 * took; pause > every {
		l.next = time.Now().Add(min(pause, longestPause))
	}
	l.busy.Store(false)
}

// longestPause limits the time between two measurements of an instance.
const longestPause = time.Minute

// maintainOnce maintains one instance, logs an error and returns the time that it took.
func (d *Driver) maintainOnce(id driver.ID) time.Duration {
	begun := time.Now()
	if err := d.maintainOne(id); err != nil && d.ctx.Err() == nil && !errors.Is(err, driver.ErrNotFound) {
		d.opts.Log.Warn("measure an instance", "instance", id, "error", err)
	}
	return time.Since(begun)
}

// maintainOne attaches to one instance if necessary and measures its files if it runs.
func (d *Driver) maintainOne(id driver.ID) error {
	p, err := d.dirs.find(id)
	if err != nil {
		return err
	}
	defer p.Close()
	if d.opts.Attach != nil && !d.attachments.isAttached(id) {
		d.sweeper.adopt(id)
	}
	st, err := d.status(p)
	if err != nil || st.Phase != driver.PhaseRunning {
		return err
	}
	r, err := p.record()
	if err != nil {
		return err
	}
	return d.disks.check(d.ctx, p, r)
}
