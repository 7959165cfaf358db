package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

const (
	// stopSaveFor bounds the save before a stop: what is not saved by then is saved from the stopped instance.
	stopSaveFor = 10 * time.Second
	// watchEvery is how often a save looks whether it is still wanted.
	watchEvery = time.Second
	// processesFor bounds the question which processes run.
	processesFor = 2 * time.Second
)

// save saves the workspace and records its version. What was not saved is not recorded as saved. A soft
// save that fails is recorded, and the next step is taken; again asks for a new plan, on another wish.
func (w *work) save(ctx context.Context, step sandbox.Step) (again bool, err error) {
	began := w.now()
	busy := w.processesRun(ctx, w.s)
	synced, err := w.saveWhileWanted(ctx, step)
	switch {
	case errors.Is(err, sandbox.ErrOvertaken):
		w.s, err = w.Store.Sandbox(ctx, w.s.ID)
		return true, err
	case err != nil && step.Soft && ctx.Err() == nil:
		return false, w.saveFailed(ctx, w.told(step, err))
	case err != nil:
		return false, err
	}
	s, err := w.saved(ctx, w.lease, synced, began, busy)
	if err == nil {
		again = s.Want != w.s.Want // what comes next was planned for a wish that is no more
		w.s, w.synced = s, synced
		w.Logger.InfoContext(ctx, "workspace saved", "version", synced.Version, "reason", step.Reason)
	}
	return again, err
}

// saveWhileWanted saves until it is done or something else is wanted: an end without a save, or for a soft
// save anything else. Then it returns ErrOvertaken.
func (w *work) saveWhileWanted(ctx context.Context, step sandbox.Step) (sandbox.SyncMark, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if step.Soft && w.s.State == sandbox.Running && w.s.Want != sandbox.WantRunning {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, stopSaveFor)
		defer stop()
	}
	unwatch := w.watchWish(ctx, w.s.ID, func(s sandbox.Sandbox) {
		if step.Soft && s.Want != w.s.Want || s.SkipSave && !w.s.SkipSave {
			cancel(sandbox.ErrOvertaken)
		}
	})
	synced, err := w.Restorer.Save(ctx, w.s)
	unwatch()
	if err != nil && errors.Is(context.Cause(ctx), sandbox.ErrOvertaken) {
		err = sandbox.ErrOvertaken
	}
	return synced, err
}

// watchWish looks at the sandbox's record every second until the returned function is called or the context ends.
func (e *Engine) watchWish(ctx context.Context, id string, look func(sandbox.Sandbox)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if s, err := e.Store.Sandbox(ctx, id); err == nil {
				look(s)
			}
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}

// untilDiscarded ends the context of work on a sandbox's files once the sandbox is to end without a last save: a
// store that hangs must not hold up such an end. The cause is ErrOvertaken.
func (e *Engine) untilDiscarded(ctx context.Context, id string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	unwatch := e.watchWish(ctx, id, func(s sandbox.Sandbox) {
		if s.Want == sandbox.WantGone && s.SkipSave {
			cancel(sandbox.ErrOvertaken)
		}
	})
	return ctx, func() {
		unwatch()
		cancel(nil)
	}
}

// saveFailed records why a save failed, and how often in a row.
func (w *work) saveFailed(ctx context.Context, err error) error {
	f := sandbox.Failure{Code: sandbox.CodeOf(err), Message: w.scrub(err.Error()), At: w.now(), Want: w.s.Want, Attempts: 1}
	if w.s.SaveFailure != nil {
		f.Attempts += w.s.SaveFailure.Attempts
	}
	w.Logger.WarnContext(ctx, "save workspace; it is tried again", "unsaved_since", w.s.UnsavedSince, "attempts", f.Attempts, "error", f.Message)
	if err := w.Store.SaveFailed(ctx, w.lease, f); err != nil {
		return err
	}
	w.s.SaveFailure = &f
	return nil
}

