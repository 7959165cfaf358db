package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

// Create claims the ID, makes the instance's directory and starts it.
func (d *Driver) Create(ctx context.Context, spec driver.Spec) (driver.Status, error) {
	if err := errors.Join(ctx.Err(), d.valid(ctx, spec)); err != nil {
		return driver.Status{}, err
	}
	limits, err := d.disks.withDisk(ctx, fill(spec.Limits, d.opts.Defaults))
	if err != nil {
		return driver.Status{}, asQuotaError(err)
	}
	id := idOf(spec.Key)
	for {
		r := record{Spec: spec, Limits: limits, CreatedAt: time.Now().UTC().Round(0)}
		p, err := d.begin(id, r)
		if err == nil {
			defer p.Close()
			return d.finish(ctx, p, r)
		}
		if !errors.Is(err, fs.ErrExist) {
			return driver.Status{}, err
		}
		if err := d.exists(ctx, id); err != nil {
			return driver.Status{}, err
		}
	}
}

// valid returns an error for a Spec that this driver can never make.
func (d *Driver) valid(ctx context.Context, spec driver.Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	if _, err := d.base(spec.Base); err != nil {
		return err
	}
	for _, m := range spec.Mounts {
		if info, err := os.Stat(m.Source); err != nil || !info.IsDir() {
			return fmt.Errorf("%w: mount source %s is no directory", driver.ErrInvalid, m.Source)
		}
	}
	if !spec.Limits.DiskHard {
		return nil
	}
	return asQuotaError(d.disks.checkImage(ctx, fill(spec.Limits, d.opts.Defaults)))
}

// begin makes the directory of an instance with its record and claims the ID. It is fs.ErrExist if the ID is taken.
func (d *Driver) begin(id driver.ID, r record) (*instanceDir, error) {
	p, err := d.dirs.stage(id, r)
	if err != nil {
		return nil, asQuotaError(err)
	}
	if err := d.dirs.claim(p); err != nil {
		p.Close()
		return nil, errors.Join(err, d.trash.discard(p.path))
	}
	d.opts.At("after-claim", id)
	return p, nil
}

// finish starts a claimed instance. It removes the instance after an error.
func (d *Driver) finish(ctx context.Context, p *instanceDir, r record) (driver.Status, error) {
	if err := d.runs.firstRun(ctx, p, r); err != nil {
		return driver.Status{}, errors.Join(fmt.Errorf("create instance: %w", asQuotaError(err)), d.drop(p))
	}
	st, err := d.statusOf(p, r)
	if err == nil {
		d.attachments.attach(st, r.Spec)
	}
	return st, err
}

// firstRun starts the instance and syncs its files at the same time. If it returns no error, the instance survives a
// power loss.
func (rs runs) firstRun(ctx context.Context, p *instanceDir, r record) error {
	var disk *image
	if r.Limits.DiskHard {
		made, err := rs.d.disks.claimImage(ctx, p, r.Limits.DiskBytes)
		if err != nil {
			return err
		}
		disk = &made
	}
	synced := make(chan error, 1)
	go func() { synced <- p.syncFiles(r) }()
	if err := errors.Join(rs.launch(ctx, p, r, disk), <-synced); err != nil {
		return err
	}
	rs.d.opts.At("after-ready", p.id)
	return p.keep()
}

// exists returns the error of a Create whose ID is taken. It returns nil if the ID is free now: the instance ended, or
// its creation was never finished and exists has removed it.
func (d *Driver) exists(ctx context.Context, id driver.ID) error {
	p, err := d.dirs.lock(ctx, id)
	if errors.Is(err, driver.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer p.Close()
	st, err := d.status(p)
	if err != nil {
		return err
	}
	switch st.Phase {
	case driver.PhaseFailed:
		return d.drop(p)
	case driver.PhaseRunning, driver.PhaseFrozen:
		if err := p.adopt(); err != nil {
			return err
		}
	}
	return &driver.ExistsError{Status: st}
}
