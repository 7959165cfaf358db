package engine

import (
	"context"
	"slices"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// finalizeFor bounds one finalizer.
const finalizeFor = time.Minute

// finalizers are what must be done before the sandbox has ended, in this order; last is the plan's own.
func (w *work) finalizers(last string) (names []string) {
	if w.Hooks != nil && w.s.Instance != "" {
		names = append(names, sandbox.FinalHook)
	}
	if w.s.Instance != "" {
		names = append(names, sandbox.FinalInstance)
	}
	for _, f := range w.Options.Finalizers {
		names = append(names, f.Name)
	}
	if last != "" {
		names = append(names, last)
	}
	return names
}

// finalize does one of them. One that this server does not know was another version's, and is let go.
func (w *work) finalize(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, finalizeFor)
	defer cancel()
	if name == sandbox.FinalHook {
		if w.Hooks != nil {
			if err := w.Hooks.Terminate(ctx, w.s); err != nil {
				w.Logger.ErrorContext(ctx, "terminate hook", "error", w.scrub(err.Error()))
			}
		}
		return nil
	}
	i := slices.IndexFunc(w.Options.Finalizers, func(f Finalizer) bool { return f.Name == name })
	if i < 0 {
		w.Logger.WarnContext(ctx, "this server does not know a finalizer; it is let go", "finalizer", name)
		return nil
	}
	return w.Options.Finalizers[i].Do(ctx, w.s)
}

// Terminate ends the sandbox's instance and its volume, after a last save unless that is skipped. The
// next use revives it.
func (h *Handle) Terminate(ctx context.Context, skipSave bool) (sandbox.Sandbox, error) {
	return h.wish(ctx, "terminate", func(ctx context.Context) (sandbox.Sandbox, error) {
		return h.e.Store.Terminate(ctx, h.tenant, h.id, skipSave, "asked to end", h.actor)
	})
}

// Archive saves the sandbox's workspace and ends its instance and volume. The next use brings it back.
func (h *Handle) Archive(ctx context.Context) (sandbox.Sandbox, error) {
	s, err := h.record(ctx)
	if err != nil {
		return s, err
	}
	if h.e.policy(s).NoSave {
		e := sandbox.Errorf("archive sandbox", api.CodeUnsupported, "this sandbox's workspace is not saved, and archiving would lose the files")
		e.Hint = "Stop the sandbox instead: its files are kept. To end it without them, terminate it."
		return s, e
	}
	return h.wish(ctx, "archive", func(ctx context.Context) (sandbox.Sandbox, error) {
		return h.e.Store.Want(ctx, h.tenant, h.id, sandbox.WantArchived, "asked to archive", h.actor)
	})
}

// wish records what is wanted of the sandbox and waits until it is so.
func (h *Handle) wish(ctx context.Context, verb string, record func(context.Context) (sandbox.Sandbox, error)) (sandbox.Sandbox, error) {
	h.just.Store(nil) // what was read before is history
	s, err := h.e.Store.ByID(ctx, h.tenant, h.id)
	if err == nil {
		err = h.e.here(ctx, s)
	}
	if err != nil {
		return s, err
	}
	if s, err = record(ctx); err != nil {
		return s, err
	}
	want := s.Want
	s, err = h.e.join(ctx, s, h.actor)
	if err == nil && s.Deleted() {
		return h.e.Store.ByID(ctx, h.tenant, h.id) // the store's own words for a tombstone
	}
	if err == nil && !want.Satisfied(s.State) {
		err = sandbox.Errorf(verb+" sandbox", api.CodeBusy, "sandbox %s was asked to be %s meanwhile", s.ID, s.Want)
	}
	return s, err
}
