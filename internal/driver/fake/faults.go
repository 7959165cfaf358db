package fake

import (
	"context"
	"errors"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

// ErrUnreachable is the error for a provider that cannot be reached.
var ErrUnreachable error = &driver.TransientError{Err: errors.New("fake driver is unreachable")}

// Op is an operation of the driver, in faults and in the log.
type Op string

// The operations. Any matches all of them.
const (
	Any     Op = ""
	Create  Op = driver.OpCreate
	Inspect Op = driver.OpInspect
	List    Op = driver.OpList
	Destroy Op = driver.OpDestroy
	Stop    Op = driver.OpStop
	Start   Op = driver.OpStart
	Freeze  Op = driver.OpFreeze
	Thaw    Op = driver.OpThaw
)

// fault is a fault that may happen in the current call. It comes from a Rule or a shared Fault.
type fault struct {
	when    when
	entries int           // number of entries that a List yields first, for within
	slow    time.Duration // time to wait before err
	do      func()
	err     error
	take    func() bool // counts one use of the fault; false if none is left
}

// when is the moment of a fault within a call.
type when int

const (
	before when = iota // before the effect of the call
	within             // during a List, after some of its entries
	after              // after the effect of the call
)

// applyFaults applies the faults of one moment, up to the first with an error.
func (c *call) applyFaults(ctx context.Context, now when) error {
	for _, f := range c.faults {
		if f.when != now || !f.take() {
			continue
		}
		if f.do != nil {
			f.do()
		}
		if err := sleep(ctx, f.slow); err != nil {
			return err
		}
		if f.err != nil {
			return f.err
		}
	}
	return nil
}

// listFault returns the error with which a List ends early, and the number of entries that it yields before.
// A nil error means that the List is complete.
func (c *call) listFault() (int, error) {
	for _, f := range c.faults {
		if f.when == within && f.take() {
			return f.entries, f.err
		}
	}
	return 0, nil
}

// faults returns the faults that may happen in a call: first those of the Driver value, then the shared ones.
func (d *Driver) faults(op Op, key driver.Key) ([]fault, error) {
	shared, err := d.sharedFaults(op, key)
	return append(d.ownFaults(op, key), shared...), err
}

func matchesOp(fault, op Op) bool { return fault == Any || fault == op }
