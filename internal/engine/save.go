package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

const (
	// stopSaveTimeout limits the save before a stop. Changes that it does not save are saved from the stopped instance.
	stopSaveTimeout = 10 * time.Second
	// watchInterval is the interval at which a save checks whether it is still wanted.
	watchInterval = time.Second
	// processesTimeout limits the query for running processes.
	processesTimeout = 2 * time.Second
)

// save saves the workspace and records its version. If a soft save fails, save records the failure and returns no error,
// so that the next step runs. The result again requires a new plan, because the sandbox's Want has changed.
func (w *work) save(ctx context.Context, step sandbox.Step) (again bool, err error) {
	began := w.now()
	busy := w.processesRun(ctx, w.s)
	w.savesBegun.Add(1) // count this save before it reads files
	synced, err := w.saveWhileWanted(ctx, step)
	switch {
	case errors.Is(err, sandbox.ErrOvertaken):
		w.s, err = w.opts.Store.Sandbox(ctx, w.s.ID)
		return true, err
	case err != nil && step.Soft && ctx.Err() == nil:
		return false, w.saveFailed(ctx, w.wrapStepErr(step, err))
	case err != nil:
		return false, err
	}
	s, err := w.saved(ctx, w.lease, synced, began, busy)
	if err == nil {
		again = s.Want != w.s.Want // the next steps were planned for an earlier Want
		w.s, w.synced = s, synced
		w.opts.Logger.InfoContext(ctx, "workspace saved", "version", synced.Version, "reason", step.Reason)
	}
	return again, err
}

// saveWhileWanted saves the workspace. It stops and returns ErrOvertaken when an end without a save is requested or, for
// a soft save, when the sandbox's Want changes.
func (w *work) saveWhileWanted(ctx context.Context, step sandbox.Step) (sandbox.SyncMark, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if step.Soft && w.s.State == sandbox.Running && w.s.Want != sandbox.WantRunning {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, stopSaveTimeout)
		defer stop()
	}
	unwatch := w.watchWish(ctx, w.s.ID, func(s sandbox.Sandbox) {
		if step.Soft && s.Want != w.s.Want || s.SkipSave && !w.s.SkipSave {
			cancel(sandbox.ErrOvertaken)
		}
	})
	synced, err := w.opts.Restorer.Save(ctx, w.s)
	unwatch()
	if err != nil && errors.Is(context.Cause(ctx), sandbox.ErrOvertaken) {
		err = sandbox.ErrOvertaken
	}
	return synced, err
}

