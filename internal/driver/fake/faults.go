package fake

import (
	"context"
	"errors"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

// ErrUnreachable is what a provider that cannot be reached answers: nothing is known.
var ErrUnreachable error = &driver.TransientError{Err: errors.New("fake driver is unreachable")}

// Op is an operation a fault or a log line is about.
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

// fault is one that may strike the call at hand, wherever it was set.
type fault struct {
	when    when
	entries int
	slow    time.Duration
	do      func()
	err     error
	take    func() bool // uses it up by one; false when nothing is left
}

type when int

const (
	before when = iota
	within      // a List, after some of its entries
	after
)

// strike lets the faults of one moment happen, up to the first with an error.
func (c *call) strike(ctx context.Context, now when) error {
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

// cut says after how many entries a List breaks off, and with which error, if any.
func (c *call) cut() (int, error) {
	for _, f := range c.faults {
		if f.when == within && f.take() {
			return f.entries, f.err
		}
	}
	return 0, nil
}

// faults are those that may strike a call, in the order they were set.
func (d *Driver) faults(op Op, key driver.Key) ([]fault, error) {
	shared, err := d.sharedFaults(op, key)
	return append(d.ownFaults(op, key), shared...), err
}

func covers(fault, op Op) bool { return fault == Any || fault == op }
