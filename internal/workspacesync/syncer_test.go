package workspacesync_test

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
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
	"github.com/berthdev/berth/internal/workspacesync"
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

// world is a syncer with what is under it.
type world struct {
	*testing.T
	*workspacesync.Syncer
	root string
	plan workspacesync.Plan
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := dirblob.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, root: t.TempDir(), plan: workspacesync.Plan{Prefix: "docs/a/s/"}}
	w.Syncer = workspacesync.New(workspacesync.Options{
		Store: store, Dir: t.TempDir(), Plan: func(sandbox.Sandbox) workspacesync.Plan { return w.plan },
		Drivers: map[string]driver.Driver{"dirs": dirs{root: w.root}},
	})
	return w
}

// born is a sandbox whose instance is a new, empty directory.
func (w *world) born(sb sandbox.Sandbox) sandbox.Sandbox {
	w.Helper()
	sb.ID, sb.Spec.Driver, sb.Incarnation = "s", "dirs", sb.Incarnation+1
	if sb.Incarnation > 1 {
		sb.StartedAt = time.Now()
	}
	sb.Instance = sandbox.InstanceID("i" + string(rune('0'+sb.Incarnation)))
	if err := os.Mkdir(filepath.Join(w.root, string(sb.Instance)), 0o755); err != nil {
		w.Fatal(err)
	}
	return sb
}

func (w *world) restore(sb sandbox.Sandbox) sandbox.Sandbox {
	w.Helper()
	mark, err := w.Restore(w.Context(), sb, driver.ID(sb.Instance))
	if err != nil {
		w.Fatal(err)
	}
	sb.Synced = mark
	return sb
}

func (w *world) save(sb sandbox.Sandbox) sandbox.Sandbox {
	w.Helper()
	mark, err := w.Save(w.Context(), sb)
	if err != nil {
		w.Fatal(err)
	}
	sb.Synced = mark
	return sb
}

func (w *world) path(sb sandbox.Sandbox, name string) string {
	return filepath.Join(w.root, string(sb.Instance), name)
}

