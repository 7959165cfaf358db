package fake

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

// Driver is a fake driver on one directory. It implements driver.Driver, Stopper and Freezer.
type Driver struct {
	dir         string
	uniqueNames bool
	minLatency  time.Duration
	maxLatency  time.Duration

	listed atomic.Pointer[listed]

	mu    sync.Mutex
	rules []*Rule
}

var _ interface {
	driver.Driver
	driver.Stopper
	driver.Freezer
} = (*Driver)(nil)

// Option changes how a Driver behaves.
type Option func(*Driver)

// UniqueNames makes Create refuse a second incarnation of a sandbox while the first exists, as providers
// with unique names do. The error is a *driver.ExistsError about the first. All drivers that share a
// directory must have this option, or none.
func UniqueNames() Option { return func(d *Driver) { d.uniqueNames = true } }

// Latency makes every call take between min and max, half of it before the effect and half after.
func Latency(min, max time.Duration) Option {
	return func(d *Driver) { d.minLatency, d.maxLatency = min, max }
}

// New opens dir. It creates the directory if it does not exist.
func New(dir string, opts ...Option) (*Driver, error) {
	d := &Driver{dir: dir}
	for _, o := range opts {
		o(d)
	}
	for _, sub := range []string{instancesDir, endedDir, firedDir, tmpDir} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("open fake driver: %w", err)
		}
	}
	return d, nil
}

// Kind returns "fake".
func (d *Driver) Kind() string { return "fake" }

// Create makes the file of spec's instance.
func (d *Driver) Create(ctx context.Context, spec driver.Spec) (st driver.Status, err error) {
	err = d.call(ctx, call{Op: Create, Key: spec.Key}, func(c *call) (bool, error) {
		if err := spec.Validate(); err != nil {
			return false, err
		}
		st, err = d.claim(spec, c.Call)
		c.ID = st.ID
		return err == nil, err
	})
	return answer(st, err)
}

// Inspect reads one instance's file.
func (d *Driver) Inspect(ctx context.Context, id driver.ID) (st driver.Status, err error) {
	err = d.call(ctx, call{Op: Inspect, Key: d.keyOf(id), ID: id}, func(*call) (bool, error) {
		st, err = d.status(id)
		return false, err
	})
	return answer(st, err)
}

// Destroy ends the instance for good.
func (d *Driver) Destroy(ctx context.Context, id driver.ID) error {
	return d.call(ctx, call{Op: Destroy, Key: d.keyOf(id), ID: id}, func(*call) (bool, error) {
		return d.end(id)
	})
}

// List yields the instances in the directory. If sel is empty, it also yields entries that are not instances of
// this driver. They have no Key.
func (d *Driver) List(ctx context.Context, sel driver.Selector) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		stopped := false
		begin := call{Op: List, Key: driver.Key{Sandbox: sel.Sandbox}}
		err := d.call(ctx, begin, func(c *call) (bool, error) {
			all, err := d.all(sel)
			if err != nil {
				return false, err
			}
			n, cut := c.listFault()
			for i, st := range all {
				if cut != nil && i == n {
					return false, cut
				}
				if !yield(st, nil) {
					stopped = true
					return false, nil
				}
			}
			return false, cut
		})
		if err != nil && !stopped {
			yield(driver.Status{}, err)
		}
	}
}

// Stop stops the instance.
func (d *Driver) Stop(ctx context.Context, id driver.ID) error {
	_, err := d.changePhase(ctx, Stop, id, driver.PhaseStopped, notFailed)
	return err
}

// Start starts or thaws the instance.
func (d *Driver) Start(ctx context.Context, id driver.ID) (driver.Status, error) {
	return d.changePhase(ctx, Start, id, driver.PhaseRunning, notFailed)
}

// Freeze freezes a running instance.
func (d *Driver) Freeze(ctx context.Context, id driver.ID) error {
	_, err := d.changePhase(ctx, Freeze, id, driver.PhaseFrozen, runningOrFrozen)
	return err
}

// Thaw resumes a frozen instance.
func (d *Driver) Thaw(ctx context.Context, id driver.ID) error {
	_, err := d.changePhase(ctx, Thaw, id, driver.PhaseRunning, runningOrFrozen)
	return err
}

func runningOrFrozen(p driver.Phase) bool { return p == driver.PhaseRunning || p == driver.PhaseFrozen }
func notFailed(p driver.Phase) bool {
	return runningOrFrozen(p) || p == driver.PhaseStarting || p == driver.PhaseStopped
}

// changePhase changes an instance's phase, if may reports that this is possible from its present phase.
func (d *Driver) changePhase(ctx context.Context, op Op, id driver.ID, to driver.Phase, may func(driver.Phase) bool) (st driver.Status, err error) {
	err = d.call(ctx, call{Op: op, Key: d.keyOf(id), ID: id}, func(*call) (changed bool, err error) {
		st, err = d.update(id, func(r *record) error {
			if !may(r.Phase) {
				return fmt.Errorf("%s a %s instance: %w", op, r.Phase, driver.ErrNotRunning)
			}
			changed = r.Phase != to
			r.Phase, r.Reason = to, ""
			return nil
		})
		return changed && err == nil, err
	})
	return answer(st, err)
}

// answer returns no status if the call has an error: a caller that lost the reply does not get the status.
func answer(st driver.Status, err error) (driver.Status, error) {
	if err != nil {
		return driver.Status{}, err
	}
	return st, nil
}
