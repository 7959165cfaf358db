// Package workspacesync saves and restores the workspaces of sandboxes. It implements the engine's Restorer.
//
// The row of a sandbox records the version that the workspace last equalled and the incarnation that restored or
// pushed it ([sandbox.SyncMark]). Only that incarnation, or one that started empty, may push. An index of times and
// inodes in the data directory makes saves fast. Without the index everything is read again, with the same result.
//
// The engine calls [Syncer.Restore] and [Syncer.Save]. [Syncer.Sync] and [Syncer.RestoreVersion] serve requests;
// their callers hold the sandbox's lease. [Syncer.Repo] gives access to the versions. [Syncer.Run] removes the
// versions of deleted sandboxes after their retention.
package workspacesync

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
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/workspace"
)

// Timeout limits the duration of one save or restore.
const Timeout = 30 * time.Minute

// Plan is the configuration of one sandbox's workspace, from its template.
type Plan struct {
	Prefix string // prefix of the versions; ends with a slash
	Shared bool   // other sandboxes use the same prefix
	Off    bool   // the workspace is not saved
	Empty  bool   // the first incarnation starts empty, even if versions exist
	NoPull bool   // no version is restored: each incarnation starts empty and continues the history
	// KeepLast and KeepDaily select the versions to keep: the newest KeepLast versions, and the newest version of
	// each of the last KeepDaily days. If both are zero, all are kept.
	KeepLast, KeepDaily int
	Layout              string // layout of new versions: "packed" (the default) or "plain"

	Bytes  int64 // maximum size of all files; zero means the default of package workspace
	Stored int64 // maximum new data of one version; zero means the default of package workspace
}

// Options configure a Syncer.
type Options struct {
	Store         blob.Store
	Unconditional bool // the store has no conditional writes; the sandbox's lease replaces them
	Dir           string
	Plan          func(sandbox.Sandbox) Plan
	Drivers       map[string]driver.Driver
	// Stale limits the age of the last sync. If it is older, the start of a stopped workspace checks the store for
	// newer versions. Zero means that every start checks.
	Stale time.Duration
	Log   *slog.Logger
	// Observe records each push and pull. It may be nil.
	Observe func(op string, took time.Duration, bytes int64, err error)

	// Retention is the time for which the versions of a deleted sandbox are kept. Zero means forever.
	Retention time.Duration
	Records   Records
	// IfFree takes the lease of a sandbox and calls do, unless another holder has the lease. It reports whether it
	// called do.
	IfFree  func(ctx context.Context, id string, do func(context.Context, sandbox.Sandbox) error) (done bool, err error)
	Grace   time.Duration // time for which unreferenced packs are kept; zero means workspace.DefaultGrace
	Metrics *telemetry.Metrics
	// Known reports whether Plan knows the prefix of a sandbox's versions. Nil means that it always does.
	Known func(sandbox.Sandbox) bool

	// Spool keeps captures until they are in the store. If it is nil, the end of a turn waits for its save.
	Spool *Spool
	// At is called at named points of a save, for tests that stop a server there. It may be nil.
	At func(point, turn string)
}

// Syncer saves and restores workspaces in one store.
type Syncer struct {
	o Options

	captures  captures
	overdue   overdue
	manifests manifests
	uploads   uploads
}

// New returns a Syncer with the given options.
func New(o Options) *Syncer {
	s := &Syncer{o: o}
	s.captures = captures{s}
	return s
}

// Store returns the object store that holds the versions.
func (s *Syncer) Store() blob.Store { return s.o.Store }

// Prefix returns the prefix of a sandbox's versions in the store.
func (s *Syncer) Prefix(sb sandbox.Sandbox) string { return s.o.Plan(sb).Prefix }

// Repo returns the repo of a sandbox's versions.
func (s *Syncer) Repo(sb sandbox.Sandbox) *workspace.Repo {
	plan := s.o.Plan(sb)
	return &workspace.Repo{Store: s.o.Store, Prefix: plan.Prefix, Unconditional: s.LacksConditionalWrites(),
		Limits: workspace.Limits{Bytes: plan.Bytes, Stored: plan.Stored}, Layout: layoutOf(plan), Log: s.o.Log, Observe: s.o.Observe}
}

func layoutOf(plan Plan) workspace.Layout {
	if plan.Layout == string(workspace.Plain) {
		return workspace.Plain
	}
	return workspace.Packed
}

// LacksConditionalWrites reports whether writes cannot be conditional: the store does not support them, or its gate
// has not tested it yet.
func (s *Syncer) LacksConditionalWrites() bool {
	if g, ok := s.o.Store.(*Gate); ok {
		return !g.Conditional()
	}
	return s.o.Unconditional
}

