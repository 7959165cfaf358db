package keeper

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
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/workspace"
)

// Interrupt makes a save in the background that holds the sandbox's lease give way to a capture.
func (k *Keeper) Interrupt(s sandbox.Sandbox) { k.uploads.interrupt(s.ID) }

// Captures reports whether workspaces can be captured here.
func (k *Keeper) Captures() bool { return k != nil && k.Spool != nil }

// Capture writes down what a turn left in its workspace, in the local spool and without the object store. The
// caller has the sandbox to itself, since began by the database's clock. A turn that was captured before is not captured again. ErrSpoolFull and
// errors of code unsupported mean that this workspace cannot be captured now; Sync still saves it.
func (k *Keeper) Capture(ctx context.Context, s sandbox.Sandbox, turn string, began time.Time, busy, late bool) error {
	if k.Plan(s).Off || !k.hasFiles(s) {
		return nil
	}
	if s.Synced.Incarnation != s.Incarnation {
		return neverRestored()
	}
	all, err := k.Spool.entries(ctx, s.ID)
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
	base, err := k.localBase(ctx, s, all)
	if err != nil {
		return err
	}
	e := &Entry{Turn: turn, Number: number, Incarnation: s.Incarnation, Began: began, Busy: busy, Late: late}
	if err := k.capture(ctx, s, base, e); err != nil {
		return errors.Join(err, k.Spool.remove(context.WithoutCancel(ctx), s.ID, turn))
	}
	return nil
}

func (k *Keeper) capture(ctx context.Context, s sandbox.Sandbox, base *workspace.Index, e *Entry) error {
	t, err := k.tree(ctx, s, driver.ID(s.Instance))
	if err != nil {
		return err
	}
	defer t.Close()
	o := workspace.PushOptions{Writer: writer(s), Exists: k.exists(ctx, s)}
	if o.Ignore, err = workspace.ReadIgnore(t); err != nil {
		return err
	}
	stage := k.Spool.stage(s.ID, e.Turn)
	stage.Limits, stage.Layout = k.Repo(s).Limits, k.Repo(s).Layout
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
	if err := k.Spool.write(ctx, s.ID, e); err != nil {
		return err
	}
	k.log().InfoContext(ctx, "workspace captured", "turn_id", e.Turn, "version", c.Version(), "new", c.New, "stats", res.Stats)
	k.describe(ctx, t, res)
	return nil
}

// errNoBase is a workspace of which nothing is known on this machine.
var errNoBase = sandbox.Errorf("capture workspace", api.CodeUnsupported, "what was saved last is not known on this machine")

// localBase is the version that the next capture follows, as far as it is known without the store: the last
// capture of the queue, or the index of the version that the record names.
func (k *Keeper) localBase(ctx context.Context, s sandbox.Sandbox, all []*Entry) (*workspace.Index, error) {
	newest, last := follow(s, all)
	if last != nil {
		return k.Spool.index(ctx, s.ID, last)
	}
	if newest == "" {
		return nil, nil
	}
	x, err := workspace.LoadIndex(k.index(s))
	if err != nil || x == nil || x.ID != newest {
		return nil, errors.Join(errNoBase, err)
	}
	return x, nil
}

// follow goes from the version that the record names along the captures that follow it. It returns the version
// at their end, and the capture that has it, nil if the record's own version is the last.
func follow(s sandbox.Sandbox, all []*Entry) (version string, last *Entry) {
	version = s.Synced.Version
	for _, e := range all {
		merged := e.Committed != "" && e.Committed != e.Capture.Version()
		if e.Incarnation == s.Incarnation && e.Capture.New && !merged && e.Capture.Line.Parent == version {
			version, last = e.Capture.Line.ID, e
		}
	}
	return version, last
}

// Saved is what became of a turn's work.
type Saved struct {
	Version string
	// Shared says that the version has later work, too: what the turn left was not captured by itself.
	Shared bool
	// Late says that the capture was made when a later turn may have begun.
	Late bool
	// Beside says that the version is not part of the newest one: others saved to the workspace since.
	Beside bool

	was, mark sandbox.SyncMark
	began     time.Time
	busy      bool
	turn      string // of the capture
}

// ErrNotCaptured says that the spool has nothing for a turn.
var ErrNotCaptured = errors.New("nothing was captured")

// ErrUnmergeable is a capture of an instance that is gone, whose parent is not in the history any more: its files
// cannot be put together.
var ErrUnmergeable = sandbox.Errorf("save workspace", api.CodeSyncConflict, "the version that the turn began with was removed, and the instance that had the turn's work is gone")

