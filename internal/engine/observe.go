package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/sandbox"
)

// observe asks the driver what it has of this sandbox: the recorded instance, and any other. It is
// ErrStale when there is an instance of a later incarnation: then somebody else has the lease.
func (w *work) observe(ctx context.Context) (sandbox.Observation, error) {
	o, frozen := sandbox.Observation{Sight: sandbox.Missing}, false
	for st, err := range w.driver.List(ctx, driver.Selector{Sandbox: w.s.ID}) {
		switch {
		case err != nil:
			return sandbox.Observation{Sight: sandbox.Unreachable, Detail: w.scrub(err.Error())}, nil
		case st.Key.Sandbox != w.s.ID || w.ended[st.ID]:
			// Not ours, whatever the driver thought we asked for; or gone, whatever its list says.
		case guarded && st.Key.Incarnation > w.s.Incarnation:
			return o, sandbox.Errorf("look for the sandbox", api.CodeStale, "the driver has incarnation %d of sandbox %s, we know of %d", st.Key.Incarnation, w.s.ID, w.s.Incarnation)
		case sandbox.InstanceID(st.ID) == w.s.Instance:
			o.Sight, o.Detail = sight(st)
			frozen = st.Phase == driver.PhaseFrozen
		case st.Phase == driver.PhaseUnknown && w.policy.Unreachable == sandbox.UnseenReplace:
			// Given up without being seen; the sweep ends it once it can be reached.
		default:
			o.Strays = append(o.Strays, sandbox.InstanceID(st.ID))
		}
	}
	if o.Sight == sandbox.Missing && w.s.Instance != "" && !w.ended[driver.ID(w.s.Instance)] {
		o = w.confirm(ctx, o)
	}
	if o.Sight == sandbox.Up && !frozen {
		w.examine(ctx, &o)
	}
	o.Detail = w.scrub(o.Detail)
	if o.Sight != sandbox.Unreachable {
		w.s.ProbedAt = w.now()
	}
	return o, nil
}

// confirm asks about the recorded instance itself. A list may lag; only a direct not-found makes an
// instance lost.
func (w *work) confirm(ctx context.Context, o sandbox.Observation) sandbox.Observation {
	st, err := w.driver.Inspect(ctx, driver.ID(w.s.Instance))
	switch {
	case err == nil:
		o.Sight, o.Detail = sight(st)
	case errors.Is(err, driver.ErrNotFound):
		o.Detail = err.Error()
	default:
		return sandbox.Observation{Sight: sandbox.Unreachable, Detail: err.Error()}
	}
	return o
}

// sight is a driver's word as the plan sees it, with the reason. A frozen instance is up: freezing is
// an attribute of a running one.
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
