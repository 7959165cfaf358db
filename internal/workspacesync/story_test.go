package workspacesync_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
	"github.com/berthdev/berth/internal/workspacesync"
)

// watched is a store that remembers what it was asked, and can be made to fail.
type watched struct {
	blob.Store
	mu    sync.Mutex
	asked []string
	fail  error
}

func (w *world) watch() *watched {
	x := &watched{Store: w.Opts().Store}
	w.Opts().Store = x
	return x
}

func (x *watched) ask(what string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.asked = append(x.asked, what)
	return x.fail
}

func (x *watched) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	if err := x.ask("get " + key); err != nil {
		return nil, err
	}
	return x.Store.Get(ctx, key, o)
}

func (x *watched) Put(ctx context.Context, key string, r io.Reader, size int64, o blob.PutOptions) (blob.Tag, error) {
	if err := x.ask("put " + key); err != nil {
		return "", err
	}
	return x.Store.Put(ctx, key, r, size, o)
}

func (x *watched) Delete(ctx context.Context, keys ...string) error {
	if err := x.ask("delete"); err != nil {
		return err
	}
	return x.Store.Delete(ctx, keys...)
}

func (x *watched) List(ctx context.Context, prefix string, o blob.ListOptions) iter.Seq2[blob.Entry, error] {
	if err := x.ask("list " + prefix); err != nil {
		return func(yield func(blob.Entry, error) bool) { yield(blob.Entry{}, err) }
	}
	return x.Store.List(ctx, prefix, o)
}

// The start of a new sandbox does not ask the store, and one in which there never was anything gets no version.
func TestNewSandboxNeedsNoStore(t *testing.T) {
	w := newWorld(t)
	x := w.watch()
	sb := w.restore(w.born(sandbox.Sandbox{}))
	if len(x.asked) > 0 || sb.Synced.Incarnation != 1 {
		t.Errorf("%q, %+v", x.asked, sb.Synced)
	}
	if sb = w.save(sb); sb.Synced.Version != "" || sb.Synced.Incarnation != 1 {
		t.Errorf("an empty workspace was saved: %+v", sb.Synced)
	}
	w.write(sb, "f", "one")
	if sb = w.save(sb); sb.Synced.Version == "" {
		t.Error("not saved")
	}
	if err := os.Remove(w.path(sb, "f")); err != nil {
		t.Fatal(err)
	}
	before := sb.Synced.Version
	if sb = w.save(sb); sb.Synced.Version == before { // one that has become empty is saved as that
		t.Error("not saved")
	}
}

// On a start from stopped the store is not asked as long as the workspace was in step with it a short time
// ago, and nothing is pulled when nothing moved there.
func TestFreshWorkspaceIsNotPulled(t *testing.T) {
	testkit.Proves(t, "S6")
	w := newWorld(t)
	w.Opts().Stale = time.Hour
	sb := w.restore(w.born(sandbox.Sandbox{}))
	w.write(sb, "f", "one")
	sb = w.save(sb)
	x := w.watch()
	if sb = w.restore(sb); len(x.asked) != 0 {
		t.Errorf("fresh: %q", x.asked)
	}
	index := w.Opts().Dir + "/s.index"
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(index, old, old); err != nil {
		t.Fatal(err)
	}
	if sb = w.restore(sb); fmt.Sprint(x.asked) != "[get docs/a/s/HEAD]" {
		t.Errorf("stale: %q", x.asked)
	}
	if sb = w.restore(sb); len(x.asked) != 1 {
		t.Errorf("looked at just now: %q", x.asked)
	}
	if err := os.Remove(index); err != nil {
		t.Fatal(err)
	}
	if w.restore(sb); len(x.asked) != 2 {
		t.Errorf("without an index: %q", x.asked)
	}
}