// Saves reports whether the sandbox's workspace is saved at all. A nil Syncer saves none.
func (s *Syncer) Saves(sb sandbox.Sandbox) bool { return s != nil && !s.o.Plan(sb).Off }

// Restore writes the newest version into the workspace of a new or stopped instance. It keeps files that were
// changed in the instance.
func (s *Syncer) Restore(ctx context.Context, sb sandbox.Sandbox, id driver.ID) (sandbox.SyncMark, error) {
	plan, known := s.o.Plan(sb), sb.Synced.Incarnation == sb.Incarnation
	mine := func(version string) sandbox.SyncMark {
		return sandbox.SyncMark{Version: version, Incarnation: sb.Incarnation}
	}
	switch {
	case plan.Off, known && (s.syncedRecently(sb) || plan.NoPull):
		return sb.Synced, nil
	case !known && plan.Empty && sb.Synced.Version == "", !s.hasFiles(sb), neverSaved(sb, plan):
		return mine(sb.Synced.Version), nil
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	repo := s.Repo(sb)
	newest, savedAt, err := s.newestForStart(ctx, repo)
	if err == nil && !known && s.CanCapture() { // the store answers: commit captures of earlier instances first
		if err = s.drainFor(ctx, sb); err == nil {
			newest, savedAt, err = s.newestForStart(ctx, repo)
		}
	}
	switch {
	case Unavailable(err) && known:
		s.log().WarnContext(ctx, "the object store does not answer; the sandbox starts with its files as they are here", "error", err)
		return sb.Synced, nil
	case Unavailable(err):
		return sb.Synced, unavailable(sb, err)
	case err != nil:
		return sb.Synced, err
	case newest == "" && sb.Synced.Version != "" && !known:
		return sb.Synced, fault.Errorf("restore workspace", api.CodeBadManifest, "version %s was saved, and the store has no version at all", sb.Synced.Version)
	case newest == "":
		return mine(""), nil
	case plan.NoPull:
		return mine(newest), nil
	case known && newest == sb.Synced.Version:
		s.touchIndex(sb)
		return sb.Synced, nil
	}
	mark := sb.Synced
	err = whileAnswering(ctx, s.CheckReachable, func(ctx context.Context) (err error) {
		mark, err = s.pull(ctx, repo, sb, id, known)
		return err
	})
	if err == nil && mark.Version == newest {
		mark.SavedAt = savedAt
	}
	return mark, err
}

// drainFor commits the captures of earlier instances, so that the restored version contains them. Captures that do
// not follow the newest version stay in the spool.
func (s *Syncer) drainFor(ctx context.Context, sb sandbox.Sandbox) error {
	ctx, leave, err := s.uploads.begin(ctx, sb.ID, uploadMode{urgent: true, leased: true})
	if err != nil {
		return err
	}
	defer leave()
	var behind []*Entry
	err = whileAnswering(ctx, checkWrites(s), func(ctx context.Context) (err error) {
		_, behind, err = s.captures.drain(ctx, sb)
		return err
	})
	if len(behind) > 0 {
		s.log().WarnContext(ctx, "captures do not follow the newest version and are not restored", "captures", len(behind))
	}
	return WrapError("restore workspace", err)
}

// askFor limits the time to find the newest version.
const askFor = 4 * time.Second

// newestForStart calls newest with a time limit, so that a hanging store does not block a start.
func (s *Syncer) newestForStart(ctx context.Context, repo *workspace.Repo) (string, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	return s.newest(ctx, repo)
}

// neverSaved reports whether no version can exist: the sandbox never ran, and no other sandbox has its prefix.
func neverSaved(sb sandbox.Sandbox, plan Plan) bool {
	return sb.Synced.Version == "" && sb.StartedAt.IsZero() && !plan.Shared && strings.Contains(plan.Prefix, "/"+sb.ID+"/")
}

// unavailable returns the error of a start that needs the object store while the store does not answer.
func unavailable(sb sandbox.Sandbox, err error) error {
	e := fault.Errorf("restore workspace", api.CodeBlobUnreachable, "the files of sandbox %s are in the object store, which does not answer: %w", sb.ID, err)
	e.Hint = "Nothing is lost. Try again once the object store answers; /readyz says when."
	return e
}

// newest returns the id and the time of the newest version, or "" if there is none.
func (s *Syncer) newest(ctx context.Context, repo *workspace.Repo) (string, time.Time, error) {
	for v, err := range repo.Versions(ctx) {
		return v.ID, v.At, err
	}
	return "", time.Time{}, nil
}

func (s *Syncer) pull(ctx context.Context, repo *workspace.Repo, sb sandbox.Sandbox, id driver.ID, known bool) (sandbox.SyncMark, error) {
	t, err := s.tree(ctx, sb, id)
	if err != nil {
		return sb.Synced, err
	}
	defer t.Close()
	var base *workspace.Index
	if known {
		if base, err = s.base(ctx, repo, sb); err != nil {
			return sb.Synced, err
		}
		own, err := repo.OwnVersion(ctx, base, writer(sb))
		if err != nil {
			return sb.Synced, WrapError("restore workspace", err)
		}
		base = cmp.Or(own, base)
	}
	// The files of an unused instance come from its image and may be discarded.
	res, err := repo.Pull(ctx, t, base, workspace.PullOptions{Discard: sb.Instance == ""})
	if err != nil {
		return sb.Synced, WrapError("restore workspace", err)
	}
	s.saveIndex(ctx, sb, t, res)
	return sandbox.SyncMark{Version: res.Version, Incarnation: sb.Incarnation}, nil
}

// Save saves the workspace as a new version if anything changed. Every error has the code sync_failed. If the
// sandbox is being deleted and its workspace is no longer a directory, Save succeeds and the last version stays.
func (s *Syncer) Save(ctx context.Context, sb sandbox.Sandbox) (sandbox.SyncMark, error) {
	mark, _, err := s.Sync(ctx, sb, SyncOptions{background: sb.Want == sandbox.WantRunning})
	if err == nil {
		return mark, nil
	}
	if sb.Want == sandbox.WantGone && errors.Is(err, driver.ErrNoDirectory) {
		s.log().WarnContext(ctx, "the sandbox goes without a last save: its workspace is not a directory", "sandbox", sb.ID, "version", sb.Synced.Version)
		return sb.Synced, nil
	}
	failed := fault.Errorf("save workspace", api.CodeSyncFailed, "%w", err)
	if cause, ok := errors.AsType[*fault.Error](err); ok {
		failed.Hint = cmp.Or(cause.Hint, cause.Code.Info().Hint)
	}
	return sb.Synced, failed
}

// SyncOptions configure a sync.
type SyncOptions struct {
	Note string // text that is stored with the version
	// AllowMassDelete permits a merge to delete more than half of the files.
	AllowMassDelete bool

	background bool // no request waits for the sync, and it is retried
}

// Sync saves the workspace and merges versions that others saved since. It returns an error unless this incarnation
// restored the workspace or started empty, so that a failed restore cannot remove files from the versions. A
// workspace that was always empty gets no version.
func (s *Syncer) Sync(ctx context.Context, sb sandbox.Sandbox, o SyncOptions) (sandbox.SyncMark, *workspace.Result, error) {
	if s.o.Plan(sb).Off || !s.hasFiles(sb) {
		return sb.Synced, &workspace.Result{Version: sb.Synced.Version}, nil
	}
	if sb.Synced.Incarnation != sb.Incarnation {
		return sb.Synced, nil, neverRestored()
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if err := s.CheckReachable(ctx); err != nil { // a store that hangs must not hold the sandbox's lease for minutes
		return sb.Synced, nil, err
	}
	ctx, leave, err := s.uploads.begin(ctx, sb.ID, uploadMode{urgent: true, leased: true, background: o.background})
	if err != nil {
		return sb.Synced, nil, err
	}
	defer leave()
	mark, res := sb.Synced, (*workspace.Result)(nil)
	err = whileAnswering(ctx, checkWrites(s), func(ctx context.Context) (err error) {
		mark, res, err = s.syncAll(ctx, sb, o)
		return err
	})
	return mark, res, err
}

// syncAll commits the captures of the sandbox, and then saves its workspace.
func (s *Syncer) syncAll(ctx context.Context, sb sandbox.Sandbox, o SyncOptions) (sandbox.SyncMark, *workspace.Result, error) {
	was := sb.Synced
	mark, behind, err := s.captures.drain(ctx, sb)
	if err != nil {
		return was, nil, err
	}
	sb.Synced = mark
	mark, res, err := s.sync(ctx, sb, o)
	if err == nil && len(behind) > 0 {
		err = s.captures.recordMerged(ctx, sb, behind, mark.Version)
	}
	return mark, res, err
}

// sync saves the workspace. The captures are already committed.
func (s *Syncer) sync(ctx context.Context, sb sandbox.Sandbox, o SyncOptions) (sandbox.SyncMark, *workspace.Result, error) {
	t, err := s.tree(ctx, sb, driver.ID(sb.Instance))
	if err != nil {
		return sb.Synced, nil, err
	}
	defer t.Close()
	base, err := s.base(ctx, s.Repo(sb), sb)
	if err != nil {
		return sb.Synced, nil, err
	}
	return s.push(ctx, sb, t, base, o)
}

// push saves a tree whose last synced version is base.
func (s *Syncer) push(ctx context.Context, sb sandbox.Sandbox, t workspace.Tree, base *workspace.Index, so SyncOptions) (sandbox.SyncMark, *workspace.Result, error) {
	repo, o := s.Repo(sb), workspace.PushOptions{Note: so.Note, Writer: writer(sb), AllowMassDelete: so.AllowMassDelete, Exists: s.exists(ctx, sb)}
	var err error
	if o.Ignore, err = workspace.ReadIgnore(t); err != nil {
		return sb.Synced, nil, err
	}
	if base == nil {
		nothing, err := s.skipEmptySave(ctx, repo, t, o)
		if err == nil && nothing != nil {
			s.ensureState(ctx, t, &workspace.Manifest{At: time.Now().UTC()})
		}
		if err != nil || nothing != nil {
			return sb.Synced, nothing, err
		}
	}
	res, err := repo.Sync(ctx, t, base, o)
	if err != nil {
		return sb.Synced, nil, err
	}
	s.saveIndex(ctx, sb, t, res)
	return sandbox.SyncMark{Version: res.Version, Incarnation: sb.Incarnation}, res, nil
}

// writer returns the name of an incarnation's workspace for workspace.PushOptions. Only the holder of the sandbox's
// lease saves under this name.
func writer(sb sandbox.Sandbox) string { return sb.ID + "." + strconv.FormatInt(sb.Incarnation, 10) }

// skipEmptySave returns a result without a version if the tree is empty and the store has no version. It returns
// nil if the tree must be saved.
func (s *Syncer) skipEmptySave(ctx context.Context, repo *workspace.Repo, t workspace.Tree, o workspace.PushOptions) (*workspace.Result, error) {
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
	s.log().InfoContext(ctx, "workspace has nothing to save", "stats", nothing.Stats)
	return nothing, nil
}

// base returns the index of the last synced version. The sandbox's row names the version; the stored index only
// makes the read fast. If that version was pruned, base returns nil: the tree and the store are then merged without
// a base, and nothing is deleted.
func (s *Syncer) base(ctx context.Context, repo *workspace.Repo, sb sandbox.Sandbox) (*workspace.Index, error) {
	if sb.Synced.Version == "" {
		return nil, nil
	}
	x, err := workspace.LoadIndex(s.indexPath(sb))
	if err != nil {
		s.log().WarnContext(ctx, "read the index of a workspace; everything is read again", "error", err)
	}
	if x != nil && x.ID == sb.Synced.Version {
		return x, nil
	}
	if s.CanCapture() {
		if x := s.capturedBase(ctx, sb); x != nil {
			return x, nil
		}
	}
	x, err = repo.BaseOf(ctx, sb.Synced.Version)
	if fault.CodeOf(err) == api.CodeUnknownVersion {
		s.log().WarnContext(ctx, "the version that a workspace was last the same as is gone from the store", "version", sb.Synced.Version)
		return nil, nil
	}
	return x, err
}

// capturedBase returns the index of the version in the sandbox's row from the spool, or nil.
func (s *Syncer) capturedBase(ctx context.Context, sb sandbox.Sandbox) *workspace.Index {
	all, err := s.o.Spool.entries(ctx, sb.ID)
	if err != nil {
		return nil
	}
	for _, e := range all {
		if e.Capture.New && e.Capture.Line.ID == sb.Synced.Version {
			x, _ := s.o.Spool.index(ctx, sb.ID, e)
			return x
		}
	}
	return nil
}

// saveIndex stores the index and the state file. A failure is only logged, because both can be made again.
func (s *Syncer) saveIndex(ctx context.Context, sb sandbox.Sandbox, t workspace.Tree, res *workspace.Result) {
	if err := res.Index.Save(s.indexPath(sb)); err != nil {
		s.log().WarnContext(ctx, "write the index of a workspace; the next save reads everything again", "error", err)
	}
	s.describe(ctx, t, res)
}

// describe writes the state file, and logs skipped files and conflicts.
func (s *Syncer) describe(ctx context.Context, t workspace.Tree, res *workspace.Result) {
	if res.State != nil {
		s.writeState(ctx, t, res.State)
	} else {
		s.ensureState(ctx, t, &res.Index.Manifest)
	}
	for _, skipped := range res.Skipped[:min(len(res.Skipped), mostLogged)] {
		s.log().WarnContext(ctx, "a file cannot be saved", "path", skipped.Path, "why", skipped.Why)
	}
	for _, c := range res.Conflicts[:min(len(res.Conflicts), mostLogged)] {
		s.log().WarnContext(ctx, "a file was changed on both sides and is kept twice", "path", c.Path, "copy", c.Copy)
	}
}

// WrapError converts an error of a store or a tree to a fault.Error.
func WrapError(op string, err error) error {
	if err == nil || errors.As(err, new(*fault.Error)) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fault.Errorf(op, api.CodeSyncFailed, "%w", err)
}

// mostLogged limits the number of files that are logged for one sync, so that a sandbox cannot fill the log.
const mostLogged = 20

func (s *Syncer) indexPath(sb sandbox.Sandbox) string { return filepath.Join(s.o.Dir, sb.ID+".index") }

// syncedRecently reports whether the workspace was synced less than Stale ago.
func (s *Syncer) syncedRecently(sb sandbox.Sandbox) bool {
	info, err := os.Stat(s.indexPath(sb))
	return err == nil && time.Since(info.ModTime()) < s.o.Stale
}

// touchIndex records in the time of the index file that the workspace is synced now.
func (s *Syncer) touchIndex(sb sandbox.Sandbox) {
	now := time.Now()
	_ = os.Chtimes(s.indexPath(sb), now, now) // without the file, the next start checks the store again
}

// Forget removes the local data of a terminated sandbox.
func (s *Syncer) Forget(sb sandbox.Sandbox) error {
	if err := os.Remove(s.indexPath(sb)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (s *Syncer) at(point, turn string) {
	if s.o.At != nil {
		s.o.At(point, turn)
	}
}

func (s *Syncer) log() *slog.Logger { return cmp.Or(s.o.Log, slog.New(slog.DiscardHandler)) }

// tree is the workspace of an instance, as a Tree and as the FS that must be closed.
type tree struct {
	workspace.Tree
	files.FS
}

// hasFiles reports whether the sandbox's driver gives access to files. It returns true for an unknown driver.
func (s *Syncer) hasFiles(sb sandbox.Sandbox) bool {
	d := s.o.Drivers[sb.Spec.Driver]
	_, ok := driver.As[driver.Filer](d)
	return ok || d == nil
}

// exists returns a check that the sandbox's instance still exists. A driver removes an instance before its files,
// so files that were read before a successful check are complete.
func (s *Syncer) exists(ctx context.Context, sb sandbox.Sandbox) func() error {
	return func() error {
		_, err := s.o.Drivers[sb.Spec.Driver].Inspect(ctx, driver.ID(sb.Instance))
		if errors.Is(err, driver.ErrNotFound) {
			return fault.Errorf("read workspace", api.CodeNotRunning, "the instance of sandbox %s was lost while its files were read", sb.ID)
		}
		return err
	}
}

func (s *Syncer) tree(ctx context.Context, sb sandbox.Sandbox, id driver.ID) (*tree, error) {
	d, ok := driver.As[driver.Filer](s.o.Drivers[sb.Spec.Driver])
	if !ok {
		return nil, fault.Errorf("reach workspace", api.CodeUnknownDriver, "sandbox %s is at the driver %q, which is not configured here", sb.ID, sb.Spec.Driver)
	}
	fs, err := d.Files(ctx, id, files.WorkingDir)
	if err != nil {
		return nil, err
	}
	t, ok := fs.(workspace.Tree)
	if !ok {
		_ = fs.Close()
		return nil, fault.Errorf("reach workspace", api.CodeUnsupported, "the driver %s gives no access to files as a tree", sb.Spec.Driver)
	}
	return &tree{t, fs}, nil
}

// writeState writes the state file of a workspace. The file is informational, so a failure is only logged.
func (s *Syncer) writeState(ctx context.Context, t workspace.Tree, text []byte) {
	if err := workspace.WriteState(t, text); err != nil {
		s.log().WarnContext(ctx, "write the state file of a workspace", "error", err)
		return
	}
	s.log().InfoContext(ctx, "state file written", "path", guest.Workspace+"/"+workspace.StateFile, "size", len(text))
}

// ensureState writes the state file if it is missing. An empty workspace gets one that lists no files, and a state
// file that was deleted is written again.
func (s *Syncer) ensureState(ctx context.Context, t workspace.Tree, m *workspace.Manifest) {
	if there, err := workspace.HasState(t); err == nil && !there {
		s.writeState(ctx, t, m.Encode())
	}
}
