package engine

import (
	"context"
	"slices"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
)

// finalizerTimeout limits the duration of one finalizer.
const finalizerTimeout = time.Minute

// finalizers lists the steps to do before the sandbox has ended, in this order. If last is not empty, it is the last
// step.
func (w *work) finalizers(last string) (names []string) {
	if w.opts.Hooks != nil && w.s.Instance != "" {
		names = append(names, sandbox.FinalHook)
	}
	if w.s.Instance != "" {
		names = append(names, sandbox.FinalInstance)
	}
	for _, f := range w.opts.Finalizers {
		names = append(names, f.Name)
	}
	if last != "" {
		names = append(names, last)
	}
	return names
}

// finalize runs a finalizer by its name. An unknown finalizer was recorded by another version of Berth; it is skipped.
func (w *work) finalize(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, finalizerTimeout)
	defer cancel()
	if name == sandbox.FinalHook {
		if w.opts.Hooks != nil {
			if err := w.opts.Hooks.Terminate(ctx, w.HandleAt(w.s, driver.ID(w.s.Instance))); err != nil {
				w.opts.Logger.ErrorContext(ctx, "terminate hook", "error", w.redact(err.Error()))
			}
		}
		return nil
	}
	i := slices.IndexFunc(w.opts.Finalizers, func(f Finalizer) bool { return f.Name == name })
	if i < 0 {
		w.opts.Logger.WarnContext(ctx, "this server does not know a finalizer; it is let go", "finalizer", name)
		return nil
	}
	return w.opts.Finalizers[i].Do(ctx, w.s)
}

// Terminate ends the sandbox's instance and volume, after a last save unless skipSave is set. The next use revives the
// sandbox.
func (h *Handle) Terminate(ctx context.Context, skipSave bool) (sandbox.Sandbox, error) {
	return h.setWant(ctx, "terminate", func(s sandbox.Sandbox) (sandbox.Sandbox, error) {
		return h.e.opts.Store.Terminate(ctx, h.tenant, s.ID, skipSave, "asked to end", h.actor)
	})
}

// Archive saves the sandbox's workspace and ends its instance and volume. The next use restores the workspace.
func (h *Handle) Archive(ctx context.Context) (sandbox.Sandbox, error) {
	return h.setWant(ctx, "archive", func(s sandbox.Sandbox) (sandbox.Sandbox, error) {
		if h.e.policy(s).NoSave {
			e := fault.Errorf("archive sandbox", api.CodeUnsupported, "this sandbox's workspace is not saved, and archiving would lose the files")
			e.Hint = "Stop the sandbox instead: its files are kept. To end it without them, terminate it."
			return s, e
		}
		return h.e.opts.Store.Want(ctx, h.tenant, s.ID, sandbox.WantArchived, "asked to archive", h.actor)
	})
}

// setWant records the desired state of the sandbox and waits until it is reached.
func (h *Handle) setWant(ctx context.Context, verb string, record func(sandbox.Sandbox) (sandbox.Sandbox, error)) (sandbox.Sandbox, error) {
	if h.readOnly {
		return sandbox.Sandbox{}, fault.Errorf(verb+" sandbox", api.CodeUnsupported, "the sandbox is open for reading only")
	}
	h.just.Store(nil) // discard the cached row, which may be out of date
	s, err := h.record(ctx)
	if err == nil {
		err = h.e.checkHost(ctx, s)
	}
	if err == nil {
		s, err = record(s)
	}
	if err != nil {
		return s, err
	}
	want := s.Want
	s, err = h.e.ensurer.settleShared(ctx, s, h.actor)
	if err == nil && s.Deleted() {
		return h.Record(ctx) // returns the store's error for a tombstone
	}
	if err == nil && !want.Satisfied(s.State) {
		err = fault.Errorf(verb+" sandbox", api.CodeBusy, "the desired state of sandbox %s changed to %s", s.ID, s.Want)
	}
	return s, err
}