// What the image of a new instance has in its workspace does not come back once it was changed or removed.
func TestImageIsNobodysWork(t *testing.T) {
	w := newWorld(t)
	sb := w.born(sandbox.Sandbox{})
	w.write(sb, "readme", "of the image")
	w.write(sb, "gone", "of the image")
	sb = w.restore(sb)
	w.write(sb, "readme", "changed")
	if err := os.Remove(w.path(sb, "gone")); err != nil {
		t.Fatal(err)
	}
	sb = w.save(sb)
	next := w.born(sb)
	w.write(next, "readme", "of the image")
	w.write(next, "gone", "of the image")
	id := driver.ID(next.Instance)
	next.Instance = "" // as the record has it while an instance is made
	mark, err := w.Restore(t.Context(), next, id)
	if err != nil || mark.Version != sb.Synced.Version {
		t.Fatalf("%+v, %v", mark, err)
	}
	next.Instance = sandbox.InstanceID(id)
	w.says(next, "readme", "changed")
	if _, err := os.Stat(w.path(next, "gone")); err == nil {
		t.Error("what was removed is back")
	}
	if got, _ := os.ReadDir(w.path(next, "")); len(got) != 2 { // and the state file
		t.Errorf("%v", got)
	}
}

func TestDriverWithoutFilesHasNothingToSave(t *testing.T) {
	w := newWorld(t)
	d, err := fake.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w.Opts().Drivers["fake"] = d
	x := w.watch()
	sb := sandbox.Sandbox{ID: "s", Incarnation: 1, Spec: sandbox.Spec{Driver: "fake"}}
	sb = w.restore(sb)
	if sb.Synced.Incarnation != 1 || sb.Synced.Version != "" {
		t.Errorf("%+v", sb.Synced)
	}
	if sb = w.save(sb); sb.Synced.Version != "" || len(x.asked) != 0 {
		t.Errorf("%+v, %q", sb.Synced, x.asked)
	}
	if _, _, err := w.RestoreVersion(t.Context(), sb, sb, "v"); fault.CodeOf(err) != api.CodeUnsupported {
		t.Errorf("%v", err)
	}
}

// A store that fails is said, as sync_failed when a workspace is saved, and nothing is taken for saved.
func TestStoreThatFails(t *testing.T) {
	testkit.Proves(t, "O1", "S13")
	w := newWorld(t)
	sb := w.restore(w.born(sandbox.Sandbox{}))
	w.write(sb, "f", "one")
	x := w.watch()
	for _, fail := range []error{errors.New("it burns"), fault.Errorf("put", api.CodeBlobDenied, "no")} {
		x.fail = fail
		mark, err := w.Save(t.Context(), sb)
		if fault.CodeOf(err) != api.CodeSyncFailed || !strings.Contains(err.Error(), fail.Error()) || mark != sb.Synced {
			t.Errorf("%+v, %v", mark, err)
		}
		next := w.born(sandbox.Sandbox{Incarnation: sb.Incarnation + int64(len(x.asked))})
		if _, err := w.Restore(t.Context(), next, driver.ID(next.Instance)); err == nil {
			t.Error("restored")
		}
		if err := w.End(t.Context(), sandbox.Sandbox{ID: "s", DeletedAt: time.Now(), Purge: sandbox.PurgeYes}); err == nil {
			t.Error("its versions are still there")
		}
		if err := w.Purge(t.Context(), sandbox.Sandbox{ID: "s", DeletedAt: time.Now()}); err == nil {
			t.Error("purged")
		}
		if _, _, err := w.RestoreVersion(t.Context(), sb, sb, "v"); err == nil {
			t.Error("brought")
		}
	}
	x.fail = nil
	if sb = w.save(sb); sb.Synced.Version == "" {
		t.Error("not saved")
	}
}

