package fake

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

// call is a call of the driver that is in progress.
type call struct {
	Call    string
	Op      Op
	Key     driver.Key
	ID      driver.ID
	Effect  bool
	Outcome string
	faults  []fault
}

func (c *call) setID() { c.Call = strconv.FormatUint(rand.Uint64(), 36) }

// call runs one operation. It logs the request, applies the faults of the moment before, calls act, logs
// the effect, applies the faults of the moment after, and logs the outcome.
func (d *Driver) call(ctx context.Context, c call, act func(*call) (effect bool, err error)) error {
	c.setID()
	if err := d.appendLine(c.line(lineAsked)); err != nil {
		return err
	}
	err := d.run(ctx, &c, act)
	c.Outcome = driver.Classify(err)
	if logErr := d.appendLine(c.line(lineEnded)); logErr != nil && err == nil {
		return logErr
	}
	return err
}

func (d *Driver) run(ctx context.Context, c *call, act func(*call) (bool, error)) error {
	faults, err := d.faults(c.Op, c.Key)
	if err != nil {
		return err
	}
	c.faults = faults
	latency := d.latency()
	if err := sleep(ctx, latency/2); err != nil {
		return err
	}
	if err := c.applyFaults(ctx, before); err != nil {
		return err
	}
	if c.Effect, err = act(c); err != nil {
		return err
	}
	if c.Effect {
		if err := d.appendLine(c.line(lineEffect)); err != nil {
			return err
		}
	}
	if err := c.applyFaults(ctx, after); err != nil {
		return err
	}
	return sleep(ctx, latency-latency/2)
}

func (d *Driver) latency() time.Duration {
	if d.maxLatency <= d.minLatency {
		return d.minLatency
	}
	return d.minLatency + rand.N(d.maxLatency-d.minLatency+1)
}

// sleep waits, at most until ctx ends. It returns ctx's error, also if the time to wait is zero.
func sleep(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
