package workspacesync

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/workspace"
)

// Interrupt cancels a background save of the sandbox that holds the sandbox's lease, so that a capture can run.
func (s *Syncer) Interrupt(sb sandbox.Sandbox) { s.uploads.interrupt(sb.ID) }

// CanCapture reports whether a spool is configured, so that workspaces can be captured.
func (s *Syncer) CanCapture() bool { return s != nil && s.o.Spool != nil }

// Capture captures the workspace after a turn in the local spool. It does not use the object store. The caller
// holds the sandbox's lease. Began is the start of the capture by the database's clock. A turn that is already
// captured is not captured again. ErrSpoolFull and errors with the code unsupported mean that this workspace cannot
// be captured now; Sync can still save it.
func (s *Syncer) Capture(ctx context.Context, sb sandbox.Sandbox, turn string, began time.Time, busy, late bool) error {
	if s.o.Plan(sb).Off || !s.hasFiles(sb) {
		return nil
	}
	if sb.Synced.Incarnation != sb.Incarnation {
		return neverRestored()
	}
	all, err := s.o.Spool.entries(ctx, sb.ID)
	if err != nil {
		return err
	}
	number := int64(1)
	for _, e := range all {
		if e.Turn == turn {
			return nil
		}
		number = e.Number + 1
	}
	base, err := s.captures.localBase(ctx, sb, all)
	if err != nil {
		return err
	}
	e := &Entry{Turn: turn, Number: number, Incarnation: sb.Incarnation, Began: began, Busy: busy, Late: late}
	if err := s.captures.capture(ctx, sb, base, e); err != nil {
		return errors.Join(err, s.o.Spool.remove(context.WithoutCancel(ctx), sb.ID, turn))
	}
	return nil
}

// captures makes captures on the local disk and commits them to the object store.
type captures struct{ s *Syncer }

func (cs captures) capture(ctx context.Context, sb sandbox.Sandbox, base *workspace.Index, e *Entry) error {
	t, err := cs.s.tree(ctx, sb, driver.ID(sb.Instance))
	if err != nil {
		return err
	}
	defer t.Close()
	o := workspace.PushOptions{Writer: writer(sb), Exists: cs.s.exists(ctx, sb)}
	if o.Ignore, err = workspace.ReadIgnore(t); err != nil {
		return err
	}
	stage := cs.s.o.Spool.stage(sb.ID, e.Turn)
	stage.Limits, stage.Layout = cs.s.Repo(sb).Limits, cs.s.Repo(sb).Layout
	c, res, err := stage.Capture(ctx, t, base, o)
	if err != nil {
		return err
	}
	e.Capture = *c
	if c.New {
		text := workspace.EncodeIndex(res.Index)
		if _, err := stage.Store.Put(ctx, stage.Prefix+indexKey, bytes.NewReader(text), int64(len(text)), blob.PutOptions{}); err != nil {
			return err
		}
	}
	if err := cs.s.o.Spool.write(ctx, sb.ID, e); err != nil {
		return err
	}
	cs.s.log().InfoContext(ctx, "workspace captured", "turn_id", e.Turn, "version", c.Version(), "new", c.New, "stats", res.Stats)
	cs.s.describe(ctx, t, res)
	return nil
}

// errNoBase means that this machine has no index of the last saved version.
var errNoBase = fault.Errorf("capture workspace", api.CodeUnsupported, "what was saved last is not known on this machine")

// localBase returns the version that the next capture follows, without use of the store. This is the last capture
// in the spool, or the version in the sandbox's row if its index is on this machine.
func (cs captures) localBase(ctx context.Context, sb sandbox.Sandbox, all []*Entry) (*workspace.Index, error) {
	newest, last := follow(sb, all)
	if last != nil {
		return cs.s.o.Spool.index(ctx, sb.ID, last)
	}
	if newest == "" {
		return nil, nil
	}
	x, err := workspace.LoadIndex(cs.s.indexPath(sb))
	if err != nil || x == nil || x.ID != newest {
		return nil, errors.Join(errNoBase, err)
	}
	return x, nil
}

