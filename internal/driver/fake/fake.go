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

// UniqueNames makes Create refuse a second live incarnation of a sandbox, as providers with unique
// names do, with a *driver.ExistsError that carries the first. All drivers that share a directory
// must agree on it.
func UniqueNames() Option { return func(d *Driver) { d.uniqueNames = true } }

// Latency makes every call take between min and max, half of it before the effect and half after.
func Latency(min, max time.Duration) Option {
	return func(d *Driver) { d.minLatency, d.maxLatency = min, max }
}

// New opens dir, making it if there is none.
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

// Kind is "fake".
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

// List yields what is in the directory. What is there but is not an instance of ours, or can no
// longer be read as one, comes without a Key, and only where sel does not narrow.
func (d *Driver) List(ctx context.Context, sel driver.Selector) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		stopped := false
		begin := call{Op: List, Key: driver.Key{Sandbox: sel.Sandbox}}
		err := d.call(ctx, begin, func(c *call) (bool, error) {
			all, err := d.all(sel)
			if err != nil {
				return false, err
			}
			n, cut := c.cut()
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

// Stop makes the instance stopped.
func (d *Driver) Stop(ctx context.Context, id driver.ID) error {
	_, err := d.turn(ctx, Stop, id, driver.PhaseStopped, anyPhase)
	return err
}

// Start makes the instance run.
func (d *Driver) Start(ctx context.Context, id driver.ID) (driver.Status, error) {
	return d.turn(ctx, Start, id, driver.PhaseRunning, anyPhase)
}

// Freeze makes a running instance frozen.
func (d *Driver) Freeze(ctx context.Context, id driver.ID) error {
	_, err := d.turn(ctx, Freeze, id, driver.PhaseFrozen, upPhase)
	return err
}

// Thaw makes a frozen instance run.
func (d *Driver) Thaw(ctx context.Context, id driver.ID) error {
	_, err := d.turn(ctx, Thaw, id, driver.PhaseRunning, upPhase)
	return err
}

func upPhase(p driver.Phase) bool { return p == driver.PhaseRunning || p == driver.PhaseFrozen }
func anyPhase(p driver.Phase) bool {
	return upPhase(p) || p == driver.PhaseStarting || p == driver.PhaseStopped
}

// turn changes an instance's phase to the given one, from any that may.
func (d *Driver) turn(ctx context.Context, op Op, id driver.ID, to driver.Phase, may func(driver.Phase) bool) (st driver.Status, err error) {
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

// answer withholds the status of a call that was answered with an error: a lost reply tells nothing.
func answer(st driver.Status, err error) (driver.Status, error) {
	if err != nil {
		return driver.Status{}, err
	}
	return st, nil
}
