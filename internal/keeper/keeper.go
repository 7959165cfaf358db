// Package keeper saves the workspaces of sandboxes and brings them back: it is the engine's Restorer.
//
// What a workspace was last the same as is in the sandbox's record ([sandbox.SyncMark]): the version, and
// the incarnation that restored or pushed it. Only that incarnation may push, or one that was born empty.
// An index of times and inodes beside the server's data makes it fast; without it everything is read
// again, and nothing else changes.
//
// [Keeper.Restore] and [Keeper.Save] are the engine's; [Keeper.Sync] and [Keeper.Bring] are for whoever
// asks for a version to be made, or to be brought back, and has the sandbox to itself meanwhile.
// [Keeper.Repo] has the versions, and [Keeper.Run] removes those of sandboxes that were deleted long ago.
package keeper

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/workspace"
)

// Timeout bounds one save or restore.
const Timeout = 30 * time.Minute

// Plan is what a template says about one sandbox's workspace.
type Plan struct {
	Prefix string // of its versions, ends with a slash
	Shared bool   // other sandboxes have the same
	Off    bool   // it is not saved
	Empty  bool   // the first incarnation starts empty, whatever is stored
	// KeepLast and KeepDaily say which versions are kept: so many of the newest, and the newest of each of so many
	// days. Both zero: all.
	KeepLast, KeepDaily int
	Layout              string // of new versions: packed, the default, or plain

	Bytes int64 // how large the files may be together to be saved; zero: as the engine of versions has it
}

// Keeper keeps workspaces in one store.
type Keeper struct {
	Store         blob.Store
	Unconditional bool // the store does not do conditional writes; the sandbox's lease stands in
	Dir           string
	Plan          func(sandbox.Sandbox) Plan
	Drivers       map[string]driver.Driver
	// Stale is how long ago a stopped workspace was last in step with the store when its start looks there
	// for what others have saved since; zero: always.
	Stale time.Duration
	Log   *slog.Logger
	// Observe records each push and pull; nil: nothing is recorded.
	Observe func(op string, took time.Duration, bytes int64, err error)

	// Retention is how long the versions of a deleted sandbox are kept; zero: for ever.
	Retention time.Duration
	Records   Records
	// IfFree does something under the lease of a sandbox, unless another holds it; done tells.
	IfFree  func(ctx context.Context, id string, do func(context.Context, sandbox.Sandbox) error) (done bool, err error)
	Grace   time.Duration // how long bytes that no version needs are kept; zero: workspace.DefaultGrace
	Metrics *telemetry.Metrics
	// Known reports whether Plan can say where a sandbox's versions are; nil: always.
	Known func(sandbox.Sandbox) bool

	// Spool has what turns left and is not in the store yet; nil: it is saved while the turn ends.
	Spool *Spool
	// At is called at named points of a save, for tests that stop a server there.
	At func(point, turn string)

	overdue   overdue
	manifests manifests
	uploads   uploads
}

// Repo is where the versions of a sandbox's workspace are.
func (k *Keeper) Repo(s sandbox.Sandbox) *workspace.Repo {
	plan := k.Plan(s)
	return &workspace.Repo{Store: k.Store, Prefix: plan.Prefix, Unconditional: k.Unconditionally(), Limits: workspace.Limits{Bytes: plan.Bytes}, Layout: layoutOf(plan), Log: k.Log, Observe: k.Observe}
}

func layoutOf(plan Plan) workspace.Layout {
	if plan.Layout == string(workspace.Plain) {
		return workspace.Plain
	}
	return workspace.Packed
}

// Unconditionally reports whether the store does not do conditional writes, as far as is known.
func (k *Keeper) Unconditionally() bool {
	if g, ok := k.Store.(*Gate); ok {
		return !g.Conditional()
	}
	return k.Unconditional
}

// Saves reports whether the sandbox's workspace is saved at all.
func (k *Keeper) Saves(s sandbox.Sandbox) bool { return k != nil && !k.Plan(s).Off }