// follow starts at the version in the sandbox's row and follows the chain of captures based on it. It returns the
// last version of the chain and the capture of that version, or nil if the chain is empty.
func follow(sb sandbox.Sandbox, all []*Entry) (version string, last *Entry) {
	version = sb.Synced.Version
	for _, e := range all {
		merged := e.Committed != "" && e.Committed != e.Capture.Version()
		if e.Incarnation == sb.Incarnation && e.Capture.New && !merged && e.Capture.Line.Parent == version {
			version, last = e.Capture.Line.ID, e
		}
	}
	return version, last
}

// Saved is the result of CommitCapture.
type Saved struct {
	Version string
	// Shared is set if the version also contains later work, because the turn was not captured separately.
	Shared bool
	// Late is set if a later turn may have begun before the capture.
	Late bool
	// Beside is set if the newest version does not contain this one, because others saved to the workspace since.
	Beside bool

	was, mark sandbox.SyncMark
	began     time.Time
	busy      bool
	turn      string // turn of the committed capture
}

// ErrNotCaptured is returned if the spool has no capture.
var ErrNotCaptured = errors.New("nothing was captured")

// ErrUnmergeable is returned for a capture whose instance is gone and whose parent version was removed, so that its
// files cannot be merged.
var ErrUnmergeable = fault.Errorf("save workspace", api.CodeSyncConflict, "the version that the turn began with was removed, and the instance that had the turn's work is gone")

// CommitCapture commits the capture of a turn to the object store. The turn must be the oldest unsaved turn of the
// sandbox. A turn without a capture gets the version of the oldest capture. The caller need not hold the sandbox's
// lease. The result is for MarkAfterCommit, which returns the mark to record.
func (s *Syncer) CommitCapture(ctx context.Context, sb sandbox.Sandbox, turn, note string) (Saved, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	ctx, unlock, err := s.uploads.begin(ctx, sb.ID, uploadMode{background: true})
	if err != nil {
		return Saved{}, err
	}
	defer unlock()
	all, err := s.o.Spool.entries(ctx, sb.ID)
	if err != nil {
		return Saved{}, err
	}
	e := entryFor(all, turn)
	if e == nil {
		return Saved{}, ErrNotCaptured
	}
	for _, earlier := range all {
		if earlier.Number < e.Number && err == nil {
			err = s.captures.commitAny(ctx, sb, earlier, "turn "+earlier.Turn)
		}
	}
	if err == nil {
		err = s.captures.commitAny(ctx, sb, e, note)
	}
	if err != nil {
		return Saved{}, err
	}
	return Saved{
		Beside: e.Beside, Version: e.Committed, Shared: e.Turn != turn || e.Committed != e.Capture.Version(), Late: e.Late, turn: e.Turn, began: e.Began, busy: e.Busy,
		was:  sandbox.SyncMark{Version: e.Capture.Line.Parent, Incarnation: e.Incarnation},
		mark: sandbox.SyncMark{Version: e.Committed, Incarnation: e.Incarnation},
	}, nil
}

// entryFor returns the capture of a turn. If the turn has none, it returns the oldest capture, or nil if there is
// none.
func entryFor(all []*Entry, turn string) *Entry {
	for _, e := range all {
		if e.Turn == turn {
			return e
		}
	}
	if len(all) > 0 {
		return all[0]
	}
	return nil
}

// commit commits one capture to the store, unless it is already committed or empty.
func (cs captures) commit(ctx context.Context, sb sandbox.Sandbox, e *Entry, note string) error {
	if e.Committed != "" || e.Capture.Version() == "" {
		return nil
	}
	if err := cs.s.checkGate(); err != nil {
		return err
	}
	cs.s.at("before-commit", e.Turn)
	if err := cs.s.Repo(sb).Commit(ctx, cs.s.o.Spool.stage(sb.ID, e.Turn), &e.Capture, note); err != nil {
		return err
	}
	cs.s.at("after-commit", e.Turn)
	e.Committed = e.Capture.Version()
	return cs.s.o.Spool.write(ctx, sb.ID, e)
}

