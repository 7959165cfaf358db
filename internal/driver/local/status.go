package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/berthdev/berth/internal/driver"
)

// processes holds the known first processes of instances.
type processes struct{ d *Driver }

// live returns the first process of an instance, or nil if the instance does not run.
func (ps processes) live(p *instanceDir) (*running, error) {
	if r := ps.known(p.id); r != nil {
		if r.alive() {
			return r, nil
		}
	}
	r, err := socketListener(p)
	if r == nil || err != nil {
		return nil, err
	}
	return ps.remember(p.id, r), nil
}

func (ps processes) known(id driver.ID) *running {
	ps.d.mu.Lock()
	defer ps.d.mu.Unlock()
	return ps.d.running[id]
}

// remember stores the first process of an instance and watches for its end. If another call has stored one that is
// alive, remember returns that one instead.
func (ps processes) remember(id driver.ID, r *running) *running {
	ps.d.mu.Lock()
	defer ps.d.mu.Unlock()
	if was := ps.d.running[id]; was != nil && was.alive() {
		return was
	}
	ps.d.running[id] = r
	if !ps.d.closed {
		ps.d.work.Go(func() { ps.d.runs.watch(id, r) })
	}
	return r
}

// forget removes a first process that has ended or is being ended. It reports whether it was the stored one of the
// instance.
func (ps processes) forget(id driver.ID, r *running) bool {
	ps.d.mu.Lock()
	defer ps.d.mu.Unlock()
	if ps.d.running[id] != r {
		return false
	}
	delete(ps.d.running, id)
	return true
}

// status returns the status of an instance.
func (d *Driver) status(p *instanceDir) (driver.Status, error) {
	r, err := p.record()
	if err != nil {
		return d.unreadable(p, err)
	}
	return d.statusOf(p, r)
}

// statusOf is status for a caller that has read the record.
func (d *Driver) statusOf(p *instanceDir, r record) (driver.Status, error) {
	st := driver.Status{
		ID: p.id, Key: r.Spec.Key, Tenant: r.Spec.Tenant, Labels: maps.Clone(r.Spec.Labels),
		CreatedAt: r.CreatedAt, Reason: p.reason(),
	}
	alive, err := d.processes.live(p)
	if err != nil {
		return driver.Status{}, err
	}
	st.Phase = d.phase(p, alive)
	if st.Phase == driver.PhaseFailed {
		st.Reason = cutShort
	}
	if st.Reason == "" && !r.Limits.DiskHard {
		st.Reason = p.kept()
	}
	if alive != nil && r.Limits.DiskHard && !strings.Contains(st.Reason, ended) {
		if now, err := d.disks.problem(p, r, alive); err == nil {
			st.Reason = now // the recorded reason is from the last measurement
		}
	}
	st.Raw, st.Disk = string(st.Phase), describeLimit(r.Limits)
	return st, nil
}

func (d *Driver) phase(p *instanceDir, alive *running) driver.Phase {
	switch {
	case alive != nil && d.runs.frozen(p, alive):
		return driver.PhaseFrozen
	case alive != nil:
		return driver.PhaseRunning
	case p.made():
		return driver.PhaseStopped
	case p.busy():
		return driver.PhaseStarting
	}
	return driver.PhaseFailed
}

// unreadable returns the status of a directory whose record cannot be read. It is PhaseFailed if the creation was never
// finished and PhaseUnknown otherwise. If the directory was removed in between, it returns driver.ErrNotFound.
func (d *Driver) unreadable(p *instanceDir, err error) (driver.Status, error) {
	if !p.current() {
		return driver.Status{}, driver.ErrNotFound
	}
	if d.unfinished(p) {
		return driver.Status{
			ID: p.id, Key: keyOf(p.id), Phase: driver.PhaseFailed, Raw: string(driver.PhaseFailed), Reason: cutShort,
		}, nil
	}
	return driver.Status{ID: p.id, Phase: driver.PhaseUnknown, Raw: "unreadable", Reason: err.Error()}, nil
}

const cutShort = "its creation was cut short"

// unfinished reports whether the creation of an instance was cut short, so that no Create of it has returned. A finished
// instance has the file madeName, which is written after the record was synced.
func (d *Driver) unfinished(p *instanceDir) bool {
	alive, err := d.processes.live(p)
	return err == nil && alive == nil && !p.made() && !p.busy()
}

// Inspect returns the status of an instance. It reads the instance's directory and finds its first process.
func (d *Driver) Inspect(ctx context.Context, id driver.ID) (driver.Status, error) {
	if err := ctx.Err(); err != nil {
		return driver.Status{}, err
	}
	p, err := d.dirs.find(id)
	if err != nil {
		return driver.Status{}, err
	}
	defer p.Close()
	st, err := d.status(p)
	if err == nil && st.Key == (driver.Key{}) {
		return driver.Status{}, fmt.Errorf("inspect instance %s: %s", id, st.Reason)
	}
	return st, err
}

// List yields every instance in the directory that sel selects.
func (d *Driver) List(ctx context.Context, sel driver.Selector) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		entries, err := os.ReadDir(d.dir)
		if err != nil {
			yield(driver.Status{}, fmt.Errorf("list instances: %w", err))
			return
		}
		for _, e := range entries {
			if sel.Sandbox != "" && !strings.HasPrefix(e.Name(), sel.Sandbox+"-") {
				continue // the name shows that it is another sandbox
			}
			st, err := d.listed(ctx, driver.ID(e.Name()), sel)
			if errors.Is(err, driver.ErrNotFound) {
				continue
			}
			if !yield(st, err) || err != nil {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(driver.Status{}, err)
		}
	}
}

// listed returns the status of an instance for List. It returns driver.ErrNotFound if sel does not select the instance.
func (d *Driver) listed(ctx context.Context, id driver.ID, sel driver.Selector) (driver.Status, error) {
	if err := ctx.Err(); err != nil {
		return driver.Status{}, err
	}
	p, err := d.dirs.find(id)
	if err != nil {
		return driver.Status{}, err
	}
	defer p.Close()
	if sel != (driver.Selector{}) {
		r, err := p.record()
		if err != nil || sel.Sandbox != "" && sel.Sandbox != r.Spec.Key.Sandbox || sel.Tenant != "" && sel.Tenant != r.Spec.Tenant {
			return driver.Status{}, driver.ErrNotFound
		}
	}
	st, err := d.status(p)
	if err == nil && !p.current() {
		err = driver.ErrNotFound
	}
	return st, err
}

// ids returns the IDs of all instances in the directory.
func (dirs instanceDirs) ids() []driver.ID {
	entries, err := os.ReadDir(dirs.d.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		dirs.d.opts.Log.Warn("list instances", "error", err)
	}
	var ids []driver.ID
	for _, e := range entries {
		if idForm.MatchString(e.Name()) {
			ids = append(ids, driver.ID(e.Name()))
		}
	}
	return slices.Clip(ids)
}
