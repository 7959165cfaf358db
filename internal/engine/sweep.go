package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
)

// DefaultOrphanGrace is the time for which a sweep keeps an instance without a record. It is longer than any create, and
// gives people time to notice that a database was restored from an old backup.
const DefaultOrphanGrace = time.Hour

// SweepOptions configures a sweep.
type SweepOptions struct {
	DryRun bool          // only report the differences
	Grace  time.Duration // time for which an orphan must have been seen before it is ended; zero: DefaultOrphanGrace
}

// Sweep is the result of a sweep.
type Sweep struct {
	Drivers []DriverSweep
	Keys    int64 // removed idempotency keys
	Holds   int64 // removed holds that had expired
	Places  int64 // removed quota reservations that had expired
	Took    time.Duration
	DryRun  bool
	BeganAt time.Time
}

// DriverSweep is the result of a sweep at one driver.
type DriverSweep struct {
	Driver     string
	Instances  int       // number of listed instances
	Unreadable int       // number of instances without an id or a sandbox id; they are kept
	Foreign    int       // number of instances of other installations of Berth; they are kept
	Found      []Finding // differences from the records
	Err        error     // the list or the records could not be read, and nothing was done; nil: they were read
}

// Finding is one difference between a driver's list and the rows.
type Finding struct {
	Kind     string // orphan, stray, left or missing
	Sandbox  string
	Instance driver.ID
	Action   string // ended, settled, waits, kept or failed
	Detail   string
}

// The kinds of findings, and the actions on them.
const (
	FoundOrphan  = "orphan"  // instance of a sandbox without a record
	FoundStray   = "stray"   // instance that the record of its sandbox does not name
	FoundLeft    = "left"    // instance that was left here when this machine was forgotten
	FoundMissing = "missing" // record that names an instance that the driver does not have

	ActionEnded   = "ended"   // the instance was destroyed
	ActionSettled = "settled" // the engine has settled the sandbox
	ActionWaits   = "waits"   // the grace is not over, or another holder works on the sandbox
	ActionKept    = "kept"    // dry run, or the instance may have the only copy of files
	ActionFailed  = "failed"
)

// Sweep compares the instances of every driver with the records. It ends instances without a record, settles sandboxes
// whose instances differ from the record, and removes expired rows. If a driver's list cannot be read to its end, Sweep
// does nothing for that driver.
func (e *Engine) Sweep(ctx context.Context, o SweepOptions) (sw Sweep, err error) {
	o.Grace = cmp.Or(o.Grace, DefaultOrphanGrace)
	sw.BeganAt, sw.DryRun = time.Now(), o.DryRun
	for _, name := range e.DriverNames() {
		if ctx.Err() != nil {
			return sw, ctx.Err()
		}
		sw.Drivers = append(sw.Drivers, e.sweeps.sweepDriver(ctx, name, o))
	}
	if !o.DryRun {
		err = e.sweeps.expireRows(ctx, &sw)
	}
	sw.Took = time.Since(sw.BeganAt)
	return sw, err
}

// forgetKeysAfter is the age at which the stored answer to an idempotency key is removed.
const forgetKeysAfter = 24 * time.Hour

// sweeps compares the instances of the drivers with the records, and ends or adopts those that do not match.
type sweeps struct{ e *Engine }

// expireRows removes expired rows in batches, so that no lock is held for long.
func (sr sweeps) expireRows(ctx context.Context, sw *Sweep) error {
	var exposed int64
	for _, f := range []struct {
		n  *int64
		do func() (int64, error)
	}{
		{&sw.Keys, func() (int64, error) {
			return sr.e.opts.Store.ExpireKeys(ctx, time.Now().Add(-forgetKeysAfter), expireBatch)
		}},
		{&sw.Holds, func() (int64, error) { return sr.e.opts.Store.ExpireHolds(ctx, expireBatch) }},
		{&exposed, func() (int64, error) { return sr.e.opts.Store.ExpireExposed(ctx, expireBatch) }},
		{&sw.Places, func() (int64, error) { return sr.e.opts.Store.ExpireReservations(ctx, expireBatch) }},
	} {
		for n := int64(expireBatch); n == expireBatch; *f.n += n {
			var err error
			if n, err = f.do(); err != nil {
				return err
			}
		}
	}
	return nil
}

const expireBatch = 1000

func (sr sweeps) sweepDriver(ctx context.Context, name string, o SweepOptions) DriverSweep {
	sw := DriverSweep{Driver: name}
	listed := map[driver.ID]driver.Status{}
	for st, err := range sr.e.opts.Drivers[name].List(ctx, driver.Selector{}) {
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
	claims, err := sr.claims(ctx, name)
	if err != nil {
		sw.Err = err
		return sw
	}
	there := map[driver.ID]bool{}
	for id, st := range listed {
		there[id] = true
		if id != "" && st.Key.Sandbox != "" && driver.ID(claims[st.Key.Sandbox]) != id {
			sr.unclaimedOne(ctx, &sw, st, o)
		}
	}
	sr.e.orphans.keep(name, sw.orphans())
	sr.e.unseen.keep(name, there)
	for id, instance := range claims {
		if !there[driver.ID(instance)] {
			sr.missing(ctx, &sw, id, instance, o)
		}
	}
	slices.SortFunc(sw.Found, func(a, b Finding) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Sandbox, b.Sandbox)) })
	return sw
}

// orphans returns the ids of the orphans that were found.
func (sw *DriverSweep) orphans() map[driver.ID]bool {
	found := map[driver.ID]bool{}
	for _, f := range sw.Found {
		if f.Kind == FoundOrphan {
			found[f.Instance] = true
		}
	}
	return found
}

