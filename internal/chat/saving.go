package chat

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
)

// Saver saves workspaces after turns.
type Saver interface {
	// Saves reports whether workspaces of the sandbox are saved.
	Saves(s sandbox.Sandbox) bool
	// Capture copies the files of the turn to the local disk, before the next turn can begin. Without a capture, Save
	// saves the files as they are at that later time.
	Capture(ctx context.Context, s sandbox.Sandbox, turn string) error
	// Save commits a version to the object store. After an error it is called again later.
	Save(ctx context.Context, s sandbox.Sandbox, owed store.Save) (Saved, error)
	// Release removes the capture. It is called when the save is recorded.
	Release(ctx context.Context, s sandbox.Sandbox, turn string) error
}

// Saved is the result of a save.
type Saved struct {
	Version  string
	Warnings []string // for the users of the turn
}

const (
	// saveWait is the time that a finished turn waits for its version.
	saveWait = 2 * time.Second
	// foreignSaveAge is the age until which only the host with the capture makes a save. Then other hosts may make it.
	foreignSaveAge = time.Hour
	// maxSaves is the number of sandboxes that findSaves saves at once.
	maxSaves = 32

	firstSavePause, longestSavePause = time.Second, time.Minute
)

// saveData is stored with a pending save, for the hooks that run after it.
type saveData struct {
	Conversation string       `json:"conversation"`
	Status       string       `json:"status"`
	Usage        api.Usage    `json:"usage"`
	Message      *api.Message `json:"message,omitempty"`
}

// newSave captures the files of the turn and returns the save to make. It returns nil if nothing is to be saved.
func (w *work) newSave(ctx context.Context, d *hook.Data, until time.Time) (*store.Save, error) {
	template := d.Record.Spec.Template
	if !w.saves(d.Record) {
		return nil, nil
	}
	data := saveData{Conversation: d.ConversationID, Status: d.Status, Usage: d.Usage}
	if w.opts.Hooks.Behind(template) {
		data.Message = &d.Message
	}
	text, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	owed := &store.Save{Turn: w.turn.ID, Tenant: w.turn.Tenant, Sandbox: d.Record.ID, Incarnation: d.Record.Incarnation, Data: text}
	brief, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if err := w.opts.Saver.Capture(brief, d.Record, w.turn.ID); err == nil {
		owed.Host = w.opts.Host
	} else if ctx.Err() == nil {
		w.opts.Log.WarnContext(ctx, "capture the workspace; it is saved as it is when its save is made", "error", err)
	}
	w.at("captured", w.turn.ID)
	return owed, context.Cause(ctx)
}

// awaitSave waits until the turn's save is done or must be retried, at most until the given time.
func (w *work) awaitSave(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for w.turn.Saving {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return w.rereadTurn(ctx)
		case <-w.beginSaves(w.turn.Sandbox):
		}
		if err := w.rereadTurn(ctx); err != nil {
			return err
		}
		if next, ok, err := w.opts.Store.Saves().Next(ctx, w.turn.Sandbox, w.opts.Host); err == nil && ok && next.Attempts > 0 {
			return nil // the save failed and is retried later
		}
		if w.turn.Saving { // another server makes the save, or a lease must expire first
			select {
			case <-ctx.Done():
			case <-time.After(min(w.opts.Poll, time.Until(until))):
			}
		}
	}
	return nil
}

// rereadTurn reads the result of the turn's save from the database.
func (w *work) rereadTurn(ctx context.Context) error {
	t, err := w.opts.Store.In(w.turn.Tenant).Turns().Get(ctx, w.turn.ID)
	if err == nil {
		w.turn.Saving, w.turn.Version, w.turn.Warnings = t.Saving, t.Version, t.Warnings
	}
	return err
}

// unsavedWarning is the warning of a turn that ends before its version is saved.
const unsavedWarning = "the files of this turn are not in the object store yet. The server keeps them and goes on trying; " +
	"if it lasts, have the object store checked with 'berth doctor', and do not delete the sandbox with --no-save"

// findSaves starts the saves that are due.
func (s *Service) findSaves(ctx context.Context) {
	if s.opts.Saver == nil {
		return
	}
	due, err := s.opts.Store.Saves().Due(ctx, s.opts.Host, foreignSaveAge, 100)
	if err != nil && ctx.Err() == nil {
		s.opts.Log.WarnContext(ctx, "look for saves that are owed", "error", err)
	}
	for _, owed := range due {
		s.mu.Lock()
		full := len(s.saving) >= maxSaves
		s.mu.Unlock()
		if full {
			return
		}
		s.beginSaves(owed.Sandbox)
	}
}

// beginSaves makes the pending saves of a sandbox in the background. If this process already does that, it starts
// nothing. The channel is closed when no more saves can be made for now.
func (s *Service) beginSaves(sandbox string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if done := s.saving[sandbox]; done != nil {
		return done
	}
	done := make(chan struct{})
	if s.base.Err() != nil {
		close(done)
		return done
	}
	s.saving[sandbox] = done
	s.work.Go(func() {
		defer func() {
			s.mu.Lock()
			delete(s.saving, sandbox)
			s.mu.Unlock()
			close(done)
		}()
		s.doSaves(s.base, sandbox)
	})
	return done
}

