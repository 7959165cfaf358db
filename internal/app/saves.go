package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob/dirblob"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/workspace"
	"github.com/berthdev/berth/internal/workspacesync"
)

// openSpool opens the spool of captures. It returns nil if the configuration has no spool.
func (s *System) openSpool(ctx context.Context) (*workspacesync.Spool, error) {
	if s.cfg.SaveSpoolBytes == 0 {
		return nil, nil
	}
	dir := filepath.Join(s.cfg.DataDir, "spool")
	files, err := dirblob.Open(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("open the spool of saves: %w", err)
	}
	s.closers = append(s.closers, files)
	return workspacesync.NewSpool(ctx, files, dir, s.cfg.SaveSpoolBytes)
}

// saver implements chat.Saver: it saves workspaces after turns, with the syncer under leases of the engine.
type saver struct{ *System }

// Saves implements chat.Saver.
func (s saver) Saves(sb sandbox.Sandbox) bool { return s.syncer.Saves(sb) }

// Capture implements chat.Saver.
func (s saver) Capture(ctx context.Context, sb sandbox.Sandbox, turn string) error {
	return s.capture(ctx, sb, turn, false)
}

func (s saver) capture(ctx context.Context, sb sandbox.Sandbox, turn string, late bool) error {
	if !s.syncer.CanCapture() {
		return workspacesync.ErrNotCaptured
	}
	s.syncer.Interrupt(sb)
	_, err := s.handleOf(sb).Marking(ctx, "capture workspace", func(ctx context.Context, sb sandbox.Sandbox, now engine.Reading) (sandbox.SyncMark, engine.Reading, error) {
		return sb.Synced, engine.Reading{}, s.syncer.Capture(ctx, sb, turn, now.Began, now.Busy, late)
	})
	return err
}

func (s saver) handleOf(sb sandbox.Sandbox) *engine.Handle {
	return s.engine.Handle(sb.Owner.Tenant, sb.ID, "hook")
}

// Release implements chat.Saver.
func (s saver) Release(ctx context.Context, sb sandbox.Sandbox, turn string) error {
	return s.syncer.DropCapture(ctx, sb, turn)
}

// The warnings about a save that did not go as expected.
const (
	sharedVersion = "the files of this turn were not captured by themselves: its version also has what later turns changed"
	lateVersion   = "the files of this turn were captured after it had ended: its version may also have what came after"
	besideVersion = "other sandboxes saved to this workspace before this turn could be saved, and its instance was gone: version %[1]s has its files, and later versions do not; 'berth restore ID %[1]s --into NAME' brings them back"
	lostVersion   = "the files of this turn were not saved: its instance was gone before they could be captured"
)

// Save implements chat.Saver. It holds the sandbox's lease only while it reads or writes on this machine, so that an
// object store that hangs does not delay uses of the sandbox. A store without conditional writes is the exception: a
// commit to it holds the lease too.
func (s saver) Save(ctx context.Context, sb sandbox.Sandbox, owed store.Save) (chat.Saved, error) {
	note := "turn " + owed.Turn
	if !s.syncer.Saves(sb) {
		return chat.Saved{}, nil
	}
	if !s.syncer.CanCapture() {
		return s.saveWhole(ctx, sb, owed)
	}
	done, err := s.commitCapture(ctx, sb, owed.Turn, note)
	if errors.Is(err, workspacesync.ErrNotCaptured) {
		if instanceGone(sb, owed) {
			return chat.Saved{Warnings: []string{lostVersion}}, nil
		}
		done, err = s.saveLate(ctx, sb, owed, note)
		if errors.Is(err, workspacesync.ErrSpoolFull) || fault.CodeOf(err) == api.CodeUnsupported {
			return s.saveWhole(ctx, sb, owed)
		}
	}
	switch {
	case errors.Is(err, workspace.ErrMoved):
		return s.saveWhole(ctx, sb, owed) // merges versions that others have saved
	case errors.Is(err, workspacesync.ErrUnmergeable), fault.CodeOf(err) == api.CodeWorkspaceTooLarge:
		return chat.Saved{Warnings: []string{"the files of this turn were not saved: " + err.Error()}}, nil
	case err != nil:
		return chat.Saved{}, err
	}
	if err := s.record(ctx, sb, done); err != nil {
		return chat.Saved{}, err
	}
	return toChatSaved(done), nil
}