// Settle brings what a turn left from the spool into the object store. It is for the oldest turn of the
// sandbox that is not saved yet; one that was not captured gets the version of the next capture. The caller
// need not have the sandbox to itself. Record writes down what Settle did.
func (k *Keeper) Settle(ctx context.Context, s sandbox.Sandbox, turn, note string) (Saved, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	ctx, unlock, err := k.uploads.enter(ctx, s.ID, as{yields: true})
	if err != nil {
		return Saved{}, err
	}
	defer unlock()
	all, err := k.Spool.entries(ctx, s.ID)
	if err != nil {
		return Saved{}, err
	}
	e := entryFor(all, turn)
	if e == nil {
		return Saved{}, ErrNotCaptured
	}
	for _, earlier := range all {
		if earlier.Number < e.Number && err == nil {
			err = k.commitAny(ctx, s, earlier, "turn "+earlier.Turn)
		}
	}
	if err == nil {
		err = k.commitAny(ctx, s, e, note)
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

// entryFor is the capture of a turn, or else the oldest: that of a later turn.
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

// commit brings one capture into the store, unless it is there.
func (k *Keeper) commit(ctx context.Context, s sandbox.Sandbox, e *Entry, note string) error {
	if e.Committed != "" || e.Capture.Version() == "" {
		return nil
	}
	if err := k.closed(); err != nil {
		return err
	}
	k.at("before-commit", e.Turn)
	if err := k.Repo(s).Commit(ctx, k.Spool.stage(s.ID, e.Turn), &e.Capture, note); err != nil {
		return err
	}
	k.at("after-commit", e.Turn)
	e.Committed = e.Capture.Version()
	return k.Spool.write(ctx, s.ID, e)
}

// commitAny is commit, also for a capture whose instance is gone and to whose workspace others have saved since: it
// becomes a version beside theirs.
func (k *Keeper) commitAny(ctx context.Context, s sandbox.Sandbox, e *Entry, note string) error {
	err := k.commit(ctx, s, e, note)
	if !errors.Is(err, workspace.ErrMoved) || s.Instance != "" && e.Incarnation == s.Incarnation {
		return err
	}
	err = k.Repo(s).CommitBeside(ctx, k.Spool.stage(s.ID, e.Turn), &e.Capture, note+"; not part of later versions, which other sandboxes saved")
	if errors.Is(err, workspace.ErrMoved) {
		return ErrUnmergeable
	}
	if err != nil {
		return err
	}
	e.Committed, e.Beside = e.Capture.Version(), e.Capture.New
	return k.Spool.write(ctx, s.ID, e)
}

// Record is the mark of the sandbox after Settle, when the workspace was read for it and whether processes ran then;
// the caller has the sandbox to itself. A mark that has moved on stays. The index of the version is kept for the next save.
func (k *Keeper) Record(ctx context.Context, s sandbox.Sandbox, done Saved) (mark sandbox.SyncMark, began time.Time, busy bool) {
	if s.Synced != done.was {
		return s.Synced, time.Time{}, false
	}
	if done.mark == done.was {
		return s.Synced, done.began, done.busy
	}
	x, err := k.Spool.index(ctx, s.ID, &Entry{Turn: done.turn})
	if err == nil {
		err = x.Save(k.index(s))
	}
	if err != nil {
		k.log().WarnContext(ctx, "write the index of a workspace; the next save reads everything again", "error", err)
	}
	return done.mark, done.began, done.busy
}

// Settled removes the capture of a turn that is saved and recorded, and those before it, which nothing waits for.
func (k *Keeper) Settled(ctx context.Context, s sandbox.Sandbox, turn string) error {
	if !k.Captures() {
		return nil
	}
	all, err := k.Spool.entries(ctx, s.ID)
	if err != nil {
		return err
	}
	own := slices.IndexFunc(all, func(e *Entry) bool { return e.Turn == turn })
	for _, e := range all[:own+1] {
		if err := k.Spool.remove(ctx, s.ID, e.Turn); err != nil {
			return err
		}
	}
	return nil
}

// drop removes all captures of a sandbox, also those that were never finished.
func (k *Keeper) drop(ctx context.Context, s sandbox.Sandbox) error {
	if !k.Captures() {
		return nil
	}
	return k.Spool.remove(ctx, s.ID, "")
}

// drain brings all captures of a sandbox into the store, in their order, and returns the version at their end.
// Captures that do not follow the store's newest version are returned: the workspace has their work, too.
func (k *Keeper) drain(ctx context.Context, s sandbox.Sandbox) (mark sandbox.SyncMark, behind []*Entry, err error) {
	mark = s.Synced
	if !k.Captures() {
		return mark, nil, nil
	}
	all, err := k.Spool.entries(ctx, s.ID)
	if err != nil {
		return mark, nil, err
	}
	for i, e := range all {
		err := k.commit(ctx, s, e, "turn "+e.Turn)
		if errors.Is(err, workspace.ErrMoved) {
			behind, all = all[i:], all[:i]
			break
		}
		if err != nil {
			return mark, nil, fmt.Errorf("save what turn %s left: %w", e.Turn, err)
		}
	}
	if version, last := follow(s, all); last != nil {
		mark.Version = version
	}
	return mark, behind, nil
}

// merged writes down which version has the work of captures that could not be committed by themselves. Those of
// an earlier instance are not in the workspace that was saved.
func (k *Keeper) merged(ctx context.Context, s sandbox.Sandbox, behind []*Entry, version string) error {
	for _, e := range behind {
		if e.Committed != "" || e.Incarnation != s.Incarnation {
			continue
		}
		e.Committed = version
		if err := k.Spool.write(ctx, s.ID, e); err != nil {
			return err
		}
	}
	return nil
}

func neverRestored() error {
	return sandbox.Errorf("save workspace", api.CodeSyncFailed, "this instance never had the workspace restored into it, so that saving it could only lose files")
}