func (w *world) write(sb sandbox.Sandbox, name, text string) {
	w.Helper()
	if err := os.WriteFile(w.path(sb, name), []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
}

func (w *world) says(sb sandbox.Sandbox, name, want string) {
	w.Helper()
	if got, err := os.ReadFile(w.path(sb, name)); err != nil || string(got) != want {
		w.Errorf("%s is %q, %v, not %q", name, got, err, want)
	}
}

// A workspace that was saved is there again in the next instance, and in the one after that.
func TestWorkspaceComesBackInANewInstance(t *testing.T) {
	testkit.Proves(t, "S1", "S7")
	w := newWorld(t)
	sb := w.restore(w.born(sandbox.Sandbox{}))
	if sb.Synced.Version != "" || sb.Synced.Incarnation != 1 {
		t.Errorf("born empty: %+v", sb.Synced)
	}
	w.write(sb, "f", "one")
	sb = w.save(sb)
	first := sb.Synced.Version
	if again := w.save(sb); again.Synced.Version != first {
		t.Errorf("nothing changed, and there is a new version")
	}
	if m, err := workspace.ReadState(openDir(t, w.path(sb, ""))); err != nil || m.ID != first || len(m.Entries) != 1 {
		t.Errorf("the state file: %+v, %v", m, err)
	}
	for range 3 {
		sb = w.restore(w.born(sb))
		w.says(sb, "f", "one")
		w.write(sb, "g", sb.Synced.Version)
		sb = w.save(sb)
	}
	if sb.Synced.Version == first || sb.Synced.Incarnation != 4 {
		t.Errorf("%+v", sb.Synced)
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
	sb := w.restore(w.born(sandbox.Sandbox{}))
	w.write(sb, "precious", "work")
	sb = w.save(sb)

	next := w.born(sb) // and its restore fails
	w.write(next, "default", "of the image")
	if _, err := w.Save(t.Context(), next); fault.CodeOf(err) != api.CodeSyncFailed || !strings.Contains(err.Error(), "was not restored in this instance") {
		t.Errorf("saved: %v", err)
	}
	w.says(w.restore(w.born(next)), "precious", "work")
}

// What is in the record decides; the index only makes it fast, and can be lost or another version's.
func TestLostIndexLosesNothing(t *testing.T) {
	w := newWorld(t)
	sb := w.restore(w.born(sandbox.Sandbox{}))
	w.write(sb, "f", "one")
	sb = w.save(sb)
	old := sb
	w.write(sb, "f", "two")
	sb = w.save(sb)
	if err := os.RemoveAll(w.Opts().Dir); err != nil {
		t.Fatal(err)
	}
	if again := w.save(sb); again.Synced.Version != sb.Synced.Version {
		t.Error("nothing changed, and there is a new version")
	}
	w.write(sb, "g", "three")
	sb = w.save(sb)
	if sb.Synced.Version == old.Synced.Version {
		t.Error("a change was not saved")
	}
	sb = w.restore(w.born(sb))
	w.says(sb, "f", "two")
	w.says(sb, "g", "three")
	if err := w.Forget(sb); err != nil {
		t.Error(err)
	}
	if err := w.Forget(sb); err != nil {
		t.Error(err)
	}
}

// A start from stopped brings what others have saved since, and never over what was changed here.
func TestStartFromStoppedKeepsLocalChanges(t *testing.T) {
	testkit.Proves(t, "S6")
	w := newWorld(t)
	sb := w.restore(w.born(sandbox.Sandbox{}))
	w.write(sb, "mine", "0")
	w.write(sb, "theirs", "0")
	sb = w.save(sb)
	other := w.restore(w.born(sb))
	w.write(other, "theirs", "changed there")
	w.write(other, "mine", "changed there")
	w.save(other)

	w.write(sb, "mine", "changed here")
	sb = w.restore(sb) // started again
	w.says(sb, "mine", "changed here")
	w.says(sb, "theirs", "changed there")
	w.save(sb)
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
	sb := w.restore(w.born(sandbox.Sandbox{}))
	w.write(sb, "f", "one")
	sb = w.save(sb)
	w.plan.Off = true
	off := w.restore(w.born(sb))
	if _, err := os.Stat(w.path(off, "f")); err == nil {
		t.Error("restored although the template says not to")
	}
	if mark, err := w.Save(t.Context(), off); err != nil || mark != off.Synced {
		t.Errorf("%+v, %v", mark, err)
	}
	w.plan = workspacesync.Plan{Prefix: w.plan.Prefix, Empty: true}
	fresh := w.restore(w.born(sandbox.Sandbox{Incarnation: 5}))
	if _, err := os.Stat(w.path(fresh, "f")); err == nil || fresh.Synced.Incarnation != 6 {
		t.Errorf("the first incarnation is not empty: %+v", fresh.Synced)
	}
}

// What was saved and is gone from the store is said, and nothing starts empty in its place.
func TestLostStoreIsNotAnEmptyOne(t *testing.T) {
	w := newWorld(t)
	sb := w.restore(w.born(sandbox.Sandbox{}))
	w.write(sb, "f", "one")
	sb = w.save(sb)
	w.plan.Prefix = "elsewhere/"
	if _, err := w.Restore(t.Context(), w.born(sb), "i2"); fault.CodeOf(err) != api.CodeBadManifest {
		t.Errorf("%v", err)
	}
	w.plan.Prefix = "docs/a/s/"
	if _, err := w.Restore(t.Context(), w.born(sandbox.Sandbox{Incarnation: 2}), "none"); err == nil {
		t.Error("an instance that is not there was restored into")
	}
	lost := sb
	lost.Spec.Driver = "none"
	if _, err := w.Save(t.Context(), lost); fault.CodeOf(err) != api.CodeSyncFailed || !strings.Contains(err.Error(), "not configured here") {
		t.Errorf("%v", err)
	}
}
