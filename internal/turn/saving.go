package turn

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
)

// Saver saves workspaces behind turns.
type Saver interface {
	// Saves reports whether the sandbox's workspace is saved at all.
	Saves(s sandbox.Sandbox) bool
	// Capture writes down on this machine what the turn left, before the next turn can begin. Without it the save
	// has what is there when it is made.
	Capture(ctx context.Context, s sandbox.Sandbox, turn string) error
	// Save brings the workspace into the object store. An error means that it is tried again.
	Save(ctx context.Context, s sandbox.Sandbox, owed store.Save) (Saved, error)
	// Release removes what was captured, once the save is on record.
	Release(ctx context.Context, s sandbox.Sandbox, turn string) error
}

// Saved is what became of a save.
type Saved struct {
	Version  string
	Warnings []string // that the turn's people should know of
}

const (
	// saveWait is how long a turn that ended waits for its version.
	saveWait = 2 * time.Second
	// foreignSaves is how long saves are left to the host that captured what they are about.
	foreignSaves = time.Hour
	// saveLanes is how many sandboxes are saved at once by the scan.
	saveLanes = 32

	firstSavePause, longestSavePause = time.Second, time.Minute
)

// saveData is what the hooks behind a save are given.
type saveData struct {
	Conversation string       `json:"conversation"`
	Status       string       `json:"status"`
	Usage        api.Usage    `json:"usage"`
	Message      *api.Message `json:"message,omitempty"`
}

// owe captures what the turn left, and returns the save that is owed to it; nil: there is none.
func (w *work) owe(ctx context.Context, d *hook.Data, until time.Time) (*store.Save, error) {
	template := d.Record.Spec.Template
	if !w.saves(d.Record) {
		return nil, nil
	}
	data := saveData{Conversation: d.ConversationID, Status: d.Status, Usage: d.Usage}
	if w.Hooks.Behind(template) {
		data.Message = &d.Message
	}
	text, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	owed := &store.Save{Turn: w.turn.ID, Tenant: w.turn.Tenant, Sandbox: d.Record.ID, Incarnation: d.Record.Incarnation, Data: text}
	brief, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if err := w.Saver.Capture(brief, d.Record, w.turn.ID); err == nil {
		owed.Host = w.Host
	} else if ctx.Err() == nil {
		w.Log.WarnContext(ctx, "capture the workspace; it is saved as it is when its save is made", "error", err)
	}
	w.at("captured", w.turn.ID)
	return owed, context.Cause(ctx)
}

// await waits a moment for the save that is owed to the turn.
func (w *work) await(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for w.turn.Saving {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return w.lookAgain(ctx)
		case <-w.beginSaves(w.turn.Sandbox):
		}
		if err := w.lookAgain(ctx); err != nil {
			return err
		}
		if next, ok, err := w.Store.NextSave(ctx, w.turn.Sandbox); err == nil && ok && next.Attempts > 0 {
			return nil // it is tried again, later
		}
		if w.turn.Saving { // another server is at it, or its lease has to run out
			select {
			case <-ctx.Done():
			case <-time.After(min(w.Poll, time.Until(until))):
			}
		}
	}
	return nil
}

// lookAgain reads what the save of the turn came to.
func (w *work) lookAgain(ctx context.Context) error {
	t, err := w.Store.In(w.turn.Tenant).Turn(ctx, w.turn.ID)
	if err == nil {
		w.turn.Saving, w.turn.Version, w.turn.Warnings = t.Saving, t.Version, t.Warnings
	}
	return err
}

// unsaved is the warning of a turn whose version is not saved yet.
const unsaved = "the files of this turn are not in the object store yet. The server keeps them and goes on trying; " +
	"if it lasts, have the object store checked with 'berth doctor', and do not delete the sandbox with --no-save"

// findSaves takes up saves that are due.
func (s *Service) findSaves(ctx context.Context) {
	if s.Saver == nil {
		return
	}
	due, err := s.Store.DueSaves(ctx, s.Host, foreignSaves, 100)
	if err != nil && ctx.Err() == nil {
		s.Log.WarnContext(ctx, "look for saves that are owed", "error", err)
	}
	for _, owed := range due {
		s.mu.Lock()
		full := len(s.saving) >= saveLanes
		s.mu.Unlock()
		if full {
			return
		}
		s.beginSaves(owed.Sandbox)
	}
}

// beginSaves does what is owed in a sandbox, in the background, unless this process is at it. The channel is closed
// when nothing more can be done now.
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

// doSaves does the saves that are owed in a sandbox, oldest first, until one has to wait.
func (s *Service) doSaves(ctx context.Context, sandboxID string) {
	asked := time.Now()
	grant, err := s.Store.Lease(ctx, store.LeaseSave, sandboxID, s.Holder)
	if err != nil || !grant.OK {
		if err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "take the lease of a sandbox's saves", "sandbox_id", sandboxID, "error", err)
		}
		return
	}
	held, stop := store.Keep(ctx, s.Store, grant.Lease, s.Store.LeaseTTL(), asked)
	for s.nextSave(held, sandboxID) {
	}
	if err := stop(); err != nil {
		s.Log.WarnContext(ctx, "release lease; it runs out by itself", "sandbox_id", sandboxID, "error", err)
	}
}