// Restore brings the newest version into an instance that was just made, or what others have saved since
// into one that was stopped. A file that was changed here stays as it is.
func (k *Keeper) Restore(ctx context.Context, s sandbox.Sandbox, id driver.ID) (sandbox.SyncMark, error) {
	plan, known := k.Plan(s), s.Synced.Incarnation == s.Incarnation
	mine := func(version string) sandbox.SyncMark {
		return sandbox.SyncMark{Version: version, Incarnation: s.Incarnation}
	}
	switch {
	case plan.Off, known && k.fresh(s):
		return s.Synced, nil
	case !known && plan.Empty && s.Synced.Version == "", !k.hasFiles(s), neverSaved(s, plan):
		return mine(s.Synced.Version), nil
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	repo := k.Repo(s)
	newest, savedAt, err := k.ask(ctx, repo)
	if err == nil && !known && k.Captures() { // the store answers: what earlier instances left comes first
		if err = k.drainFor(ctx, s); err == nil {
			newest, savedAt, err = k.ask(ctx, repo)
		}
	}
	switch {
	case Unavailable(err) && known:
		k.log().WarnContext(ctx, "the object store does not answer; the sandbox starts with its files as they are here", "error", err)
		return s.Synced, nil
	case Unavailable(err):
		return s.Synced, unavailable(s, err)
	case err != nil:
		return s.Synced, err
	case newest == "" && s.Synced.Version != "" && !known:
		return s.Synced, sandbox.Errorf("restore workspace", api.CodeBadManifest, "version %s was saved, and the store has no version at all", s.Synced.Version)
	case newest == "":
		return mine(""), nil
	case known && newest == s.Synced.Version:
		k.touch(s)
		return s.Synced, nil
	}
	mark, err := k.pull(ctx, repo, s, id, known)
	if err == nil && mark.Version == newest {
		mark.SavedAt = savedAt
	}
	return mark, err
}

// drainFor brings into the store what earlier instances left, so that what is restored has it. What does not
// follow the newest version stays in the spool.
func (k *Keeper) drainFor(ctx context.Context, s sandbox.Sandbox) error {
	ctx, leave, err := k.uploads.enter(ctx, s.ID, as{urgent: true, leased: true})
	if err != nil {
		return err
	}
	defer leave()
	_, behind, err := k.drain(ctx, s)
	if len(behind) > 0 {
		k.log().WarnContext(ctx, "captures do not follow the newest version and are not in what is restored", "captures", len(behind))
	}
	return Told("restore workspace", err)
}

// askFor bounds the question which version is the newest.
const askFor = 4 * time.Second

// ask is newest for a start, which a store that hangs must not hold up.
func (k *Keeper) ask(ctx context.Context, repo *workspace.Repo) (string, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	return k.newest(ctx, repo)
}

// Unavailable reports whether an error means that the object store does not answer.
func Unavailable(err error) bool {
	if err == nil {
		return false
	}
	code := sandbox.CodeOf(err)
	return code == api.CodeBlobUnreachable || code == api.CodeTimeout || errors.Is(err, context.DeadlineExceeded)
}

// neverSaved reports whether no version can exist: the sandbox never ran, and its prefix is its own.
func neverSaved(s sandbox.Sandbox, plan Plan) bool {
	return s.Synced.Version == "" && s.StartedAt.IsZero() && !plan.Shared && strings.Contains(plan.Prefix, "/"+s.ID+"/")
}

// unavailable is the answer to a start that needs a version which is not here.
func unavailable(s sandbox.Sandbox, err error) error {
	e := sandbox.Errorf("restore workspace", api.CodeBlobUnreachable, "the files of sandbox %s are in the object store, which does not answer: %w", s.ID, err)
	e.Hint = "Nothing is lost. Try again once the object store answers; /readyz says when."
	return e
}

// newest is the id of the newest version and when it was saved; empty if there is none.
func (k *Keeper) newest(ctx context.Context, repo *workspace.Repo) (string, time.Time, error) {
	for v, err := range repo.Versions(ctx) {
		return v.ID, v.At, err
	}
	return "", time.Time{}, nil
}

func (k *Keeper) pull(ctx context.Context, repo *workspace.Repo, s sandbox.Sandbox, id driver.ID, known bool) (sandbox.SyncMark, error) {
	t, err := k.tree(ctx, s, id)
	if err != nil {
		return s.Synced, err
	}
	defer t.Close()
	var base *workspace.Index
	if known {
		if base, err = k.base(ctx, repo, s); err != nil {
			return s.Synced, err
		}
		own, err := repo.Own(ctx, base, writer(s))
		if err != nil {
			return s.Synced, Told("restore workspace", err)
		}
		base = cmp.Or(own, base)
	}
	// What is in an instance that nobody has used yet is its image's, and nobody's work.
	res, err := repo.Pull(ctx, t, base, workspace.PullOptions{Discard: s.Instance == ""})
	if err != nil {
		return s.Synced, Told("restore workspace", err)
	}
	k.keep(ctx, s, t, res)
	return sandbox.SyncMark{Version: res.Version, Incarnation: s.Incarnation}, nil
}

// Save saves the workspace as a new version, if anything has changed. That it could not is sync_failed,
// whatever the reason.
func (k *Keeper) Save(ctx context.Context, s sandbox.Sandbox) (sandbox.SyncMark, error) {
	mark, _, err := k.Sync(ctx, s, SyncOptions{background: s.Want == sandbox.WantRunning})
	if err == nil {
		return mark, nil
	}
	failed := sandbox.Errorf("save workspace", api.CodeSyncFailed, "%w", err)
	if cause, ok := errors.AsType[*sandbox.Error](err); ok {
		failed.Hint = cmp.Or(cause.Hint, cause.Code.Info().Hint)
	}
	return s.Synced, failed
}

// SyncOptions say how to sync.
type SyncOptions struct {
	Note string // kept with the version
	// AllowMassDelete lets what others saved delete more than half of the files here.
	AllowMassDelete bool

	background bool // it is not waited for, and is tried again
}

// Sync saves the workspace, and brings here what others have saved since. It is for the incarnation that
// restored the workspace or was born empty: a failed read must never become a destructive write. A
// workspace in which there never was anything gets no version.
func (k *Keeper) Sync(ctx context.Context, s sandbox.Sandbox, o SyncOptions) (sandbox.SyncMark, *workspace.Result, error) {
	if k.Plan(s).Off || !k.hasFiles(s) {
		return s.Synced, &workspace.Result{Version: s.Synced.Version}, nil
	}
	if s.Synced.Incarnation != s.Incarnation {
		return s.Synced, nil, neverRestored()
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	ctx, leave, err := k.uploads.enter(ctx, s.ID, as{urgent: true, leased: true, yields: o.background})
	if err != nil {
		return s.Synced, nil, err
	}
	defer leave()
	was := s.Synced
	mark, behind, err := k.drain(ctx, s)
	if err != nil {
		return was, nil, err
	}
	s.Synced = mark
	mark, res, err := k.sync(ctx, s, o)
	if err == nil && len(behind) > 0 {
		err = k.merged(ctx, s, behind, mark.Version)
	}
	return mark, res, err
}

// sync saves the workspace of a sandbox whose captures are in the store.
func (k *Keeper) sync(ctx context.Context, s sandbox.Sandbox, o SyncOptions) (sandbox.SyncMark, *workspace.Result, error) {
	t, err := k.tree(ctx, s, driver.ID(s.Instance))
	if err != nil {
		return s.Synced, nil, err
	}
	defer t.Close()
	base, err := k.base(ctx, k.Repo(s), s)
	if err != nil {
		return s.Synced, nil, err
	}
	return k.push(ctx, s, t, base, o)
}

// push saves a tree that was last the same as base.
func (k *Keeper) push(ctx context.Context, s sandbox.Sandbox, t workspace.Tree, base *workspace.Index, so SyncOptions) (sandbox.SyncMark, *workspace.Result, error) {
	repo, o := k.Repo(s), workspace.PushOptions{Note: so.Note, Writer: writer(s), AllowMassDelete: so.AllowMassDelete, Exists: k.exists(ctx, s)}
	var err error
	if o.Ignore, err = workspace.ReadIgnore(t); err != nil {
		return s.Synced, nil, err
	}
	if base == nil {
		nothing, err := k.nothing(ctx, repo, t, o)
		if err == nil && nothing != nil {
			k.ensureState(ctx, t, &workspace.Manifest{At: time.Now().UTC()})
		}
		if err != nil || nothing != nil {
			return s.Synced, nothing, err
		}
	}
	res, err := repo.Sync(ctx, t, base, o)
	if err != nil {
		return s.Synced, nil, err
	}
	k.keep(ctx, s, t, res)
	return sandbox.SyncMark{Version: res.Version, Incarnation: s.Incarnation}, res, nil
}

// writer names an incarnation's workspace: it is one tree, which only the holder of the sandbox's lease saves.
func writer(s sandbox.Sandbox) string { return s.ID + "." + strconv.FormatInt(s.Incarnation, 10) }

// nothing is the result of saving an empty tree of which there is no version; nil: there is something.
func (k *Keeper) nothing(ctx context.Context, repo *workspace.Repo, t workspace.Tree, o workspace.PushOptions) (*workspace.Result, error) {
	seen, err := workspace.Scan(ctx, t, workspace.ScanOptions{Ignore: o.Ignore})
	if err != nil || len(seen.Entries) > 0 {
		return nil, err
	}
	if err := o.Exists(); err != nil {
		return nil, err
	}
	if none, err := repo.Empty(ctx); err != nil || !none {
		return nil, err
	}
	nothing := &workspace.Result{Skipped: seen.Skipped}
	k.log().InfoContext(ctx, "workspace has nothing to save", "stats", nothing.Stats)
	return nothing, nil
}

// base is what the workspace was last the same as. The record is the authority; the index only makes it
// fast. A version that was pruned meanwhile is no base: both sides are then brought together without one,
// and nothing is deleted.
func (k *Keeper) base(ctx context.Context, repo *workspace.Repo, s sandbox.Sandbox) (*workspace.Index, error) {
	if s.Synced.Version == "" {
		return nil, nil
	}
	x, err := workspace.LoadIndex(k.index(s))
	if err != nil {
		k.log().WarnContext(ctx, "read the index of a workspace; everything is read again", "error", err)
	}
	if x != nil && x.ID == s.Synced.Version {
		return x, nil
	}
	if k.Captures() {
		if x := k.capturedBase(ctx, s); x != nil {
			return x, nil
		}
	}
	x, err = repo.BaseOf(ctx, s.Synced.Version)
	if sandbox.CodeOf(err) == api.CodeUnknownVersion {
		k.log().WarnContext(ctx, "the version that a workspace was last the same as is gone from the store", "version", s.Synced.Version)
		return nil, nil
	}
	return x, err
}

// capturedBase is the index of the record's version, if the spool has it; else nil.
func (k *Keeper) capturedBase(ctx context.Context, s sandbox.Sandbox) *workspace.Index {
	all, err := k.Spool.entries(ctx, s.ID)
	if err != nil {
		return nil
	}
	for _, e := range all {
		if e.Capture.New && e.Capture.Line.ID == s.Synced.Version {
			x, _ := k.Spool.index(ctx, s.ID, e)
			return x
		}
	}
	return nil
}

// keep writes down what the workspace is now the same as: the index for us, the state file for people.
// Neither is needed, so that neither fails what was done.
func (k *Keeper) keep(ctx context.Context, s sandbox.Sandbox, t workspace.Tree, res *workspace.Result) {
	if err := res.Index.Save(k.index(s)); err != nil {
		k.log().WarnContext(ctx, "write the index of a workspace; the next save reads everything again", "error", err)
	}
	k.describe(ctx, t, res)
}

// describe writes the state file, and logs what could not be saved as it is.
func (k *Keeper) describe(ctx context.Context, t workspace.Tree, res *workspace.Result) {
	if res.State != nil {
		k.writeState(ctx, t, res.State)
	} else {
		k.ensureState(ctx, t, &res.Index.Manifest)
	}
	for _, skipped := range res.Skipped[:min(len(res.Skipped), mostLogged)] {
		k.log().WarnContext(ctx, "a file cannot be saved", "path", skipped.Path, "why", skipped.Why)
	}
	for _, c := range res.Conflicts[:min(len(res.Conflicts), mostLogged)] {
		k.log().WarnContext(ctx, "a file was changed on both sides and is kept twice", "path", c.Path, "copy", c.Copy)
	}
}

// Told is an error of a store or a tree in Berth's words.
func Told(op string, err error) error {
	if err == nil || errors.As(err, new(*sandbox.Error)) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return sandbox.Errorf(op, api.CodeSyncFailed, "%w", err)
}

// mostLogged is how many files of one sync are logged by name: a sandbox must not fill the log.
const mostLogged = 20

func (k *Keeper) index(s sandbox.Sandbox) string { return filepath.Join(k.Dir, s.ID+".index") }

// fresh reports whether the workspace was in step with the store a short time ago.
func (k *Keeper) fresh(s sandbox.Sandbox) bool {
	info, err := os.Stat(k.index(s))
	return err == nil && time.Since(info.ModTime()) < k.Stale
}

// touch makes the index say that the workspace is in step with the store now.
func (k *Keeper) touch(s sandbox.Sandbox) {
	now := time.Now()
	_ = os.Chtimes(k.index(s), now, now) // one that is not there makes the next start look again
}

// Forget removes what is kept beside the record of a sandbox that ended.
func (k *Keeper) Forget(s sandbox.Sandbox) error {
	if err := os.Remove(k.index(s)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (k *Keeper) at(point, turn string) {
	if k.At != nil {
		k.At(point, turn)
	}
}

func (k *Keeper) log() *slog.Logger { return cmp.Or(k.Log, slog.New(slog.DiscardHandler)) }

// tree is the workspace of an instance.
type tree struct {
	workspace.Tree
	files.FS
}

// hasFiles reports whether the sandbox's driver has files at all. Where there are none, there is nothing
// to save. Of a driver that is not here that is not known.
func (k *Keeper) hasFiles(s sandbox.Sandbox) bool {
	d := k.Drivers[s.Spec.Driver]
	_, ok := driver.As[driver.Filer](d)
	return ok || d == nil
}

// exists returns a check that the sandbox's instance is still there. A driver removes the files of an instance
// after the instance itself, so that what was read before a successful check is whole.
func (k *Keeper) exists(ctx context.Context, s sandbox.Sandbox) func() error {
	return func() error {
		_, err := k.Drivers[s.Spec.Driver].Inspect(ctx, driver.ID(s.Instance))
		if errors.Is(err, driver.ErrNotFound) {
			return sandbox.Errorf("read workspace", api.CodeNotRunning, "the instance of sandbox %s was lost while its files were read", s.ID)
		}
		return err
	}
}

func (k *Keeper) tree(ctx context.Context, s sandbox.Sandbox, id driver.ID) (*tree, error) {
	d, ok := driver.As[driver.Filer](k.Drivers[s.Spec.Driver])
	if !ok {
		return nil, sandbox.Errorf("reach workspace", api.CodeUnknownDriver, "sandbox %s is at the driver %q, which is not configured here", s.ID, s.Spec.Driver)
	}
	fs, err := d.Files(ctx, id, files.WorkingDir)
	if err != nil {
		return nil, err
	}
	t, ok := fs.(workspace.Tree)
	if !ok {
		_ = fs.Close()
		return nil, sandbox.Errorf("reach workspace", api.CodeUnsupported, "the driver %s gives no access to files as a tree", s.Spec.Driver)
	}
	return &tree{t, fs}, nil
}
