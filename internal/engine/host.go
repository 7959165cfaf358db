package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// hostInterval is the interval at which a server reports that its machine runs: several times within store.HostAlive.
const hostInterval = store.HostAlive / 4

// RunHost reports that this machine runs, until the context ends. If the machine was forgotten, it first stops its
// instances of sandboxes that were moved to other machines.
func (e *Engine) RunHost(ctx context.Context, o SweepOptions) {
	started := time.Now()
	tick := time.NewTicker(hostInterval)
	defer tick.Stop()
	for {
		if err := e.reportHost(ctx, started, o); err != nil && ctx.Err() == nil {
			e.opts.Logger.WarnContext(ctx, "report that this machine runs", "host", e.opts.Host, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// reportHost reports once that this machine runs. If the machine was forgotten, it first sweeps, which stops instances
// that were left here, and then readmits the machine.
func (e *Engine) reportHost(ctx context.Context, started time.Time, o SweepOptions) error {
	forgotten, err := e.opts.Store.RenewHost(ctx, e.opts.Host, e.opts.AdvertiseURL, started)
	if err != nil || !forgotten {
		return err
	}
	e.opts.Logger.WarnContext(ctx, "this machine was forgotten; what it has of sandboxes that went elsewhere is stopped and kept", "host", e.opts.Host)
	sw, err := e.Sweep(ctx, o)
	e.sweeps.reportSweep(ctx, sw, err)
	for _, d := range sw.Drivers {
		for _, f := range d.Found {
			if f.Kind == FoundLeft && f.Action == ActionFailed {
				return fmt.Errorf("stop instance %s: %s", f.Instance, f.Detail)
			}
		}
		if err == nil {
			err = d.Err
		}
	}
	if err != nil {
		return err
	}
	return e.opts.Store.ReadmitHost(ctx, e.opts.Host)
}

// checkHost returns an error if the sandbox is pinned to another machine. The error has that machine's address.
func (e *Engine) checkHost(ctx context.Context, s sandbox.Sandbox) error {
	if s.Host == "" || s.Host == e.opts.Host {
		return nil
	}
	where := s.Host
	host, unknown := e.opts.Store.Host(ctx, s.Host)
	if host.AdvertiseURL != "" {
		where += " at " + host.AdvertiseURL
	}
	err := fault.Errorf("use sandbox", api.CodeWrongHost, "sandbox %s is on the machine %s, this is %s", s.ID, where, e.opts.Host)
	switch {
	case unknown != nil:
	case !host.Alive:
		err.Hint = fmt.Sprintf("The server of %s does not run: start it. If the machine is gone for good, 'berth host forget %s' lets its sandboxes start elsewhere from their last version.", s.Host, s.Host)
	case host.AdvertiseURL != "":
		err.Hint = "Send the request to " + host.AdvertiseURL + "."
	default:
		err.Hint = fmt.Sprintf("Send the request to the server on %s. Set advertise_url (BERTH_ADVERTISE_URL) there, and this answer names its address.", s.Host)
	}
	return err
}

// Forgotten is a sandbox that a forgotten machine had.
type Forgotten struct {
	Sandbox sandbox.Sandbox // record before the machine was forgotten
	Lost    bool            // whether it had an instance on the machine
	Err     error           // error of removing it from the machine; nil: it was removed
}

// Forget removes a machine that is gone for good. Its sandboxes can start on other machines from their last version,
// and deletes that waited for the machine continue. If the machine's server has reported lately, Forget returns an
// error unless force is set.
func (e *Engine) Forget(ctx context.Context, host string, force bool, actor string) (forgotten []Forgotten, err error) {
	if host == e.opts.Host {
		return nil, fault.Errorf("forget host", api.CodeConflict, "%s is the machine that answers", host)
	}
	if _, err := e.opts.Store.ForgetHost(ctx, host, force); err != nil {
		return nil, err
	}
	for after := ""; ; {
		page, err := e.opts.Store.ListOnHost(ctx, host, after, pageSize)
		if err != nil {
			return forgotten, err
		}
		for _, s := range page {
			f := Forgotten{Sandbox: s, Lost: s.Instance != ""}
			if f.Err = e.takeFromHost(ctx, s, host, actor); f.Err != nil {
				e.opts.Logger.WarnContext(about(ctx, s), "forget a host's sandbox", "host", host, "error", f.Err)
			}
			forgotten = append(forgotten, f)
		}
		if len(page) < pageSize {
			return forgotten, ctx.Err()
		}
		after = page[len(page)-1].ID
	}
}

// takeFromHost unpins a sandbox from its machine, fenced by its lease, and records its instance there as lost.
func (e *Engine) takeFromHost(ctx context.Context, s sandbox.Sandbox, host, actor string) error {
	grant, err := e.opts.Store.Seize(ctx, s.ID, e.opts.Holder)
	if err != nil {
		return err
	}
	if !grant.OK {
		return fault.Errorf("forget host", api.CodeBusy, "%s works on sandbox %s", grant.Lease.Holder, s.ID)
	}
	s = grant.Sandbox
	reason := "its machine " + host + " was forgotten"
	_, cannot := sandbox.Next(s.State, sandbox.EventLost)
	if cannot == nil && s.Want != sandbox.WantGone {
		lost := sandbox.Change{Event: sandbox.EventLost, Reason: reason, Actor: actor, Synced: s.Synced}
		addLost(&lost, lostSince(s, e.policy(s)))
		if _, err = e.opts.Store.Commit(ctx, grant.Lease, lost, store.Due{}); err == nil && !lost.Lost.IsZero() {
			e.opts.Metrics.LostChanges.Inc()
		}
	}
	if err == nil {
		_, err = e.opts.Store.Unpin(ctx, grant.Lease, reason, actor)
	}
	if released := e.opts.Store.Release(ctx, grant.Lease); err == nil {
		err = released
	}
	return err
}

// leftBehind reports whether an instance was left on a machine that was forgotten. The instance may have files that
// were never saved, so that only the delete of its sandbox ends it.
func leftBehind(s sandbox.Sandbox, st driver.Status) bool {
	return st.Key.Incarnation <= s.Left && sandbox.InstanceID(st.ID) != s.Instance && !s.Deleted()
}

// keepLeft stops an instance that was left on this machine. It keeps the instance's files until the sandbox is
// deleted.
func (e *Engine) keepLeft(ctx context.Context, name string, row sandbox.Sandbox, st driver.Status, o SweepOptions) (action, detail string) {
	d := e.opts.Drivers[name]
	stopper, can := driver.As[driver.Stopper](d)
	var err error
	switch {
	case o.DryRun:
		return ActionKept, "a dry run"
	case row.Deleted() && row.Settled():
		action, err = ActionEnded, d.Destroy(ctx, st.ID)
	case row.Deleted():
		return ActionWaits, "its sandbox is being deleted"
	case can && (st.Phase == driver.PhaseRunning || st.Phase == driver.PhaseFrozen):
		action, detail = ActionKept, "stopped; its files are kept until the sandbox is deleted"
		err = stopper.Stop(ctx, st.ID)
	default:
		action, detail = ActionKept, "its files are kept until the sandbox is deleted"
	}
	if err != nil {
		return ActionFailed, err.Error()
	}
	return action, detail
}