// nextSave does the oldest save that is owed in a sandbox, and reports whether there may be another to do.
func (s *Service) nextSave(ctx context.Context, sandboxID string) bool {
	owed, ok, err := s.Store.NextSave(ctx, sandboxID)
	if err != nil && ctx.Err() == nil {
		s.Log.WarnContext(ctx, "look for saves that are owed", "sandbox_id", sandboxID, "error", err)
	}
	if err != nil || !ok || !owed.Due {
		return false
	}
	ctx = telemetry.With(ctx, slog.String(telemetry.FieldTenant, string(owed.Tenant)), slog.String("turn_id", owed.Turn),
		slog.String(telemetry.FieldSandboxID, owed.Sandbox))
	if err := s.save(ctx, owed); err != nil {
		s.putBack(ctx, owed, err)
		return false
	}
	return ctx.Err() == nil
}

// putBack has a save tried again after a pause.
func (s *Service) putBack(ctx context.Context, owed store.Save, failed error) {
	if errors.Is(context.Cause(ctx), sandbox.ErrStale) || s.base.Err() != nil {
		return // another server does it, or the next one
	}
	pause := longestSavePause
	if owed.Attempts < 6 {
		pause = min(pause, firstSavePause<<owed.Attempts)
	}
	pause = pause/2 + rand.N(pause/2+1)
	s.Log.WarnContext(ctx, "save the workspace of a turn; it is tried again", "attempts", owed.Attempts+1, "in", pause.Round(time.Millisecond).String(), "error", failed)
	if err := s.Store.RetrySave(ctx, owed.Turn, pause, failed.Error()); err != nil {
		s.Log.WarnContext(ctx, "put a save back; it is tried again at once", "error", err)
	}
}

// save does one save that is owed, and what comes after it.
func (s *Service) save(ctx context.Context, owed store.Save) error {
	d, err := s.saveHooks(ctx, owed)
	if err != nil {
		return err
	}
	if !owed.Saved {
		var done Saved
		err := s.Hooks.Push(ctx, d, func(ctx context.Context, d *hook.Data) (err error) {
			done, err = s.Saver.Save(ctx, d.Record, owed)
			d.Version = done.Version
			return err
		})
		if err != nil {
			return err
		}
		s.at("saved", owed.Turn)
		if err := s.Store.RecordSave(ctx, owed, done.Version, done.Warnings, reasonOf(owed, done)); err != nil {
			return err
		}
		owed.Version = done.Version
		s.at("recorded", owed.Turn)
	}
	return s.afterSave(ctx, d, owed)
}

// reasonOf is a save in the words of a sandbox's history.
func reasonOf(owed store.Save, done Saved) string {
	text := "turn " + owed.Turn + " saved as version " + done.Version
	if done.Version == "" {
		text = "turn " + owed.Turn + " has no version"
	}
	if len(done.Warnings) > 0 {
		text += ": " + strings.Join(done.Warnings, "; ")
	}
	return text
}

// afterSave runs the hooks that come after a save, and ends it.
func (s *Service) afterSave(ctx context.Context, d *hook.Data, owed store.Save) error {
	if d.Version = owed.Version; s.Hooks.Behind(d.Record.Spec.Template) {
		warnings := s.Hooks.AfterPush(ctx, d)
		if err := context.Cause(ctx); err != nil {
			return err
		}
		s.remember(ctx, owed.Tenant, d)
		if len(warnings) > 0 {
			if err := s.Store.WarnTurn(ctx, owed.Turn, warnings); err != nil {
				return err
			}
		}
	}
	if err := s.Saver.Release(ctx, d.Record, owed.Turn); err != nil {
		return err
	}
	s.at("released", owed.Turn)
	return s.Store.EndSave(ctx, owed.Turn)
}

// saveHooks is the data for the hooks of a save.
func (s *Service) saveHooks(ctx context.Context, owed store.Save) (*hook.Data, error) {
	var data saveData
	if err := json.Unmarshal(owed.Data, &data); err != nil {
		return nil, sandbox.Errorf("save workspace", api.CodeInternal, "what is known of turn %s cannot be read: %w", owed.Turn, err)
	}
	sb, err := s.Store.Sandbox(ctx, owed.Sandbox)
	if err != nil {
		return nil, err
	}
	d := &hook.Data{Record: sb, ConversationID: data.Conversation, TurnID: owed.Turn, Usage: data.Usage, Status: data.Status}
	if data.Message != nil {
		d.Message = *data.Message
	}
	return d, nil
}

// countSaves makes the metrics say what is owed.
func (s *Service) countSaves(ctx context.Context) {
	n, oldest, err := s.Store.SavesOwed(ctx)
	if err != nil {
		return
	}
	s.Metrics.SavesPending.Set(float64(n))
	age := 0.0
	if n > 0 {
		age = max(0, time.Since(oldest).Seconds())
	}
	s.Metrics.SavesOldest.Set(age)
}