// commitAny does the same as commit. In addition it commits a capture whose instance is gone although others saved
// to the workspace since. Such a capture becomes a version beside the newer versions.
func (cs captures) commitAny(ctx context.Context, sb sandbox.Sandbox, e *Entry, note string) error {
	err := cs.commit(ctx, sb, e, note)
	if !errors.Is(err, workspace.ErrMoved) || sb.Instance != "" && e.Incarnation == sb.Incarnation {
		return err
	}
	err = cs.s.Repo(sb).CommitBeside(ctx, cs.s.o.Spool.stage(sb.ID, e.Turn), &e.Capture, note+"; not part of later versions, which other sandboxes saved")
	if errors.Is(err, workspace.ErrMoved) {
		return ErrUnmergeable
	}
	if err != nil {
		return err
	}
	e.Committed, e.Beside = e.Capture.Version(), e.Capture.New
	return cs.s.o.Spool.write(ctx, sb.ID, e)
}

// MarkAfterCommit returns the sandbox's mark after CommitCapture, the time at which the workspace was read, and
// whether processes ran then. The caller holds the sandbox's lease. If the mark changed since, the current mark is
// returned. The version's index is stored for the next save.
func (s *Syncer) MarkAfterCommit(ctx context.Context, sb sandbox.Sandbox, done Saved) (mark sandbox.SyncMark, began time.Time, busy bool) {
	if sb.Synced != done.was {
		return sb.Synced, time.Time{}, false
	}
	if done.mark == done.was {
		return sb.Synced, done.began, done.busy
	}
	x, err := s.o.Spool.index(ctx, sb.ID, &Entry{Turn: done.turn})
	if err == nil {
		err = x.Save(s.indexPath(sb))
	}
	if err != nil {
		s.log().WarnContext(ctx, "write the index of a workspace; the next save reads everything again", "error", err)
	}
	return done.mark, done.began, done.busy
}

// DropCapture removes the capture of a turn and all earlier captures. The turn's version must be saved and
// recorded.
func (s *Syncer) DropCapture(ctx context.Context, sb sandbox.Sandbox, turn string) error {
	if !s.CanCapture() {
		return nil
	}
	all, err := s.o.Spool.entries(ctx, sb.ID)
	if err != nil {
		return err
	}
	own := slices.IndexFunc(all, func(e *Entry) bool { return e.Turn == turn })
	for _, e := range all[:own+1] {
		if err := s.o.Spool.remove(ctx, sb.ID, e.Turn); err != nil {
			return err
		}
	}
	return nil
}

// dropCaptures removes all captures of a sandbox, unfinished ones too.
func (cs captures) dropCaptures(ctx context.Context, sb sandbox.Sandbox) error {
	if !cs.s.CanCapture() {
		return nil
	}
	return cs.s.o.Spool.remove(ctx, sb.ID, "")
}

// drain commits all captures of a sandbox in order, and returns the mark with the last version. Captures that do
// not follow the store's newest version are returned in behind. The workspace also contains their work.
func (cs captures) drain(ctx context.Context, sb sandbox.Sandbox) (mark sandbox.SyncMark, behind []*Entry, err error) {
	mark = sb.Synced
	if !cs.s.CanCapture() {
		return mark, nil, nil
	}
	all, err := cs.s.o.Spool.entries(ctx, sb.ID)
	if err != nil {
		return mark, nil, err
	}
	for i, e := range all {
		err := cs.commit(ctx, sb, e, "turn "+e.Turn)
		if errors.Is(err, workspace.ErrMoved) {
			behind, all = all[i:], all[:i]
			break
		}
		if err != nil {
			return mark, nil, fmt.Errorf("save what turn %s left: %w", e.Turn, err)
		}
	}
	if version, last := follow(sb, all); last != nil {
		mark.Version = version
	}
	return mark, behind, nil
}

// recordMerged records that a version contains the work of captures that could not be committed separately. It
// skips captures of an earlier instance, because the saved workspace does not contain their work.
func (cs captures) recordMerged(ctx context.Context, sb sandbox.Sandbox, behind []*Entry, version string) error {
	for _, e := range behind {
		if e.Committed != "" || e.Incarnation != sb.Incarnation {
			continue
		}
		e.Committed = version
		if err := cs.s.o.Spool.write(ctx, sb.ID, e); err != nil {
			return err
		}
	}
	return nil
}

func neverRestored() error {
	return fault.Errorf("save workspace", api.CodeSyncFailed, "refusing to save: the workspace was not restored in this instance")
}
