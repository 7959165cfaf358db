package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/sandbox"
)

// DefaultOrphanGrace is how long an instance that nobody claims is left alone: longer than any create
// takes, and long enough for a person to notice that a database was restored from the day before.
const DefaultOrphanGrace = time.Hour

// SweepOptions says how to sweep.
type SweepOptions struct {
	DryRun bool          // find, and do nothing about it
	Grace  time.Duration // how long an orphan must have been seen before it is ended; zero: DefaultOrphanGrace
}

// Sweep is what a sweep found and did.
type Sweep struct {
	Drivers []DriverSweep
	Keys    int64 // idempotency keys forgotten
	Holds   int64 // holds that had run out
	Places  int64 // reserved places that had run out
	Took    time.Duration
	DryRun  bool
	BeganAt time.Time
}

// DriverSweep is what a sweep found at one driver.
type DriverSweep struct {
	Driver     string
	Instances  int       // listed
	Unreadable int       // listed without a key of ours: nobody's, and left alone
	Foreign    int       // of another installation of Berth
	Found      []Finding // what does not fit
	Err        error     // the list could not be read to its end: nothing was done
}

// Finding is one thing that does not fit.
type Finding struct {
	Kind     string // orphan, stray, left or missing
	Sandbox  string
	Instance driver.ID
	Action   string // ended, settled, waits, kept or failed
	Detail   string
}

// The kinds of findings, and what was done about them.
const (
	FoundOrphan  = "orphan"  // an instance of a sandbox that there is no record of
	FoundStray   = "stray"   // an instance that its sandbox's record does not name
	FoundLeft    = "left"    // an instance that was here when this machine was forgotten, of a sandbox that is no longer here
	FoundMissing = "missing" // a record that names an instance which the driver does not list

	ActionEnded   = "ended"
	ActionSettled = "settled" // the engine looked, and what it found is settled
	ActionWaits   = "waits"   // not seen for long enough, or somebody works on it
	ActionKept    = "kept"    // a dry run, or files that may be all there is
	ActionFailed  = "failed"
)

// Sweep compares what every driver has with what the records say, ends what nobody claims, has the
// engine look at what does not fit, and forgets what has run out. A list that cannot be read to its end
// is not an empty list: nothing is done about that driver.
func (e *Engine) Sweep(ctx context.Context, o SweepOptions) (sw Sweep, err error) {
	o.Grace = cmp.Or(o.Grace, DefaultOrphanGrace)
	sw.BeganAt, sw.DryRun = time.Now(), o.DryRun
	for _, name := range e.DriverNames() {
		if ctx.Err() != nil {
			return sw, ctx.Err()
		}
		sw.Drivers = append(sw.Drivers, e.sweepDriver(ctx, name, o))
	}
	if !o.DryRun {
		err = e.forget(ctx, &sw)
	}
	sw.Took = time.Since(sw.BeganAt)
	return sw, err
}

// forgetKeysAfter is how long the answer to an idempotency key is kept.
const forgetKeysAfter = 24 * time.Hour

// forget removes what has run out, in pieces that hold up nobody.
func (e *Engine) forget(ctx context.Context, sw *Sweep) error {
	for _, f := range []struct {
		n  *int64
		do func() (int64, error)
	}{
		{&sw.Keys, func() (int64, error) { return e.Store.ExpireKeys(ctx, time.Now().Add(-forgetKeysAfter), forgetPiece) }},
		{&sw.Holds, func() (int64, error) { return e.Store.ExpireHolds(ctx, forgetPiece) }},
		{&sw.Places, func() (int64, error) { return e.Store.ExpireReservations(ctx, forgetPiece) }},
	} {
		for n := int64(forgetPiece); n == forgetPiece; *f.n += n {
			var err error
			if n, err = f.do(); err != nil {
				return err
			}
		}
	}
	return nil
}

const forgetPiece = 1000

func (e *Engine) sweepDriver(ctx context.Context, name string, o SweepOptions) DriverSweep {
	sw := DriverSweep{Driver: name}
	listed := map[driver.ID]driver.Status{}
	for st, err := range e.Drivers[name].List(ctx, driver.Selector{}) {
		if err != nil {
			sw.Err = fmt.Errorf("read the list of instances: %w", err)
			return sw
		}
		sw.Instances++
		if st.ID == "" || st.Key.Sandbox == "" {
			sw.Unreadable++
		}
		listed[st.ID] = st
	}
	claims, err := e.claims(ctx, name)
	if err != nil {
		sw.Err = err
		return sw
	}
	there := map[driver.ID]bool{}
	for id, st := range listed {
		there[id] = true
		if id != "" && st.Key.Sandbox != "" && driver.ID(claims[st.Key.Sandbox]) != id {
			e.unclaimedOne(ctx, &sw, st, o)
		}
	}
	e.orphans.keep(name, sw.orphans())
	e.unseen.keep(name, there)
	for id, instance := range claims {
		if !there[driver.ID(instance)] {
			e.missing(ctx, &sw, id, instance, o)
		}
	}
	slices.SortFunc(sw.Found, func(a, b Finding) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Sandbox, b.Sandbox)) })
	return sw
}

// orphans are the instances that were found to be.
func (sw *DriverSweep) orphans() map[driver.ID]bool {
	found := map[driver.ID]bool{}
	for _, f := range sw.Found {
		if f.Kind == FoundOrphan {
			found[f.Instance] = true
		}
	}
	return found
}

