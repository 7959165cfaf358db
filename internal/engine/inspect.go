package engine

import (
	"context"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
)

// Inspection is a sandbox's record with the observed state of its instance.
type Inspection struct {
	Sandbox sandbox.Sandbox
	Seen    sandbox.Observation
	Would   []sandbox.Step // next steps that the engine would take
	At      time.Time
}

// Healthy reports whether the sandbox runs and everything in it answers.
func (l Inspection) Healthy() bool {
	return l.Sandbox.State == sandbox.Running && l.Seen.Sight == sandbox.Up && l.Seen.Ill == sandbox.Well
}

// Agrees reports whether the recorded state matches the observed state.
func (l Inspection) Agrees() bool {
	sight := map[sandbox.State]sandbox.Sight{
		sandbox.Running: sandbox.Up, sandbox.Stopped: sandbox.Down,
		sandbox.Pending: sandbox.Missing, sandbox.Archived: sandbox.Missing, sandbox.Terminated: sandbox.Missing,
	}[l.Sandbox.State]
	return l.Seen.Sight == sight && l.Seen.Ill == sandbox.Well && len(l.Seen.Strays) == 0
}

// Inspect observes a sandbox's instance and plans the next steps. It changes neither the record nor the instance.
func (e *Engine) Inspect(ctx context.Context, s sandbox.Sandbox) (Inspection, error) {
	l := Inspection{Sandbox: s, At: time.Now()}
	if err := e.checkHost(ctx, s); err != nil {
		return l, err
	}
	w := e.workOn(s, "")
	if w.driver == nil {
		return l, fault.Errorf("look at sandbox", api.CodeUnknownDriver, "no driver %q is configured here", s.Spec.Driver)
	}
	var err error
	if l.Seen, err = w.observe(about(ctx, s)); err != nil {
		return l, err
	}
	l.Would, _ = sandbox.Plan(l.At, s, l.Seen, w.policy)
	return l, nil
}

// Reconcile observes the instance, also if the record says that all is well, and brings it to the desired state.
func (h *Handle) Reconcile(ctx context.Context) (sandbox.Sandbox, error) {
	s, err := h.record(ctx)
	if err != nil {
		return s, err
	}
	return h.e.ensurer.verify(ctx, s, h.actor)
}

// Upcoming lists the changes that will happen to the sandbox if it is not used, the nearest first.
func (e *Engine) Upcoming(s sandbox.Sandbox) []sandbox.Upcoming {
	return sandbox.Ahead(time.Now(), s, e.policy(s))
}
