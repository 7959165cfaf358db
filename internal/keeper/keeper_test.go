package keeper_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob/dirblob"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/keeper"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// dirs is a driver whose instances are directories.
type dirs struct {
	driver.Driver
	root string
}

func (d dirs) Files(_ context.Context, id driver.ID, _ string) (files.FS, error) {
	dir, err := os.Open(filepath.Join(d.root, string(id)))
	if err != nil {
		return nil, err
	}
	return files.NewDir(dir, files.Owner{})
}

func (d dirs) Inspect(_ context.Context, id driver.ID) (driver.Status, error) {
	if _, err := os.Stat(filepath.Join(d.root, string(id))); errors.Is(err, fs.ErrNotExist) {
		return driver.Status{}, driver.ErrNotFound
	}
	return driver.Status{ID: id}, nil
}

// world is a keeper with what is under it.
type world struct {
	*testing.T
	*keeper.Keeper
	root string
	plan keeper.Plan
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := dirblob.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, root: t.TempDir(), plan: keeper.Plan{Prefix: "docs/a/s/"}}
	w.Keeper = &keeper.Keeper{
		Store: store, Dir: t.TempDir(), Plan: func(sandbox.Sandbox) keeper.Plan { return w.plan },
		Drivers: map[string]driver.Driver{"dirs": dirs{root: w.root}},
	}
	return w
}

// born is a sandbox whose instance is a new, empty directory.
func (w *world) born(s sandbox.Sandbox) sandbox.Sandbox {
	w.Helper()
	s.ID, s.Spec.Driver, s.Incarnation = "s", "dirs", s.Incarnation+1
	if s.Incarnation > 1 {
		s.StartedAt = time.Now()
	}
	s.Instance = sandbox.InstanceID("i" + string(rune('0'+s.Incarnation)))
	if err := os.Mkdir(filepath.Join(w.root, string(s.Instance)), 0o755); err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *world) restore(s sandbox.Sandbox) sandbox.Sandbox {
	w.Helper()
	mark, err := w.Restore(w.Context(), s, driver.ID(s.Instance))
	if err != nil {
		w.Fatal(err)
	}
	s.Synced = mark
	return s
}

func (w *world) save(s sandbox.Sandbox) sandbox.Sandbox {
	w.Helper()
	mark, err := w.Save(w.Context(), s)
	if err != nil {
		w.Fatal(err)
	}
	s.Synced = mark
	return s
}

func (w *world) path(s sandbox.Sandbox, name string) string {
	return filepath.Join(w.root, string(s.Instance), name)
}