// claims is which instance each record names at a driver.
func (e *Engine) claims(ctx context.Context, name string) (map[string]sandbox.InstanceID, error) {
	claims := map[string]sandbox.InstanceID{}
	for after := ""; ; {
		page, err := e.Store.Placed(ctx, name, e.Host, after, claimsPage)
		if err != nil {
			return nil, err
		}
		for _, c := range page {
			claims[c.Sandbox] = c.Instance
		}
		if len(page) < claimsPage {
			return claims, nil
		}
		after = page[len(page)-1].Sandbox
	}
}

const claimsPage = 1000

// unclaimedOne is about an instance that no record names. If its sandbox has a record, that is for the
// holder of the sandbox's lease to judge. A record comes before its instance and is never removed: an
// instance of our own without one is left over from a database that is no more.
func (e *Engine) unclaimedOne(ctx context.Context, sw *DriverSweep, st driver.Status, o SweepOptions) {
	f := Finding{Kind: FoundStray, Sandbox: st.Key.Sandbox, Instance: st.ID}
	row, err := e.Store.Sandbox(ctx, st.Key.Sandbox)
	switch {
	case err == nil && row.Instance != sandbox.InstanceID(st.ID) && st.Key.Incarnation <= row.Left:
		f.Kind = FoundLeft
		f.Action, f.Detail = e.keepLeft(ctx, sw.Driver, row, st, o)
	case err == nil && row.Host != "" && row.Host != e.Host:
		f.Action, f.Detail = ActionWaits, "the sandbox is on the machine "+row.Host+" now"
	case err == nil && row.Instance == sandbox.InstanceID(st.ID):
		return // recorded meanwhile
	case err == nil:
		f.Action, f.Detail = e.settleFound(ctx, st.Key.Sandbox, o)
	case !errors.Is(err, sandbox.ErrNotFound):
		f.Action, f.Detail = ActionFailed, err.Error()
	case e.Installation == "" || st.Labels[LabelInstallation] != e.Installation:
		sw.Foreign++
		return
	default:
		f.Kind = FoundOrphan
		f.Action, f.Detail = e.endOrphan(ctx, sw.Driver, st, o)
	}
	sw.Found = append(sw.Found, f)
}

// missing is about an instance that was not listed when its record was read. Either may have come or gone
// since, so both are asked again.
func (e *Engine) missing(ctx context.Context, sw *DriverSweep, id string, instance sandbox.InstanceID, o SweepOptions) {
	f := Finding{Kind: FoundMissing, Sandbox: id, Instance: driver.ID(instance)}
	_, err := e.Drivers[sw.Driver].Inspect(ctx, f.Instance)
	row, unread := e.Store.Sandbox(ctx, id)
	switch {
	case err == nil, unread == nil && row.Instance != instance:
		return
	case unread != nil:
		f.Action, f.Detail = ActionFailed, unread.Error()
	case !errors.Is(err, driver.ErrNotFound):
		f.Action, f.Detail = ActionFailed, err.Error()
	default:
		f.Action, f.Detail = e.settleFound(ctx, id, o)
	}
	sw.Found = append(sw.Found, f)
}

// settleFound has the engine look at a sandbox that does not fit.
func (e *Engine) settleFound(ctx context.Context, id string, o SweepOptions) (action, detail string) {
	switch {
	case o.DryRun:
		return ActionKept, "a dry run"
	case ctx.Err() != nil:
		return ActionWaits, "the server is about to end"
	}
	_, err := e.drive(ctx, id, sweeper, true)
	switch {
	case err == nil:
		return ActionSettled, ""
	case unfinished(sandbox.Sandbox{}, err):
		return ActionWaits, "somebody works on the sandbox"
	}
	return ActionFailed, err.Error()
}

// endOrphan ends an instance that there is no record of, once it has been seen for the grace.
func (e *Engine) endOrphan(ctx context.Context, name string, st driver.Status, o SweepOptions) (action, detail string) {
	now := time.Now()
	left := o.Grace - now.Sub(e.orphans.since(sighting{name, st.ID}, now, time.Time{}))
	switch {
	case left > 0:
		return ActionWaits, fmt.Sprintf("it is ended in %s if no record claims it", left.Round(time.Second))
	case o.DryRun:
		return ActionKept, "a dry run"
	}
	if err := e.Drivers[name].Destroy(ctx, st.ID); err != nil {
		return ActionFailed, err.Error()
	}
	e.Logger.WarnContext(ctx, "ended an instance that no record claims", "driver", name, "instance", st.ID, "sandbox_id", st.Key.Sandbox)
	return ActionEnded, ""
}

// RunSweeps sweeps every so often until the context ends.
func (e *Engine) RunSweeps(ctx context.Context, every time.Duration, o SweepOptions) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		sw, err := e.Sweep(ctx, o)
		if ctx.Err() == nil {
			e.reportSweep(ctx, sw, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// reportSweep says what people should know of a sweep, and nothing if all is well.
func (e *Engine) reportSweep(ctx context.Context, sw Sweep, err error) {
	if err != nil {
		e.Logger.WarnContext(ctx, "forget what has run out", "error", err)
	}
	for _, d := range sw.Drivers {
		if d.Err != nil {
			e.Logger.WarnContext(ctx, "sweep: nothing was done about a driver", "driver", d.Driver, "error", d.Err)
		}
		for _, f := range d.Found {
			e.Metrics.SweepFindings.WithLabelValues(f.Kind, f.Action).Inc()
			e.Logger.InfoContext(ctx, "sweep: "+f.Kind, "driver", d.Driver, "sandbox_id", f.Sandbox, "instance", f.Instance, "action", f.Action, "detail", f.Detail)
		}
	}
}