// saveLate captures and commits the files of a turn that ended before. If nothing changed since the sandbox's version, a
// save of an earlier turn contained this turn's files too.
func (s saver) saveLate(ctx context.Context, sb sandbox.Sandbox, owed store.Save, note string) (done workspacesync.Saved, err error) {
	others, err := s.store.Saves().OwesOthers(ctx, owed) // read before the save: later turns do not count
	if err != nil {
		return done, err
	}
	if err := s.capture(ctx, sb, owed.Turn, true); err != nil {
		return done, err
	}
	done, err = s.commitCapture(ctx, sb, owed.Turn, note)
	done.Shared = done.Shared || others && done.Version == sb.Synced.Version
	return done, err
}

// commitCapture commits a capture to the object store. If the store has no conditional writes, it holds the sandbox's
// lease, so that no other save commits at the same time.
func (s saver) commitCapture(ctx context.Context, sb sandbox.Sandbox, turn, note string) (done workspacesync.Saved, err error) {
	if !s.syncer.Repo(sb).Unconditional || sb.Deleted() || sb.Instance == "" {
		return s.syncer.CommitCapture(ctx, sb, turn, note)
	}
	_, err = s.handleOf(sb).Exclusively(ctx, "save workspace", func(ctx context.Context, sb sandbox.Sandbox) (sandbox.SyncMark, error) {
		done, err = s.syncer.CommitCapture(ctx, sb, turn, note)
		return sb.Synced, err
	})
	return done, err
}

func toChatSaved(done workspacesync.Saved) chat.Saved {
	out := chat.Saved{Version: done.Version}
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

// instanceGone reports whether the instance in which a turn ran no longer exists.
func instanceGone(sb sandbox.Sandbox, owed store.Save) bool {
	return sb.Deleted() || sb.Instance == "" || sb.Incarnation != owed.Incarnation
}

// record records the committed version as the sandbox's version. A sandbox without an instance needs no record: its next
// instance starts with the newest version.
func (s saver) record(ctx context.Context, sb sandbox.Sandbox, done workspacesync.Saved) error {
	_, err := s.handleOf(sb).Marking(ctx, "record version", func(ctx context.Context, sb sandbox.Sandbox, _ engine.Reading) (sandbox.SyncMark, engine.Reading, error) {
		mark, began, busy := s.syncer.MarkAfterCommit(ctx, sb, done)
		return mark, engine.Reading{Began: began, Busy: busy}, nil
	})
	if code := fault.CodeOf(err); code == api.CodeNotRunning || errors.Is(err, fault.ErrDeleted) || errors.Is(err, fault.ErrNotFound) {
		return nil
	}
	return err
}

// saveWhole saves the current workspace without a capture, and merges versions that others have saved.
func (s saver) saveWhole(ctx context.Context, sb sandbox.Sandbox, owed store.Save) (chat.Saved, error) {
	if instanceGone(sb, owed) {
		return chat.Saved{Warnings: []string{lostVersion}}, nil
	}
	others, err := s.store.Saves().OwesOthers(ctx, owed) // read before the save: later turns do not count
	if err != nil {
		return chat.Saved{}, err
	}
	var version string
	_, err = s.handleOf(sb).Saving(ctx, "save workspace", func(ctx context.Context, sb sandbox.Sandbox) (sandbox.SyncMark, error) {
		mark, _, err := s.syncer.Sync(ctx, sb, workspacesync.SyncOptions{Note: "turn " + owed.Turn})
		version = mark.Version
		return mark, err
	})
	if fault.CodeOf(err) == api.CodeWorkspaceTooLarge {
		return chat.Saved{Warnings: []string{"the files of this turn were not saved: " + err.Error()}}, nil
	}
	if err != nil {
		return chat.Saved{}, err
	}
	done := chat.Saved{Version: version}
	if others {
		done.Warnings = []string{sharedVersion}
	}
	return done, nil
}

// pushAgain is the built-in hook for each Push of a template after the first. It saves the current workspace.
func (s *System) pushAgain(ctx context.Context, d *hook.Data) error {
	if !s.syncer.Saves(d.Record) {
		return nil
	}
	sb, err := s.engine.Handle(d.Record.Owner.Tenant, d.Record.ID, "hook").Saving(ctx, "save workspace", s.syncer.Save)
	if err == nil {
		d.Version = sb.Synced.Version
	}
	return err
}
