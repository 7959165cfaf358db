package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// hostEvery is how often a server reports that its machine runs: several times within store.HostAlive.
const hostEvery = store.HostAlive / 4

// RunHost reports that this machine runs until the context ends. A machine that was forgotten and is back
// stops what it had of sandboxes that went elsewhere before it counts again.
func (e *Engine) RunHost(ctx context.Context, o SweepOptions) {
	started := time.Now()
	tick := time.NewTicker(hostEvery)
	defer tick.Stop()
	for {
		if err := e.report(ctx, started, o); err != nil && ctx.Err() == nil {
			e.Logger.WarnContext(ctx, "report that this machine runs", "host", e.Host, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (e *Engine) report(ctx context.Context, started time.Time, o SweepOptions) error {
	forgotten, err := e.Store.SeeHost(ctx, e.Host, e.AdvertiseURL, started)
	if err != nil || !forgotten {
		return err
	}
	e.Logger.WarnContext(ctx, "this machine was forgotten; what it has of sandboxes that went elsewhere is stopped and kept", "host", e.Host)
	sw, err := e.Sweep(ctx, o)
	e.reportSweep(ctx, sw, err)
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
	return e.Store.ReadmitHost(ctx, e.Host)
}

// here refuses to work on a sandbox that another machine has, and names that machine's address.
func (e *Engine) here(ctx context.Context, s sandbox.Sandbox) error {
	if s.Host == "" || s.Host == e.Host {
		return nil
	}
	where := s.Host
	host, unknown := e.Store.Host(ctx, s.Host)
	if host.AdvertiseURL != "" {
		where += " at " + host.AdvertiseURL
	}
	err := sandbox.Errorf("use sandbox", api.CodeWrongHost, "sandbox %s is on the machine %s, this is %s", s.ID, where, e.Host)
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
	Sandbox sandbox.Sandbox // as it was
	Lost    bool            // it had an instance there
	Err     error           // why it still belongs to the machine
}

// Forget gives up a machine that is gone for good. Its sandboxes can start elsewhere from their last
// version, and deletes that waited for it go on. A machine whose server was seen lately is refused unless
// that is forced.
func (e *Engine) Forget(ctx context.Context, host string, force bool, actor string) (forgotten []Forgotten, err error) {
	if host == e.Host {
		return nil, sandbox.Errorf("forget host", api.CodeConflict, "%s is the machine that answers", host)
	}
	if _, err := e.Store.ForgetHost(ctx, host, force); err != nil {
		return nil, err
	}
	for after := ""; ; {
		page, err := e.Store.OnHost(ctx, host, after, batch)
		if err != nil {
			return forgotten, err
		}
		for _, s := range page {
			f := Forgotten{Sandbox: s, Lost: s.Instance != ""}
			if f.Err = e.letGo(ctx, s, host, actor); f.Err != nil {
				e.Logger.WarnContext(about(ctx, s), "forget a host's sandbox", "host", host, "error", f.Err)
			}
			forgotten = append(forgotten, f)
		}
		if len(page) < batch {
			return forgotten, ctx.Err()
		}
		after = page[len(page)-1].ID
	}
}

// letGo takes a sandbox from its machine, fenced by its lease: its instance there is lost to it.
func (e *Engine) letGo(ctx context.Context, s sandbox.Sandbox, host, actor string) error {
	grant, err := e.Store.Seize(ctx, s.ID, e.Holder)
	if err != nil {
		return err
	}
	if !grant.OK {
		return sandbox.Errorf("forget host", api.CodeBusy, "%s works on sandbox %s", grant.Lease.Holder, s.ID)
	}
	s = grant.Sandbox
	reason := "its machine " + host + " was forgotten"
	_, cannot := sandbox.Next(s.State, sandbox.EventLost)
	if cannot == nil && s.Want != sandbox.WantGone {
		_, err = e.Store.Commit(ctx, grant.Lease, sandbox.Change{Event: sandbox.EventLost, Reason: reason, Actor: actor, Synced: s.Synced}, store.Due{})
	}
	if err == nil {
		_, err = e.Store.Unpin(ctx, grant.Lease, reason, actor)
	}
	if released := e.Store.Release(ctx, grant.Lease); err == nil {
		err = released
	}
	return err
}

// leftBehind reports whether an instance was left on a machine when that was forgotten. It may hold work
// that was never saved, so that nothing but the sandbox's delete ends it.
func leftBehind(s sandbox.Sandbox, st driver.Status) bool {
	return st.Key.Incarnation <= s.Left && sandbox.InstanceID(st.ID) != s.Instance && !s.Deleted()
}

// keepLeft stops an instance that was left on this machine, and keeps its files until its sandbox is deleted.
func (e *Engine) keepLeft(ctx context.Context, name string, row sandbox.Sandbox, st driver.Status, o SweepOptions) (action, detail string) {
	d := e.Drivers[name]
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
