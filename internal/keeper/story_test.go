package keeper_test

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
	"github.com/berthdev/berth/internal/keeper"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// watched is a store that remembers what it was asked, and can be made to fail.
type watched struct {
	blob.Store
	mu    sync.Mutex
	asked []string
	fail  error
}

func (w *world) watch() *watched {
	x := &watched{Store: w.Store}
	w.Store = x
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
	s := w.restore(w.born(sandbox.Sandbox{}))
	if len(x.asked) > 0 || s.Synced.Incarnation != 1 {
		t.Errorf("%q, %+v", x.asked, s.Synced)
	}
	if s = w.save(s); s.Synced.Version != "" || s.Synced.Incarnation != 1 {
		t.Errorf("an empty workspace was saved: %+v", s.Synced)
	}
	w.write(s, "f", "one")
	if s = w.save(s); s.Synced.Version == "" {
		t.Error("not saved")
	}
	if err := os.Remove(w.path(s, "f")); err != nil {
		t.Fatal(err)
	}
	before := s.Synced.Version
	if s = w.save(s); s.Synced.Version == before { // one that has become empty is saved as that
		t.Error("not saved")
	}
}

// On a start from stopped the store is not asked as long as the workspace was in step with it a short time
// ago, and nothing is pulled when nothing moved there.
func TestFreshWorkspaceIsNotPulled(t *testing.T) {
	testkit.Proves(t, "S6")
	w := newWorld(t)
	w.Stale = time.Hour
	s := w.restore(w.born(sandbox.Sandbox{}))
	w.write(s, "f", "one")
	s = w.save(s)
	x := w.watch()
	if s = w.restore(s); len(x.asked) != 0 {
		t.Errorf("fresh: %q", x.asked)
	}
	index := w.Dir + "/s.index"
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(index, old, old); err != nil {
		t.Fatal(err)
	}
	if s = w.restore(s); fmt.Sprint(x.asked) != "[get docs/a/s/HEAD]" {
		t.Errorf("stale: %q", x.asked)
	}
	if s = w.restore(s); len(x.asked) != 1 {
		t.Errorf("looked at just now: %q", x.asked)
	}
	if err := os.Remove(index); err != nil {
		t.Fatal(err)
	}
	if w.restore(s); len(x.asked) != 2 {
		t.Errorf("without an index: %q", x.asked)
	}
}

