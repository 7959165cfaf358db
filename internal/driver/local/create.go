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
	if err := errors.Join(ctx.Err(), d.valid(spec)); err != nil {
		return driver.Status{}, err
	}
	id := idOf(spec.Key)
	for {
		r := record{Spec: spec, Limits: fill(spec.Limits, d.opts.Defaults), CreatedAt: time.Now().UTC().Round(0)}
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

// valid says what about a Spec this driver could never do.
func (d *Driver) valid(spec driver.Spec) error {
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
	if d.opts.Tier != TierRoot {
		return fmt.Errorf("%w: a hard limit on the disk needs root", driver.ErrInvalid)
	}
	return checkImage(fill(spec.Limits, d.opts.Defaults))
}

// begin claims the ID with the record of what is asked for.
func (d *Driver) begin(id driver.ID, r record) (*place, error) {
	p, err := d.stage(id, r)
	if err != nil {
		return nil, full(err)
	}
	if err := d.claim(p); err != nil {
		p.Close()
		return nil, errors.Join(err, d.discard(p.path))
	}
	d.opts.At("after-claim", id)
	return p, nil
}

// finish starts a claimed instance, or leaves nothing of it.
func (d *Driver) finish(ctx context.Context, p *place, r record) (driver.Status, error) {
	var err error
	if r.Limits.DiskHard {
		err = makeImage(ctx, p, r.Limits.DiskBytes)
	}
	if err == nil {
		err = d.firstRun(ctx, p, r)
	}
	if err != nil {
		return driver.Status{}, errors.Join(fmt.Errorf("create instance: %w", err), d.drop(p))
	}
	st, err := d.statusOf(p, r)
	if err == nil {
		d.attach(st, r.Spec)
	}
	return st, err
}

// firstRun starts the instance and syncs its files at the same time. What is acknowledged after it outlives
// a power loss.
func (d *Driver) firstRun(ctx context.Context, p *place, r record) error {
	synced := make(chan error, 1)
	go func() { synced <- p.syncFiles(r) }()
	if err := errors.Join(d.launch(ctx, p, r), <-synced); err != nil {
		return err
	}
	d.opts.At("after-ready", p.id)
	return p.keep()
}

// exists answers a Create whose ID is taken. Nil says that it was free after all: what another process
// left unfinished there is gone.
func (d *Driver) exists(ctx context.Context, id driver.ID) error {
	p, err := d.lock(ctx, id)
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
