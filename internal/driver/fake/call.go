package fake

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

// call is a call in progress.
type call struct {
	Call    string
	Op      Op
	Key     driver.Key
	ID      driver.ID
	Effect  bool
	Outcome string
	faults  []fault
}

func (c *call) start() { c.Call = strconv.FormatUint(rand.Uint64(), 36) }

// call runs one operation: it logs that it was asked for, lets the faults have their say, acts, logs
// the effect, lets the faults have their say again, and logs how it ended.
func (d *Driver) call(ctx context.Context, c call, act func(*call) (effect bool, err error)) error {
	c.start()
	if err := d.append(c.line(lineAsked)); err != nil {
		return err
	}
	err := d.run(ctx, &c, act)
	c.Outcome = driver.Classify(err)
	if logErr := d.append(c.line(lineEnded)); logErr != nil && err == nil {
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
	if err := c.strike(ctx, before); err != nil {
		return err
	}
	if c.Effect, err = act(c); err != nil {
		return err
	}
	if c.Effect {
		if err := d.append(c.line(lineEffect)); err != nil {
			return err
		}
	}
	if err := c.strike(ctx, after); err != nil {
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

// sleep waits for the given time, or returns ctx's error, which also ends a wait of nothing.
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