// claims returns the recorded instance of each sandbox at a driver, by sandbox id.
func (sr sweeps) claims(ctx context.Context, name string) (map[string]sandbox.InstanceID, error) {
	claims := map[string]sandbox.InstanceID{}
	for after := ""; ; {
		page, err := sr.e.opts.Store.ListInstances(ctx, name, sr.e.opts.Host, after, claimsPage)
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

// unclaimedOne handles an instance that no record names. If its sandbox has a record, the engine settles the sandbox
// under its lease. Records are written before their instances and never removed. So an instance of this installation
// without a record comes from an earlier state of the database; it is ended after the grace.
func (sr sweeps) unclaimedOne(ctx context.Context, sw *DriverSweep, st driver.Status, o SweepOptions) {
	f := Finding{Kind: FoundStray, Sandbox: st.Key.Sandbox, Instance: st.ID}
	row, err := sr.e.opts.Store.Sandbox(ctx, st.Key.Sandbox)
	switch {
	case err == nil && row.Instance != sandbox.InstanceID(st.ID) && st.Key.Incarnation <= row.Left:
		f.Kind = FoundLeft
		f.Action, f.Detail = sr.e.keepLeft(ctx, sw.Driver, row, st, o)
	case err == nil && row.Host != "" && row.Host != sr.e.opts.Host:
		f.Action, f.Detail = ActionWaits, "the sandbox is on the machine "+row.Host+" now"
	case err == nil && row.Instance == sandbox.InstanceID(st.ID):
		return // it was recorded after the records were read
	case err == nil:
		f.Action, f.Detail = sr.settleFound(ctx, st.Key.Sandbox, o)
	case !errors.Is(err, fault.ErrNotFound):
		f.Action, f.Detail = ActionFailed, err.Error()
	case sr.e.opts.Installation == "" || st.Labels[LabelInstallation] != sr.e.opts.Installation:
		sw.Foreign++
		return
	default:
		f.Kind = FoundOrphan
		f.Action, f.Detail = sr.endOrphan(ctx, sw.Driver, st, o)
	}
	sw.Found = append(sw.Found, f)
}

// missing handles a recorded instance that the driver did not list. Both may have changed since they were read, so it
// reads both again.
func (sr sweeps) missing(ctx context.Context, sw *DriverSweep, id string, instance sandbox.InstanceID, o SweepOptions) {
	f := Finding{Kind: FoundMissing, Sandbox: id, Instance: driver.ID(instance)}
	_, err := sr.e.opts.Drivers[sw.Driver].Inspect(ctx, f.Instance)
	row, unread := sr.e.opts.Store.Sandbox(ctx, id)
	switch {
	case err == nil, unread == nil && row.Instance != instance:
		return
	case unread != nil:
		f.Action, f.Detail = ActionFailed, unread.Error()
	case !errors.Is(err, driver.ErrNotFound):
		f.Action, f.Detail = ActionFailed, err.Error()
	default:
		f.Action, f.Detail = sr.settleFound(ctx, id, o)
	}
	sw.Found = append(sw.Found, f)
}

// settleFound observes and settles a sandbox that differs from its record.
func (sr sweeps) settleFound(ctx context.Context, id string, o SweepOptions) (action, detail string) {
	switch {
	case o.DryRun:
		return ActionKept, "a dry run"
	case ctx.Err() != nil:
		return ActionWaits, "the server is about to end"
	}
	_, err := sr.e.drive(ctx, id, sweeper, true)
	switch {
	case err == nil:
		return ActionSettled, ""
	case unfinished(sandbox.Sandbox{}, err):
		return ActionWaits, "another holder works on the sandbox"
	}
	return ActionFailed, err.Error()
}

// endOrphan ends an instance without a record that has been seen for the grace.
func (sr sweeps) endOrphan(ctx context.Context, name string, st driver.Status, o SweepOptions) (action, detail string) {
	now := time.Now()
	left := o.Grace - now.Sub(sr.e.orphans.since(sighting{name, st.ID}, now, time.Time{}))
	switch {
	case left > 0:
		return ActionWaits, fmt.Sprintf("it is ended in %s if no record claims it", left.Round(time.Second))
	case o.DryRun:
		return ActionKept, "a dry run"
	}
	if err := sr.e.opts.Drivers[name].Destroy(ctx, st.ID); err != nil {
		return ActionFailed, err.Error()
	}
	sr.e.opts.Logger.WarnContext(ctx, "ended an instance that no record claims", "driver", name, "instance", st.ID, "sandbox_id", st.Key.Sandbox)
	return ActionEnded, ""
}

// RunSweeps sweeps at the given interval until the context ends.
func (e *Engine) RunSweeps(ctx context.Context, every time.Duration, o SweepOptions) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		sw, err := e.Sweep(ctx, o)
		if ctx.Err() == nil {
			e.sweeps.reportSweep(ctx, sw, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// reportSweep logs the errors and findings of a sweep.
func (sr sweeps) reportSweep(ctx context.Context, sw Sweep, err error) {
	if err != nil {
		sr.e.opts.Logger.WarnContext(ctx, "forget what has run out", "error", err)
	}
	for _, d := range sw.Drivers {
		if d.Err != nil {
			sr.e.opts.Logger.WarnContext(ctx, "sweep: nothing was done about a driver", "driver", d.Driver, "error", d.Err)
		}
		for _, f := range d.Found {
			sr.e.opts.Metrics.SweepFindings.WithLabelValues(f.Kind, f.Action).Inc()
			sr.e.opts.Logger.InfoContext(ctx, "sweep: "+f.Kind, "driver", d.Driver, "sandbox_id", f.Sandbox, "instance", f.Instance, "action", f.Action, "detail", f.Detail)
		}
	}
}