// A version that others pruned is no base: what is here and there is brought together, and nothing is lost.
func TestPrunedBase(t *testing.T) {
	testkit.Proves(t, "S17")
	w := newWorld(t)
	sb := w.restore(w.born(sandbox.Sandbox{}))
	w.write(sb, "f", "one")
	sb = w.save(sb)
	other := w.restore(w.born(sb))
	w.write(other, "g", "two")
	other = w.save(other)
	if _, err := w.Repo(sb).Prune(t.Context(), workspace.PruneOptions{Policy: workspace.Policy{Last: 1}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Forget(sb); err != nil {
		t.Fatal(err)
	}
	w.write(sb, "h", "three")
	w.save(sb)
	sb = w.restore(w.born(other))
	w.says(sb, "f", "one")
	w.says(sb, "g", "two")
	w.says(sb, "h", "three")
}

// Bringing a version back saves what was there, and is itself a version.
func TestBringAndDiff(t *testing.T) {
	w := newWorld(t)
	sb := w.restore(w.born(sandbox.Sandbox{}))
	w.write(sb, "f", "one")
	sb = w.save(sb)
	first := sb.Synced.Version
	w.write(sb, "f", "second")
	w.write(sb, "unsaved", "work")
	mark, res, err := w.RestoreVersion(t.Context(), sb, sb, first)
	if err != nil || !res.New || mark.Version != res.Version || res.Stats.FilesDownloaded != 1 || res.Stats.FilesDeleted != 1 {
		t.Fatalf("%+v, %+v, %v", mark, res, err)
	}
	sb.Synced = mark
	w.says(sb, "f", "one")
	if again := w.save(sb); again.Synced != mark {
		t.Errorf("saved again: %+v", again.Synced)
	}
	var ids []string
	for v, err := range w.Repo(sb).Versions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, v.ID)
	}
	if len(ids) != 3 || ids[0] != mark.Version || ids[2] != first {
		t.Fatalf("%q", ids)
	}
	from, to, diff, err := workspacesync.Diff(t.Context(), w.Repo(sb), "", ids[1])
	if err != nil || to.ID != ids[1] || from.ID != first || diff.Added != 1 || diff.Modified != 1 || diff.Bytes != 10 {
		t.Errorf("%+v, %v", diff, err)
	}
	if _, _, diff, err = workspacesync.Diff(t.Context(), w.Repo(sb), ids[1], ids[0]); err != nil || diff.Deleted != 1 || diff.Modified != 1 {
		t.Errorf("%+v, %v", diff, err)
	}
	if from, _, diff, err = workspacesync.Diff(t.Context(), w.Repo(sb), "", first); err != nil || from.ID != "" || diff.Added != 1 {
		t.Errorf("%+v, %v", diff, err)
	}
	for _, pair := range [][2]string{{"", "none"}, {"none", first}} {
		if _, _, _, err := workspacesync.Diff(t.Context(), w.Repo(sb), pair[0], pair[1]); fault.CodeOf(err) != api.CodeUnknownVersion {
			t.Errorf("%q: %v", pair, err)
		}
	}
	if _, _, err := w.RestoreVersion(t.Context(), sb, sb, "none"); fault.CodeOf(err) != api.CodeUnknownVersion {
		t.Errorf("%v", err)
	}
	w.says(sb, "f", "one")

	// Into another workspace, of another history.
	source := sb
	w.plan.Prefix = "docs/a/other/"
	into := w.restore(w.born(sandbox.Sandbox{Incarnation: 6}))
	w.Opts().Plan = func(sb sandbox.Sandbox) workspacesync.Plan {
		if sb.Instance == source.Instance {
			return workspacesync.Plan{Prefix: "docs/a/s/"}
		}
		return w.plan
	}
	if err := os.Mkdir(w.path(into, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if mark, _, err = w.RestoreVersion(t.Context(), into, source, ids[1]); err != nil {
		t.Fatal(err)
	}
	w.says(into, "unsaved", "work")
	if v, _, err := w.Repo(into).Version(t.Context(), ""); err != nil || v.ID != mark.Version || v.Files != 2 {
		t.Errorf("%+v, %v", v, err)
	}
}

// marks records which versions go with their sandbox.
type marks struct {
	workspacesync.Records
	of map[string]sandbox.Purge
}

func (m marks) SetPurge(_ context.Context, id string, to sandbox.Purge) error {
	m.of[id] = to
	return nil
}

// The versions of a deleted sandbox stay, unless they were to go with it; those of others stay.
func TestPurge(t *testing.T) {
	testkit.Proves(t, "O1")
	w := newWorld(t)
	record := marks{of: map[string]sandbox.Purge{}}
	w.Opts().Records = record
	sb := w.restore(w.born(sandbox.Sandbox{}))
	w.write(sb, "f", "one")
	sb = w.save(sb)
	w.plan.Prefix = "docs/a/s2/"
	other := w.restore(w.born(sandbox.Sandbox{Incarnation: 3}))
	w.write(other, "f", "two")
	other = w.save(other)
	w.plan.Prefix = "docs/a/s/"

	if err := w.End(t.Context(), sb); err != nil { // terminated
		t.Error(err)
	}
	if err := w.Purge(t.Context(), sb); fault.CodeOf(err) != api.CodeConflict {
		t.Errorf("one that is not deleted: %v", err)
	}
	sb.DeletedAt = time.Now()
	if err := w.End(t.Context(), sb); err != nil {
		t.Error(err)
	}
	if _, _, err := w.Repo(sb).Version(t.Context(), ""); err != nil {
		t.Errorf("its versions are gone: %v", err)
	}
	w.plan.Shared = true
	if err := w.MarkPurge(t.Context(), sb); fault.CodeOf(err) != api.CodeConflict {
		t.Errorf("of a workspace that others have, too: %v", err)
	}
	w.plan.Shared = false
	for range 2 {
		if err := w.MarkPurge(t.Context(), sb); err != nil || record.of[sb.ID] != sandbox.PurgeYes {
			t.Fatal(record.of, err)
		}
		sb.Purge = sandbox.PurgeYes
		if err := w.End(t.Context(), sb); err != nil || record.of[sb.ID] != sandbox.PurgeNo {
			t.Fatal(record.of, err)
		}
	}
	for e, err := range w.Opts().Store.List(t.Context(), "docs/a/s/", blob.ListOptions{}) {
		t.Errorf("left: %+v, %v", e, err)
	}
	w.plan.Prefix = "docs/a/s2/"
	if v, err := w.Repo(other).Verify(t.Context()); err != nil || v.Versions != 1 || len(v.Problems) != 0 {
		t.Errorf("another's: %+v, %v", v, err)
	}
}

func TestWordsOfErrors(t *testing.T) {
	if workspacesync.WrapError("x", nil) != nil || workspacesync.WrapError("x", context.Canceled) != context.Canceled {
		t.Error("changed what needs no words")
	}
	known := fault.Errorf("put", api.CodeBlobDenied, "no")
	if workspacesync.WrapError("x", known) != error(known) || fault.CodeOf(workspacesync.WrapError("x", io.ErrUnexpectedEOF)) != api.CodeSyncFailed {
		t.Error("not in the table's words")
	}
	var none *workspacesync.Syncer
	w := newWorld(t)
	if none.Saves(sandbox.Sandbox{}) || !w.Saves(sandbox.Sandbox{}) {
		t.Error("who saves?")
	}
	w.plan.Off = true
	if w.Saves(sandbox.Sandbox{}) {
		t.Error("a template that says no")
	}
}

// What cannot be written beside a workspace is logged, a few of them by name, and fails nothing.
func TestSmallTroubles(t *testing.T) {
	w := newWorld(t)
	var log strings.Builder
	w.Opts().Log = slog.New(slog.NewTextHandler(&log, nil))
	sb := w.restore(w.born(sandbox.Sandbox{}))
	w.write(sb, "f", "one")
	for i := range 30 {
		if err := syscall.Mkfifo(w.path(sb, fmt.Sprint("pipe", i)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.Opts().Dir = w.path(sb, "f") // no folder for an index
	sb = w.save(sb)
	if n := strings.Count(log.String(), "cannot be saved"); n != 20 || !strings.Contains(log.String(), "write the index") {
		t.Errorf("%d, %s", n, log.String())
	}
	sb = w.save(sb)
	if !strings.Contains(log.String(), "read the index") {
		t.Errorf("%s", log.String())
	}
	if err := w.Forget(sb); err == nil {
		t.Error("forgot")
	}
	w.Opts().Dir = t.TempDir()
	w.says(w.restore(w.born(sb)), "f", "one")
}
