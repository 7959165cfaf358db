package fake

import (
	"time"

	"github.com/berthdev/berth/internal/driver"
)

// Rule is a fault of one Driver value, made by [Driver.On]. Its methods can be called in any order and
// apply from the next call of the driver on:
//
//	d.On(fake.Create).Fail(err)                    // always, and nothing is made
//	d.On(fake.Create).Fail(err).After().Times(1)   // one lost reply
//	d.On(fake.List).FailAfter(3, err)              // the page after three entries fails
//	d.On(fake.Any).Fail(fake.ErrUnreachable)       // the provider is unreachable
//	d.On(fake.Stop).Slow(time.Minute)              // slow, unless the context ends
type Rule struct {
	d       *Driver
	op      Op
	match   func(driver.Key) bool
	fault   fault
	bounded bool // the rule ends when left is 0
	left    int
}

// On adds a rule for calls of op. The rule has no effect until one of its methods sets a fault.
func (d *Driver) On(op Op) *Rule {
	r := &Rule{d: d, op: op}
	r.fault.take = r.take
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rules = append(d.rules, r)
	return r
}

// Fail makes the call return err.
func (r *Rule) Fail(err error) *Rule { return r.set(func() { r.fault.err = err }) }

// FailAfter makes a List yield at most n entries and then err.
func (r *Rule) FailAfter(n int, err error) *Rule {
	return r.set(func() { r.fault.when, r.fault.entries, r.fault.err = within, n, err })
}

// After makes the fault happen after the call's effect, so that only the reply is lost. A call that fails
// without the fault is not changed.
func (r *Rule) After() *Rule { return r.set(func() { r.fault.when = after }) }

// Times ends the rule after n calls.
func (r *Rule) Times(n int) *Rule { return r.set(func() { r.bounded, r.left = true, n }) }

// Slow makes the call wait, before the error of Fail if there is one. The end of the call's context ends the wait and
// the call.
func (r *Rule) Slow(wait time.Duration) *Rule { return r.set(func() { r.fault.slow = wait }) }

// Do calls f when the fault happens, on the caller's goroutine.
func (r *Rule) Do(f func()) *Rule { return r.set(func() { r.fault.do = f }) }

// Matching limits the rule to calls for whose Key match returns true. The Key of a List contains only the
// selected sandbox.
func (r *Rule) Matching(match func(driver.Key) bool) *Rule {
	return r.set(func() { r.match = match })
}

// Off ends the rule.
func (r *Rule) Off() { r.Times(0) }

func (r *Rule) set(change func()) *Rule {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	change()
	return r
}

func (r *Rule) take() bool {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	if r.bounded && r.left <= 0 {
		return false
	}
	r.left--
	return true
}

// ownFaults returns the faults of the rules that match a call. It calls match without holding the lock,
// because a test's match may call the driver.
func (d *Driver) ownFaults(op Op, key driver.Key) []fault {
	var faults []fault
	for _, r := range d.snapshot() {
		if matchesOp(r.op, op) && (r.match == nil || r.match(key)) {
			faults = append(faults, r.fault)
		}
	}
	return faults
}

func (d *Driver) snapshot() []Rule {
	d.mu.Lock()
	defer d.mu.Unlock()
	rules := make([]Rule, len(d.rules))
	for i, r := range d.rules {
		rules[i] = *r
	}
	return rules
}