// saved records a save that began at the given time. Where processes ran by then, files may have changed
// since though no use was recorded.
func (e *Engine) saved(ctx context.Context, l store.Lease, mark sandbox.SyncMark, began time.Time, busy bool) (sandbox.Sandbox, error) {
	s, err := e.Store.Synced(ctx, l, mark, began)
	if err != nil || !busy || !s.UnsavedSince.IsZero() {
		return s, err
	}
	s.UnsavedSince = began
	return s, e.Store.StayUnsaved(ctx, l, began)
}

// processesRun reports whether started processes run in the sandbox. Where that cannot be found out, none
// are assumed.
func (e *Engine) processesRun(ctx context.Context, s sandbox.Sandbox) bool {
	d, ok := driver.As[driver.Guester](e.Drivers[s.Spec.Driver])
	if !ok || s.State != sandbox.Running {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, processesFor)
	defer cancel()
	conn, err := d.Guest(ctx, driver.ID(s.Instance))
	if err != nil {
		return false
	}
	defer conn.Close()
	processes, err := conn.Processes(ctx)
	for _, p := range processes {
		if err == nil && p.Exit == nil {
			return true
		}
	}
	return false
}

// turnUntil is when the hold of a turn in the sandbox ends; zero: there is none. It is asked for only where
// it matters.
func (e *Engine) turnUntil(ctx context.Context, s sandbox.Sandbox) (until time.Time) {
	if s.UnsavedSince.IsZero() {
		return until
	}
	holds, err := e.Store.Holds(ctx, s.ID)
	for _, h := range holds {
		if err == nil && h.Kind == HoldTurn && h.Until.After(until) {
			until = h.Until
		}
	}
	return until
}

// HoldTurn is the kind of hold that a running turn has on its sandbox.
const HoldTurn = "turn"

// filesOf completes a change with what it means for the sandbox's files.
func (w *work) filesOf(step sandbox.Step, c *sandbox.Change) {
	switch step.Event {
	case sandbox.EventReady:
		if c.Restored = w.restored; c.Restored != nil {
			c.Reason += fmt.Sprintf("; version %s, saved %s, was restored", c.Restored.Version, c.Restored.SavedAt.UTC().Format(time.RFC3339))
		}
	case sandbox.EventLost:
		c.Lost = w.s.UnsavedSince
		if w.policy.NoSave && !w.s.ChangedAt.IsZero() { // nothing of this instance was ever saved
			if c.Lost = w.s.CreatedAt; w.s.DestroyedAt.After(c.Lost) {
				c.Lost = w.s.DestroyedAt
			}
		}
	case sandbox.EventEnd:
		if step.Final != sandbox.FinalArchive && !w.s.SkipSave && !w.policy.NoSave {
			c.Lost = w.s.UnsavedSince
		}
	}
	if !c.Lost.IsZero() {
		c.Reason += fmt.Sprintf("; files changed since %s were not saved and are lost", c.Lost.UTC().Format(time.RFC3339))
	}
}

// Notice says what happened to the sandbox's files between its last use and the first connection of this
// handle: which version was restored, and what is lost. It is empty when nothing did.
func (h *Handle) Notice() string {
	first, now := h.first.Load(), h.used.Load()
	if first == nil || now == nil {
		return ""
	}
	lost, restored := now.Lost, now.Restored
	text := ""
	if lost.At.After(first.ActiveAt) {
		text = fmt.Sprintf("The instance of this sandbox was lost: files changed since %s were not saved and are lost.", lost.Since.UTC().Format(time.RFC3339))
		if restored.Version == "" {
			text += " No version was saved before, so the workspace starts empty."
		}
	}
	if restored.At.After(first.ActiveAt) {
		text = strings.TrimSpace(text + fmt.Sprintf(" The workspace was restored from version %s, saved %s.", restored.Version, restored.SavedAt.UTC().Format(time.RFC3339)))
	}
	return text
}