// watchWish reads the sandbox's record every watchInterval and calls look with it, until stop is called or the context
// ends.
func (e *Engine) watchWish(ctx context.Context, id string, look func(sandbox.Sandbox)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(watchInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if s, err := e.opts.Store.Sandbox(ctx, id); err == nil {
				look(s)
			}
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}

// untilDiscarded returns a context for work on a sandbox's files. It ends, with the cause ErrOvertaken, when an end
// without a last save is requested: an object store that hangs must not delay such an end.
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

// saveFailed records the failure of a save and the number of failures in a row.
func (w *work) saveFailed(ctx context.Context, err error) error {
	f := sandbox.Failure{Code: fault.CodeOf(err), Message: w.redact(err.Error()), At: w.now(), Want: w.s.Want, Attempts: 1}
	if w.s.SaveFailure != nil {
		f.Attempts += w.s.SaveFailure.Attempts
	}
	w.opts.Logger.WarnContext(ctx, "save workspace; it is tried again", "unsaved_since", w.s.UnsavedSince, "attempts", f.Attempts, "error", f.Message)
	if err := w.opts.Store.RecordSaveFailure(ctx, w.lease, f); err != nil {
		return err
	}
	w.s.SaveFailure = &f
	return nil
}

// saved records a save that began at the given time. If processes ran then (busy), files may have changed since without
// a recorded use, so the workspace stays marked as unsaved since that time.
func (e *Engine) saved(ctx context.Context, l store.Lease, mark sandbox.SyncMark, began time.Time, busy bool) (sandbox.Sandbox, error) {
	s, err := e.opts.Store.RecordSync(ctx, l, mark, began)
	if err != nil || !busy || !s.UnsavedSince.IsZero() {
		return s, err
	}
	s.UnsavedSince = began
	return s, e.opts.Store.RecordStillUnsaved(ctx, l, began)
}

// processesRun reports whether processes that the helper started run in the sandbox. It returns false if this cannot be
// found out.
func (e *Engine) processesRun(ctx context.Context, s sandbox.Sandbox) bool {
	d, ok := driver.As[driver.Guester](e.opts.Drivers[s.Spec.Driver])
	if !ok || s.State != sandbox.Running {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, processesTimeout)
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

// turnUntil returns the end of the hold of a turn in the sandbox; zero: there is none. It reads holds only if there are
// unsaved changes, because only timers that save need it.
func (e *Engine) turnUntil(ctx context.Context, s sandbox.Sandbox) (until time.Time) {
	if s.UnsavedSince.IsZero() {
		return until
	}
	holds, err := e.opts.Store.Holds(ctx, s.ID)
	for _, h := range holds {
		if err == nil && h.Kind == HoldTurn && h.Until.After(until) {
			until = h.Until
		}
	}
	return until
}

// HoldTurn is the kind of the hold of a running turn.
const HoldTurn = "turn"

// addFileInfo adds the restored version and the lost changes of files to a change and its reason.
func (w *work) addFileInfo(step sandbox.Step, c *sandbox.Change) {
	switch step.Event {
	case sandbox.EventReady:
		if c.Restored = w.restored; c.Restored != nil {
			c.Reason += fmt.Sprintf("; version %s, saved %s, was restored", c.Restored.Version, c.Restored.SavedAt.UTC().Format(time.RFC3339))
		}
	case sandbox.EventLost:
		addLost(c, lostSince(w.s, w.policy))
	case sandbox.EventEnd:
		if step.Final != sandbox.FinalArchive && !w.s.SkipSave && !w.policy.NoSave {
			addLost(c, w.s.UnsavedSince)
		}
	}
}

// lostSince returns the time since when changes are lost with the sandbox's instance; zero: nothing is lost.
func lostSince(s sandbox.Sandbox, p sandbox.Policy) time.Time {
	if !p.NoSave || s.ChangedAt.IsZero() {
		return s.UnsavedSince
	}
	if s.DestroyedAt.After(s.CreatedAt) { // no files of this instance were ever saved
		return s.DestroyedAt
	}
	return s.CreatedAt
}

// addLost adds changes that are lost since a time to a change and its reason. A zero time adds nothing.
func addLost(c *sandbox.Change, since time.Time) {
	if c.Lost = since; !since.IsZero() {
		c.Reason += fmt.Sprintf("; files changed since %s were not saved and are lost", since.UTC().Format(time.RFC3339))
	}
}

// Notice returns a text for people about the sandbox's files: which version was restored and which changes were lost
// between the last use before this handle and the last use of this handle. It is empty if there were none.
func (h *Handle) Notice() string {
	first, now := h.first.Load(), h.used.Load()
	if first == nil || now == nil {
		return ""
	}
	return Notice(first.ActiveAt, *now)
}

// Notice returns a text for people about a sandbox's files: which version was restored and which changes were lost after
// lastUse, according to the record now. It is empty if there were none, or if lastUse is zero.
func Notice(lastUse time.Time, now sandbox.Sandbox) string {
	if lastUse.IsZero() {
		return ""
	}
	lost, restored := now.Lost, now.Restored
	text := ""
	if lost.At.After(lastUse) {
		text = fmt.Sprintf("The instance of this sandbox was lost: files changed since %s were not saved and are lost.", lost.Since.UTC().Format(time.RFC3339))
		if restored.Version == "" {
			text += " No version was saved before, so the workspace starts empty."
		}
	}
	if restored.At.After(lastUse) {
		text = strings.TrimSpace(text + fmt.Sprintf(" The workspace was restored from version %s, saved %s.", restored.Version, restored.SavedAt.UTC().Format(time.RFC3339)))
	}
	return text
}
