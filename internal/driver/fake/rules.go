package fake

import (
	"time"

	"github.com/berthdev/berth/internal/driver"
)

// Rule is a fault of one Driver value, begun with [Driver.On]. Its methods may come in any order and
// hold from the next call on:
//
//	d.On(fake.Create).Fail(err)                    // always, and nothing is made
//	d.On(fake.Create).Fail(err).After().Times(1)   // one lost reply
//	d.On(fake.List).FailAfter(3, err)              // the page after three entries fails
//	d.On(fake.Any).Fail(fake.ErrUnreachable)       // the provider is away
//	d.On(fake.Stop).Slow(time.Minute)              // slow, unless the context ends
type Rule struct {
	d       *Driver
	op      Op
	match   func(driver.Key) bool
	fault   fault
	bounded bool
	left    int
}

// On begins a rule for calls of op. Without a further word it changes nothing.
func (d *Driver) On(op Op) *Rule {
	r := &Rule{d: d, op: op}
	r.fault.take = r.take
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rules = append(d.rules, r)
	return r
}

// Fail makes the call answer err.
func (r *Rule) Fail(err error) *Rule { return r.set(func() { r.fault.err = err }) }

// FailAfter makes a List yield at most n entries and then err.
func (r *Rule) FailAfter(n int, err error) *Rule {
	return r.set(func() { r.fault.when, r.fault.entries, r.fault.err = within, n, err })
}

// After moves the fault behind the call's effect: what the caller misses is the reply. A call that
// fails by itself is not touched.
func (r *Rule) After() *Rule { return r.set(func() { r.fault.when = after }) }

// Times ends the rule after n calls.
func (r *Rule) Times(n int) *Rule { return r.set(func() { r.bounded, r.left = true, n }) }

// Slow makes the call wait first, or end with its context.
func (r *Rule) Slow(wait time.Duration) *Rule { return r.set(func() { r.fault.slow = wait }) }

// Do runs f at the moment of the fault, on the caller's goroutine.
func (r *Rule) Do(f func()) *Rule { return r.set(func() { r.fault.do = f }) }

// Matching narrows the rule to calls about some Keys. A List's Key has the selected sandbox alone.
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

// ownFaults asks the rules outside the lock: a test's match may call the driver.
func (d *Driver) ownFaults(op Op, key driver.Key) []fault {
	var faults []fault
	for _, r := range d.snapshot() {
		if covers(r.op, op) && (r.match == nil || r.match(key)) {
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
