package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
)

// observe asks the driver for the recorded instance and any other instance of this sandbox. It returns ErrStale if there
// is an instance of a later incarnation and another holder has the lease.
func (w *work) observe(ctx context.Context) (sandbox.Observation, error) {
	o, recorded := sandbox.Observation{Sight: sandbox.Missing}, driver.Status{}
	ending := w.s.Want == sandbox.WantGone || w.s.State == sandbox.Terminating
	// With UnseenReplace, instances in an unknown phase were replaced. They are no strays here: a sweep ends them once
	// they can be reached again.
	replacing := w.policy.Unreachable == sandbox.UnseenReplace && w.s.Want == sandbox.WantRunning && !ending
	for st, err := range w.driver.List(ctx, driver.Selector{Sandbox: w.s.ID}) {
		switch {
		case err != nil:
			return w.unseenNow(sandbox.Unreachable, err.Error()), nil
		case st.Key.Sandbox != w.s.ID || w.ended[st.ID]:
			// Instance of another sandbox, or destroyed by this work: the driver's list can be wrong.
		case st.ID == "":
			return w.unseenNow(sandbox.Unreachable, "the driver lists an instance of this sandbox without its id"), nil
		case st.Key.Incarnation > w.s.Incarnation && !(ending && w.holds(ctx)):
			return o, w.unknown(ctx, st)
		case sandbox.InstanceID(st.ID) == w.s.Instance:
			recorded = st
			o.Sight, o.Detail = sight(st)
		case leftBehind(w.s, st):
			// Instance left on a forgotten machine: the sweep stops it and keeps its files.
		case st.Phase == driver.PhaseUnknown && replacing && sandbox.InstanceID(st.ID) != w.made:
		default:
			o.Strays = append(o.Strays, sandbox.InstanceID(st.ID))
		}
	}
	if o.Sight == sandbox.Missing && w.s.Instance != "" && !w.ended[driver.ID(w.s.Instance)] {
		o, recorded = w.confirm(ctx, o)
	}
	if o.Sight == sandbox.Up && recorded.Phase != driver.PhaseFrozen {
		w.examine(ctx, &o)
	}
	if o.Sight == sandbox.Unreachable || o.Sight == sandbox.Unclear {
		since := w.unseenNow(o.Sight, o.Detail)
		since.Strays = o.Strays
		return since, nil
	}
	o.Detail = w.redact(o.Detail)
	w.s.ProbedAt = w.now()
	w.unseen.forget(w.sighting())
	return o, nil
}

// holds reports whether this holder has the lease. It renews the lease to find out.
func (w *work) holds(ctx context.Context) bool { return w.extend(ctx, w.lease) == nil }

// unknown returns the error for an instance of a later incarnation than the recorded one. Without the lease, the
// instance is the new holder's. With the lease, the database was probably restored from a backup: the instance may have
// the only copy of a user's files, and stays until the end of the sandbox is requested.
func (w *work) unknown(ctx context.Context, st driver.Status) error {
	const op, what = "look for the sandbox", "the driver has incarnation %d of sandbox %s, the record knows of %d"
	if !w.holds(ctx) {
		return fault.Errorf(op, api.CodeStale, what, st.Key.Incarnation, w.s.ID, w.s.Incarnation)
	}
	e := fault.Errorf(op, api.CodeConflict, what+"; was the database restored?", st.Key.Incarnation, w.s.ID, w.s.Incarnation)
	e.Hint = "Save the files you need from the instance " + string(st.ID) + ", then terminate the sandbox: that ends all of its instances, and the next use begins anew."
	return e
}

// unseenNow returns the observation of an instance whose state is unknown, and since when.
func (w *work) unseenNow(sight sandbox.Sight, detail string) sandbox.Observation {
	since := w.unseen.since(w.sighting(), w.now(), w.s.ProbedAt)
	return sandbox.Observation{Sight: sight, Since: since, Detail: w.redact(detail)}
}

func (w *work) sighting() sighting { return sighting{w.s.Spec.Driver, driver.ID(w.s.Instance)} }

// confirm inspects the recorded instance, which was missing in the driver's list. The list may be old: an instance is
// lost only if the driver does not find it by its id.
func (w *work) confirm(ctx context.Context, o sandbox.Observation) (sandbox.Observation, driver.Status) {
	st, err := w.driver.Inspect(ctx, driver.ID(w.s.Instance))
	switch {
	case err == nil:
		o.Sight, o.Detail = sight(st)
	case errors.Is(err, driver.ErrNotFound):
		o.Detail = err.Error()
	default:
		o.Sight, o.Detail = sandbox.Unclear, err.Error()
	}
	return o, st
}

// sight converts a driver's status to a Sight, with the reason. A frozen instance counts as up.
func sight(st driver.Status) (sandbox.Sight, string) {
	switch st.Phase {
	case driver.PhaseRunning, driver.PhaseFrozen:
		return sandbox.Up, st.Reason
	case driver.PhaseStopped:
		return sandbox.Down, st.Reason
	case driver.PhaseFailed:
		return sandbox.Broken, st.Reason
	}
	return sandbox.Unclear, fmt.Sprintf("the instance is in phase %s (%s) %s", st.Phase, st.Raw, st.Reason)
}