func (w *world) write(s sandbox.Sandbox, name, text string) {
	w.Helper()
	if err := os.WriteFile(w.path(s, name), []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
}

func (w *world) says(s sandbox.Sandbox, name, want string) {
	w.Helper()
	if got, err := os.ReadFile(w.path(s, name)); err != nil || string(got) != want {
		w.Errorf("%s is %q, %v, not %q", name, got, err, want)
	}
}

// A workspace that was saved is there again in the next instance, and in the one after that.
func TestWorkspaceComesBackInANewInstance(t *testing.T) {
	testkit.Proves(t, "S1", "S7")
	w := newWorld(t)
	s := w.restore(w.born(sandbox.Sandbox{}))
	if s.Synced.Version != "" || s.Synced.Incarnation != 1 {
		t.Errorf("born empty: %+v", s.Synced)
	}
	w.write(s, "f", "one")
	s = w.save(s)
	first := s.Synced.Version
	if again := w.save(s); again.Synced.Version != first {
		t.Errorf("nothing changed, and there is a new version")
	}
	if m, err := workspace.ReadState(openDir(t, w.path(s, ""))); err != nil || m.ID != first || len(m.Entries) != 1 {
		t.Errorf("the state file: %+v, %v", m, err)
	}
	for range 3 {
		s = w.restore(w.born(s))
		w.says(s, "f", "one")
		w.write(s, "g", s.Synced.Version)
		s = w.save(s)
	}
	if s.Synced.Version == first || s.Synced.Incarnation != 4 {
		t.Errorf("%+v", s.Synced)
	}
}

func openDir(t *testing.T, path string) *workspace.Dir {
	t.Helper()
	d, err := workspace.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// A failed read never becomes a destructive write: an instance into which nothing was restored does not
// save what it has.
func TestOnlyWhoRestoredSaves(t *testing.T) {
	testkit.Proves(t, "S7")
	w := newWorld(t)
	s := w.restore(w.born(sandbox.Sandbox{}))
	w.write(s, "precious", "work")
	s = w.save(s)

	next := w.born(s) // and its restore fails
	w.write(next, "default", "of the image")
	if _, err := w.Save(t.Context(), next); sandbox.CodeOf(err) != api.CodeSyncFailed || !strings.Contains(err.Error(), "never had the workspace restored") {
		t.Errorf("saved: %v", err)
	}
	w.says(w.restore(w.born(next)), "precious", "work")
}

// What is in the record decides; the index only makes it fast, and can be lost or another version's.
func TestLostIndexLosesNothing(t *testing.T) {
	w := newWorld(t)
	s := w.restore(w.born(sandbox.Sandbox{}))
	w.write(s, "f", "one")
	s = w.save(s)
	old := s
	w.write(s, "f", "two")
	s = w.save(s)
	if err := os.RemoveAll(w.Dir); err != nil {
		t.Fatal(err)
	}
	if again := w.save(s); again.Synced.Version != s.Synced.Version {
		t.Error("nothing changed, and there is a new version")
	}
	w.write(s, "g", "three")
	s = w.save(s)
	if s.Synced.Version == old.Synced.Version {
		t.Error("a change was not saved")
	}
	s = w.restore(w.born(s))
	w.says(s, "f", "two")
	w.says(s, "g", "three")
	if err := w.Forget(s); err != nil {
		t.Error(err)
	}
	if err := w.Forget(s); err != nil {
		t.Error(err)
	}
}

// A start from stopped brings what others have saved since, and never over what was changed here.
func TestStartFromStoppedKeepsLocalChanges(t *testing.T) {
	testkit.Proves(t, "S6")
	w := newWorld(t)
	s := w.restore(w.born(sandbox.Sandbox{}))
	w.write(s, "mine", "0")
	w.write(s, "theirs", "0")
	s = w.save(s)
	other := w.restore(w.born(s))
	w.write(other, "theirs", "changed there")
	w.write(other, "mine", "changed there")
	w.save(other)

	w.write(s, "mine", "changed here")
	s = w.restore(s) // started again
	w.says(s, "mine", "changed here")
	w.says(s, "theirs", "changed there")
	w.save(s)
	fresh := w.born(other)
	fresh = w.restore(fresh)
	w.says(fresh, "mine", "changed here")
	if copies, _ := filepath.Glob(w.path(fresh, "mine.conflict-*")); len(copies) != 1 {
		t.Errorf("the other copy: %q", copies)
	}
}

func TestTemplateDecidesWhatIsSaved(t *testing.T) {
	testkit.Proves(t, "S14", "S6")
	w := newWorld(t)
	s := w.restore(w.born(sandbox.Sandbox{}))
	w.write(s, "f", "one")
	s = w.save(s)
	w.plan.Off = true
	off := w.restore(w.born(s))
	if _, err := os.Stat(w.path(off, "f")); err == nil {
		t.Error("restored although the template says not to")
	}
	if mark, err := w.Save(t.Context(), off); err != nil || mark != off.Synced {
		t.Errorf("%+v, %v", mark, err)
	}
	w.plan = keeper.Plan{Prefix: w.plan.Prefix, Empty: true}
	fresh := w.restore(w.born(sandbox.Sandbox{Incarnation: 5}))
	if _, err := os.Stat(w.path(fresh, "f")); err == nil || fresh.Synced.Incarnation != 6 {
		t.Errorf("the first incarnation is not empty: %+v", fresh.Synced)
	}
}

// What was saved and is gone from the store is said, and nothing starts empty in its place.
func TestLostStoreIsNotAnEmptyOne(t *testing.T) {
	w := newWorld(t)
	s := w.restore(w.born(sandbox.Sandbox{}))
	w.write(s, "f", "one")
	s = w.save(s)
	w.plan.Prefix = "elsewhere/"
	if _, err := w.Restore(t.Context(), w.born(s), "i2"); sandbox.CodeOf(err) != api.CodeBadManifest {
		t.Errorf("%v", err)
	}
	w.plan.Prefix = "docs/a/s/"
	if _, err := w.Restore(t.Context(), w.born(sandbox.Sandbox{Incarnation: 2}), "none"); err == nil {
		t.Error("an instance that is not there was restored into")
	}
	lost := s
	lost.Spec.Driver = "none"
	if _, err := w.Save(t.Context(), lost); sandbox.CodeOf(err) != api.CodeSyncFailed || !strings.Contains(err.Error(), "not configured here") {
		t.Errorf("%v", err)
	}
}
