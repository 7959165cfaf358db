package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob/dirblob"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/keeper"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/turn"
	"github.com/berthdev/berth/internal/workspace"
)

// openSpool opens the directory that has what turns left until it is in the object store.
func (s *System) openSpool(ctx context.Context) error {
	if s.keeper == nil || s.cfg.SaveSpoolBytes == 0 {
		return nil
	}
	dir := filepath.Join(s.cfg.DataDir, "spool")
	files, err := dirblob.Open(ctx, dir)
	if err != nil {
		return fmt.Errorf("open the spool of saves: %w", err)
	}
	s.closers = append(s.closers, files)
	s.keeper.Spool, err = keeper.NewSpool(ctx, files, dir, s.cfg.SaveSpoolBytes)
	s.keeper.At = s.at
	return err
}

// saver saves workspaces behind turns: the captures are the keeper's, the leases the engine's.
type saver struct{ *System }

// Saves implements turn.Saver.
func (s saver) Saves(sb sandbox.Sandbox) bool { return s.keeper.Saves(sb) }

// Capture implements turn.Saver.
func (s saver) Capture(ctx context.Context, sb sandbox.Sandbox, turn string) error {
	return s.capture(ctx, sb, turn, false)
}

func (s saver) capture(ctx context.Context, sb sandbox.Sandbox, turn string, late bool) error {
	if !s.keeper.Captures() {
		return keeper.ErrNotCaptured
	}
	s.keeper.Interrupt(sb)
	_, err := s.handleOf(sb).Marking(ctx, "capture workspace", func(ctx context.Context, sb sandbox.Sandbox, now engine.Reading) (sandbox.SyncMark, engine.Reading, error) {
		return sb.Synced, engine.Reading{}, s.keeper.Capture(ctx, sb, turn, now.Began, now.Busy, late)
	})
	return err
}

func (s saver) handleOf(sb sandbox.Sandbox) *engine.Handle {
	return s.Engine.Handle(sb.Owner.Tenant, sb.ID, "hook")
}

// Release implements turn.Saver.
func (s saver) Release(ctx context.Context, sb sandbox.Sandbox, turn string) error {
	return s.keeper.Settled(ctx, sb, turn)
}

// The warnings about a save that did not go as expected.
const (
	sharedVersion = "the files of this turn were not captured by themselves: its version also has what later turns changed"
	lateVersion   = "the files of this turn were captured after it had ended: its version may also have what came after"
	besideVersion = "other sandboxes saved to this workspace before this turn could be saved, and its instance was gone: version %[1]s has its files, and later versions do not; 'berth restore ID %[1]s --into NAME' brings them back"
	lostVersion   = "the files of this turn were not saved: its instance was gone before they could be captured"
)

// Save implements turn.Saver. It needs the sandbox to itself only for what it reads or writes on this machine, so
// that an object store that hangs does not hold up the use of the sandbox.
func (s saver) Save(ctx context.Context, sb sandbox.Sandbox, owed store.Save) (turn.Saved, error) {
	note := "turn " + owed.Turn
	if !s.keeper.Saves(sb) {
		return turn.Saved{}, nil
	}
	if !s.keeper.Captures() {
		return s.whole(ctx, sb, owed)
	}
	done, err := s.settle(ctx, sb, owed.Turn, note)
	if errors.Is(err, keeper.ErrNotCaptured) {
		if gone(sb, owed) {
			return turn.Saved{Warnings: []string{lostVersion}}, nil
		}
		err = s.capture(ctx, sb, owed.Turn, true)
		if errors.Is(err, keeper.ErrSpoolFull) || sandbox.CodeOf(err) == api.CodeUnsupported {
			return s.whole(ctx, sb, owed)
		}
		if err == nil {
			done, err = s.settle(ctx, sb, owed.Turn, note)
		}
	}
	switch {
	case errors.Is(err, workspace.ErrMoved):
		return s.whole(ctx, sb, owed) // with what others have saved
	case errors.Is(err, keeper.ErrUnmergeable), sandbox.CodeOf(err) == api.CodeWorkspaceTooLarge:
		return turn.Saved{Warnings: []string{"the files of this turn were not saved: " + err.Error()}}, nil
	case err != nil:
		return turn.Saved{}, err
	}
	if err := s.record(ctx, sb, done); err != nil {
		return turn.Saved{}, err
	}
	return saved(done), nil
}