// What the image of a new instance has in its workspace does not come back once it was changed or removed.
func TestImageIsNobodysWork(t *testing.T) {
	w := newWorld(t)
	s := w.born(sandbox.Sandbox{})
	w.write(s, "readme", "of the image")
	w.write(s, "gone", "of the image")
	s = w.restore(s)
	w.write(s, "readme", "changed")
	if err := os.Remove(w.path(s, "gone")); err != nil {
		t.Fatal(err)
	}
	s = w.save(s)
	next := w.born(s)
	w.write(next, "readme", "of the image")
	w.write(next, "gone", "of the image")
	id := driver.ID(next.Instance)
	next.Instance = "" // as the record has it while an instance is made
	mark, err := w.Restore(t.Context(), next, id)
	if err != nil || mark.Version != s.Synced.Version {
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
	w.Drivers["fake"] = d
	x := w.watch()
	s := sandbox.Sandbox{ID: "s", Incarnation: 1, Spec: sandbox.Spec{Driver: "fake"}}
	s = w.restore(s)
	if s.Synced.Incarnation != 1 || s.Synced.Version != "" {
		t.Errorf("%+v", s.Synced)
	}
	if s = w.save(s); s.Synced.Version != "" || len(x.asked) != 0 {
		t.Errorf("%+v, %q", s.Synced, x.asked)
	}
	if _, _, err := w.Bring(t.Context(), s, s, "v"); sandbox.CodeOf(err) != api.CodeUnsupported {
		t.Errorf("%v", err)
	}
}

// A store that fails is said, as sync_failed when a workspace is saved, and nothing is taken for saved.
func TestStoreThatFails(t *testing.T) {
	testkit.Proves(t, "O1", "S13")
	w := newWorld(t)
	s := w.restore(w.born(sandbox.Sandbox{}))
	w.write(s, "f", "one")
	x := w.watch()
	for _, fail := range []error{errors.New("it burns"), sandbox.Errorf("put", api.CodeBlobDenied, "no")} {
		x.fail = fail
		mark, err := w.Save(t.Context(), s)
		if sandbox.CodeOf(err) != api.CodeSyncFailed || !strings.Contains(err.Error(), fail.Error()) || mark != s.Synced {
			t.Errorf("%+v, %v", mark, err)
		}
		next := w.born(sandbox.Sandbox{Incarnation: s.Incarnation + int64(len(x.asked))})
		if _, err := w.Restore(t.Context(), next, driver.ID(next.Instance)); err == nil {
			t.Error("restored")
		}
		if err := w.End(t.Context(), sandbox.Sandbox{ID: "s", DeletedAt: time.Now(), Purge: sandbox.PurgeYes}); err == nil {
			t.Error("its versions are still there")
		}
		if err := w.Purge(t.Context(), sandbox.Sandbox{ID: "s", DeletedAt: time.Now()}); err == nil {
			t.Error("purged")
		}
		if _, _, err := w.Bring(t.Context(), s, s, "v"); err == nil {
			t.Error("brought")
		}
	}
	x.fail = nil
	if s = w.save(s); s.Synced.Version == "" {
		t.Error("not saved")
	}
}

// A version that others pruned is no base: what is here and there is brought together, and nothing is lost.
func TestPrunedBase(t *testing.T) {
	testkit.Proves(t, "S17")
	w := newWorld(t)
	s := w.restore(w.born(sandbox.Sandbox{}))
	w.write(s, "f", "one")
	s = w.save(s)
	other := w.restore(w.born(s))
	w.write(other, "g", "two")
	other = w.save(other)
	if _, err := w.Repo(s).Prune(t.Context(), workspace.PruneOptions{Policy: workspace.Policy{Last: 1}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Forget(s); err != nil {
		t.Fatal(err)
	}
	w.write(s, "h", "three")
	w.save(s)
	s = w.restore(w.born(other))
	w.says(s, "f", "one")
	w.says(s, "g", "two")
	w.says(s, "h", "three")
}

// Bringing a version back saves what was there, and is itself a version.
func TestBringAndDiff(t *testing.T) {
	w := newWorld(t)
	s := w.restore(w.born(sandbox.Sandbox{}))
	w.write(s, "f", "one")
	s = w.save(s)
	first := s.Synced.Version
	w.write(s, "f", "second")
	w.write(s, "unsaved", "work")
	mark, res, err := w.Bring(t.Context(), s, s, first)
	if err != nil || !res.New || mark.Version != res.Version || res.Stats.FilesDownloaded != 1 || res.Stats.FilesDeleted != 1 {
		t.Fatalf("%+v, %+v, %v", mark, res, err)
	}
	s.Synced = mark
	w.says(s, "f", "one")
	if again := w.save(s); again.Synced != mark {
		t.Errorf("saved again: %+v", again.Synced)
	}
	var ids []string
	for v, err := range w.Repo(s).Versions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, v.ID)
	}
	if len(ids) != 3 || ids[0] != mark.Version || ids[2] != first {
		t.Fatalf("%q", ids)
	}
	from, to, diff, err := keeper.Diff(t.Context(), w.Repo(s), "", ids[1])
	if err != nil || to.ID != ids[1] || from.ID != first || diff.Added != 1 || diff.Modified != 1 || diff.Bytes != 10 {
		t.Errorf("%+v, %v", diff, err)
	}
	if _, _, diff, err = keeper.Diff(t.Context(), w.Repo(s), ids[1], ids[0]); err != nil || diff.Deleted != 1 || diff.Modified != 1 {
		t.Errorf("%+v, %v", diff, err)
	}
	if from, _, diff, err = keeper.Diff(t.Context(), w.Repo(s), "", first); err != nil || from.ID != "" || diff.Added != 1 {
		t.Errorf("%+v, %v", diff, err)
	}
	for _, pair := range [][2]string{{"", "none"}, {"none", first}} {
		if _, _, _, err := keeper.Diff(t.Context(), w.Repo(s), pair[0], pair[1]); sandbox.CodeOf(err) != api.CodeUnknownVersion {
			t.Errorf("%q: %v", pair, err)
		}
	}
	if _, _, err := w.Bring(t.Context(), s, s, "none"); sandbox.CodeOf(err) != api.CodeUnknownVersion {
		t.Errorf("%v", err)
	}
	w.says(s, "f", "one")

	// Into another workspace, of another history.
	source := s
	w.plan.Prefix = "docs/a/other/"
	into := w.restore(w.born(sandbox.Sandbox{Incarnation: 6}))
	w.Plan = func(s sandbox.Sandbox) keeper.Plan {
		if s.Instance == source.Instance {
			return keeper.Plan{Prefix: "docs/a/s/"}
		}
		return w.plan
	}
	if err := os.Mkdir(w.path(into, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if mark, _, err = w.Bring(t.Context(), into, source, ids[1]); err != nil {
		t.Fatal(err)
	}
	w.says(into, "unsaved", "work")
	if v, _, err := w.Repo(into).Version(t.Context(), ""); err != nil || v.ID != mark.Version || v.Files != 2 {
		t.Errorf("%+v, %v", v, err)
	}
}

// marks records which versions go with their sandbox.
type marks struct {
	keeper.Records
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
	w.Records = record
	s := w.restore(w.born(sandbox.Sandbox{}))
	w.write(s, "f", "one")
	s = w.save(s)
	w.plan.Prefix = "docs/a/s2/"
	other := w.restore(w.born(sandbox.Sandbox{Incarnation: 3}))
	w.write(other, "f", "two")
	other = w.save(other)
	w.plan.Prefix = "docs/a/s/"

	if err := w.End(t.Context(), s); err != nil { // terminated
		t.Error(err)
	}
	if err := w.Purge(t.Context(), s); sandbox.CodeOf(err) != api.CodeConflict {
		t.Errorf("one that is not deleted: %v", err)
	}
	s.DeletedAt = time.Now()
	if err := w.End(t.Context(), s); err != nil {
		t.Error(err)
	}
	if _, _, err := w.Repo(s).Version(t.Context(), ""); err != nil {
		t.Errorf("its versions are gone: %v", err)
	}
	w.plan.Shared = true
	if err := w.MarkPurge(t.Context(), s); sandbox.CodeOf(err) != api.CodeConflict {
		t.Errorf("of a workspace that others have, too: %v", err)
	}
	w.plan.Shared = false
	for range 2 {
		if err := w.MarkPurge(t.Context(), s); err != nil || record.of[s.ID] != sandbox.PurgeYes {
			t.Fatal(record.of, err)
		}
		s.Purge = sandbox.PurgeYes
		if err := w.End(t.Context(), s); err != nil || record.of[s.ID] != sandbox.PurgeNo {
			t.Fatal(record.of, err)
		}
	}
	for e, err := range w.Store.List(t.Context(), "docs/a/s/", blob.ListOptions{}) {
		t.Errorf("left: %+v, %v", e, err)
	}
	w.plan.Prefix = "docs/a/s2/"
	if v, err := w.Repo(other).Verify(t.Context()); err != nil || v.Versions != 1 || len(v.Problems) != 0 {
		t.Errorf("another's: %+v, %v", v, err)
	}
}

func TestWordsOfErrors(t *testing.T) {
	if keeper.Told("x", nil) != nil || keeper.Told("x", context.Canceled) != context.Canceled {
		t.Error("changed what needs no words")
	}
	known := sandbox.Errorf("put", api.CodeBlobDenied, "no")
	if keeper.Told("x", known) != error(known) || sandbox.CodeOf(keeper.Told("x", io.ErrUnexpectedEOF)) != api.CodeSyncFailed {
		t.Error("not in the table's words")
	}
	var none *keeper.Keeper
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
	w.Log = slog.New(slog.NewTextHandler(&log, nil))
	s := w.restore(w.born(sandbox.Sandbox{}))
	w.write(s, "f", "one")
	for i := range 30 {
		if err := syscall.Mkfifo(w.path(s, fmt.Sprint("pipe", i)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.Dir = w.path(s, "f") // no folder for an index
	s = w.save(s)
	if n := strings.Count(log.String(), "cannot be saved"); n != 20 || !strings.Contains(log.String(), "write the index") {
		t.Errorf("%d, %s", n, log.String())
	}
	s = w.save(s)
	if !strings.Contains(log.String(), "read the index") {
		t.Errorf("%s", log.String())
	}
	if err := w.Forget(s); err == nil {
		t.Error("forgot")
	}
	w.Dir = t.TempDir()
	w.says(w.restore(w.born(s)), "f", "one")
}