// doSaves makes the pending saves of a sandbox, oldest first, until one fails.
func (s *Service) doSaves(ctx context.Context, sandboxID string) {
	asked := time.Now()
	grant, err := s.opts.Store.Leases().Lease(ctx, store.LeaseSave, sandboxID, s.opts.Holder)
	if err != nil || !grant.OK {
		if err != nil && ctx.Err() == nil {
			s.opts.Log.WarnContext(ctx, "take the lease of a sandbox's saves", "sandbox_id", sandboxID, "error", err)
		}
		return
	}
	held, stop := store.RenewLoop(ctx, s.opts.Store.Leases(), grant.Lease, s.opts.Store.LeaseTTL(), asked)
	for s.nextSave(held, sandboxID) {
	}
	if err := stop(); err != nil {
		s.opts.Log.WarnContext(ctx, "release lease; it runs out by itself", "sandbox_id", sandboxID, "error", err)
	}
}

// nextSave makes the oldest pending save of a sandbox. It reports whether to try the next one.
func (s *Service) nextSave(ctx context.Context, sandboxID string) bool {
	owed, ok, err := s.opts.Store.Saves().Next(ctx, sandboxID, s.opts.Host)
	if err != nil && ctx.Err() == nil {
		s.opts.Log.WarnContext(ctx, "look for saves that are owed", "sandbox_id", sandboxID, "error", err)
	}
	if err != nil || !ok || !owed.Due {
		return false
	}
	ctx = telemetry.With(ctx, slog.String(telemetry.FieldTenant, string(owed.Tenant)), slog.String("turn_id", owed.Turn),
		slog.String(telemetry.FieldSandboxID, owed.Sandbox))
	if err := s.save(ctx, owed); err != nil {
		s.retryLater(ctx, owed, err)
		return false
	}
	return ctx.Err() == nil
}

// retryLater schedules a failed save to run again after a pause.
func (s *Service) retryLater(ctx context.Context, owed store.Save, failed error) {
	if errors.Is(context.Cause(ctx), fault.ErrStale) || s.base.Err() != nil {
		return // the save belongs to another server, or this process is stopping
	}
	pause := longestSavePause
	if owed.Attempts < 6 {
		pause = min(pause, firstSavePause<<owed.Attempts)
	}
	pause = pause/2 + rand.N(pause/2+1)
	s.opts.Log.WarnContext(ctx, "save the workspace of a turn; it is tried again", "attempts", owed.Attempts+1, "in", pause.Round(time.Millisecond).String(), "error", failed)
	if err := s.opts.Store.Saves().Retry(ctx, owed.Turn, pause, failed.Error()); err != nil {
		s.opts.Log.WarnContext(ctx, "put a save back; it is tried again at once", "error", err)
	}
}

// save makes one pending save, records it and runs the hooks after it.
func (s *Service) save(ctx context.Context, owed store.Save) error {
	d, err := s.saveHooks(ctx, owed)
	if err != nil {
		return err
	}
	if !owed.Saved {
		var done Saved
		err := s.opts.Hooks.Push(ctx, d, func(ctx context.Context, d *hook.Data) (err error) {
			done, err = s.opts.Saver.Save(ctx, d.Record, owed)
			d.Version = done.Version
			return err
		})
		if err != nil {
			return err
		}
		s.at("saved", owed.Turn)
		if err := s.opts.Store.Saves().Record(ctx, owed, done.Version, done.Warnings, describeSave(owed, done)); err != nil {
			return err
		}
		owed.Version = done.Version
		s.at("recorded", owed.Turn)
	}
	return s.afterSave(ctx, d, owed)
}

// describeSave describes a save for the sandbox's history.
func describeSave(owed store.Save, done Saved) string {
	text := "turn " + owed.Turn + " saved as version " + done.Version
	if done.Version == "" {
		text = "turn " + owed.Turn + " has no version"
	}
	if len(done.Warnings) > 0 {
		text += ": " + strings.Join(done.Warnings, "; ")
	}
	return text
}

// afterSave runs the hooks after a save, releases the capture and ends the save.
func (s *Service) afterSave(ctx context.Context, d *hook.Data, owed store.Save) error {
	if d.Version = owed.Version; s.opts.Hooks.Behind(d.Record.Spec.Template) {
		warnings := s.opts.Hooks.AfterPush(ctx, d)
		if err := context.Cause(ctx); err != nil {
			return err
		}
		s.remember(ctx, owed.Tenant, d)
		if len(warnings) > 0 {
			if err := s.opts.Store.Saves().WarnTurn(ctx, owed.Turn, warnings); err != nil {
				return err
			}
		}
	}
	if err := s.opts.Saver.Release(ctx, d.Record, owed.Turn); err != nil {
		return err
	}
	s.at("released", owed.Turn)
	return s.opts.Store.Saves().End(ctx, owed.Turn)
}

// saveHooks returns the data for the hooks of a save.
func (s *Service) saveHooks(ctx context.Context, owed store.Save) (*hook.Data, error) {
	var data saveData
	if err := json.Unmarshal(owed.Data, &data); err != nil {
		return nil, fault.Errorf("save workspace", api.CodeInternal, "the stored data of turn %s cannot be read: %w", owed.Turn, err)
	}
	sb, err := s.opts.Store.Sandbox(ctx, owed.Sandbox)
	if err != nil {
		return nil, err
	}
	d := &hook.Data{Record: sb, Handle: s.opts.Engine.HandleAt(sb, driver.ID(sb.Instance)), ConversationID: data.Conversation,
		TurnID: owed.Turn, Usage: data.Usage, Status: data.Status}
	if data.Message != nil {
		d.Message = *data.Message
	}
	return d, nil
}

// countSaves updates the metrics of pending saves.
func (s *Service) countSaves(ctx context.Context) {
	n, oldest, err := s.opts.Store.Saves().CountOwed(ctx)
	if err != nil {
		return
	}
	s.opts.Metrics.SavesPending.Set(float64(n))
	age := 0.0
	if n > 0 {
		age = max(0, time.Since(oldest).Seconds())
	}
	s.opts.Metrics.SavesOldest.Set(age)
}
