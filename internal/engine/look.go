package engine

import (
	"context"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// Look is a sandbox's record beside what is really there.
type Look struct {
	Sandbox sandbox.Sandbox
	Seen    sandbox.Observation
	Would   []sandbox.Step // what the engine would do about it now
	At      time.Time
}

// Healthy reports whether the sandbox runs and everything in it answers.
func (l Look) Healthy() bool {
	return l.Sandbox.State == sandbox.Running && l.Seen.Sight == sandbox.Up && l.Seen.Ill == sandbox.Well
}

// Agrees reports whether the record says what was seen.
func (l Look) Agrees() bool {
	sight := map[sandbox.State]sandbox.Sight{
		sandbox.Running: sandbox.Up, sandbox.Stopped: sandbox.Down,
		sandbox.Pending: sandbox.Missing, sandbox.Archived: sandbox.Missing, sandbox.Terminated: sandbox.Missing,
	}[l.Sandbox.State]
	return l.Seen.Sight == sight && l.Seen.Ill == sandbox.Well && len(l.Seen.Strays) == 0
}

// Look compares a sandbox's record with reality and changes neither.
func (e *Engine) Look(ctx context.Context, s sandbox.Sandbox) (Look, error) {
	l := Look{Sandbox: s, At: time.Now()}
	if err := e.here(ctx, s); err != nil {
		return l, err
	}
	w := e.workOn(s, "")
	if w.driver == nil {
		return l, sandbox.Errorf("look at sandbox", api.CodeUnknownDriver, "no driver %q is configured here", s.Spec.Driver)
	}
	var err error
	if l.Seen, err = w.observe(about(ctx, s)); err != nil {
		return l, err
	}
	l.Would, _ = sandbox.Plan(l.At, s, l.Seen, w.policy)
	return l, nil
}

// Reconcile looks at what is really there and does what is to be done about it, whatever the record says.
func (h *Handle) Reconcile(ctx context.Context) (sandbox.Sandbox, error) {
	s, err := h.record(ctx)
	if err != nil {
		return s, err
	}
	return h.e.doubt(ctx, s, h.actor)
}

// Ahead lists what will happen to a sandbox by itself if nobody uses it, the nearest first.
func (e *Engine) Ahead(s sandbox.Sandbox) []sandbox.Prospect {
	return sandbox.Ahead(time.Now(), s, e.policy(s))
}