// settle brings a capture into the store. Where the store does no conditional writes, the sandbox's lease stands in.
func (s saver) settle(ctx context.Context, sb sandbox.Sandbox, turn, note string) (done keeper.Saved, err error) {
	if !s.keeper.Repo(sb).Unconditional || sb.Deleted() || sb.Instance == "" {
		return s.keeper.Settle(ctx, sb, turn, note)
	}
	_, err = s.handleOf(sb).Exclusively(ctx, "save workspace", func(ctx context.Context, sb sandbox.Sandbox) (sandbox.SyncMark, error) {
		done, err = s.keeper.Settle(ctx, sb, turn, note)
		return sb.Synced, err
	})
	return done, err
}

func saved(done keeper.Saved) turn.Saved {
	out := turn.Saved{Version: done.Version}
	if done.Beside {
		out.Warnings = append(out.Warnings, fmt.Sprintf(besideVersion, done.Version))
	}
	if done.Shared {
		out.Warnings = append(out.Warnings, sharedVersion)
	} else if done.Late {
		out.Warnings = append(out.Warnings, lateVersion)
	}
	return out
}

// gone reports whether the instance in which a turn ended is no more.
func gone(sb sandbox.Sandbox, owed store.Save) bool {
	return sb.Deleted() || sb.Instance == "" || sb.Incarnation != owed.Incarnation
}

// record makes the version that was settled the sandbox's. A sandbox without an instance needs none: its next one
// begins with the newest version.
func (s saver) record(ctx context.Context, sb sandbox.Sandbox, done keeper.Saved) error {
	_, err := s.handleOf(sb).Marking(ctx, "record version", func(ctx context.Context, sb sandbox.Sandbox, _ engine.Reading) (sandbox.SyncMark, engine.Reading, error) {
		mark, began, busy := s.keeper.Record(ctx, sb, done)
		return mark, engine.Reading{Began: began, Busy: busy}, nil
	})
	if code := sandbox.CodeOf(err); code == api.CodeNotRunning || errors.Is(err, sandbox.ErrDeleted) || errors.Is(err, sandbox.ErrNotFound) {
		return nil
	}
	return err
}

// whole saves the workspace as it is, with what others have saved since.
func (s saver) whole(ctx context.Context, sb sandbox.Sandbox, owed store.Save) (turn.Saved, error) {
	if gone(sb, owed) {
		return turn.Saved{Warnings: []string{lostVersion}}, nil
	}
	others, err := s.Store.OtherSaves(ctx, owed) // turns that end later are not in what is read next
	if err != nil {
		return turn.Saved{}, err
	}
	var version string
	_, err = s.handleOf(sb).Saving(ctx, "save workspace", func(ctx context.Context, sb sandbox.Sandbox) (sandbox.SyncMark, error) {
		mark, _, err := s.keeper.Sync(ctx, sb, keeper.SyncOptions{Note: "turn " + owed.Turn})
		version = mark.Version
		return mark, err
	})
	if sandbox.CodeOf(err) == api.CodeWorkspaceTooLarge {
		return turn.Saved{Warnings: []string{"the files of this turn were not saved: " + err.Error()}}, nil
	}
	if err != nil {
		return turn.Saved{}, err
	}
	done := turn.Saved{Version: version}
	if others {
		done.Warnings = []string{sharedVersion}
	}
	return done, nil
}

// pushAgain is a second push among the hooks of a template: it saves the workspace as it is by then.
func (s *System) pushAgain(ctx context.Context, d *hook.Data) error {
	if !s.keeper.Saves(d.Record) {
		return nil
	}
	sb, err := s.Engine.Handle(d.Record.Owner.Tenant, d.Record.ID, "hook").Saving(ctx, "save workspace", s.keeper.Save)
	if err == nil {
		d.Version = sb.Synced.Version
	}
	return err
}
