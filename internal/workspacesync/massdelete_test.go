package workspacesync_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspacesync"
)

// wedged are two instances of one shared workspace. The first deleted five of six files and saved that; the
// second can therefore neither sync nor start. It also returns the version that has all files.
func wedged(w *world) (second sandbox.Sandbox, whole string) {
	w.Helper()
	w.plan.Shared = true
	first := w.restore(w.born(sandbox.Sandbox{}))
	for i := range 6 {
		w.write(first, fmt.Sprint(i), "text")
	}
	first = w.save(first)
	whole = first.Synced.Version
	second = w.restore(w.born(sandbox.Sandbox{Incarnation: 1}))
	for i := range 5 {
		if err := os.Remove(w.path(first, fmt.Sprint(i))); err != nil {
			w.Fatal(err)
		}
	}
	mark, res, err := w.Sync(w.Context(), first, workspacesync.SyncOptions{})
	if err != nil || mark.Version == whole || res.Stats.FilesDeleted != 5 {
		w.Fatalf("%+v, %+v, %v", mark, res, err)
	}
	if _, _, err := w.Sync(w.Context(), second, workspacesync.SyncOptions{}); fault.CodeOf(err) != api.CodeMassDelete {
		w.Fatalf("a sync that deletes most files: %v", err)
	}
	if _, err := w.Restore(w.Context(), second, driver.ID(second.Instance)); fault.CodeOf(err) != api.CodeMassDelete {
		w.Fatalf("a start that deletes most files: %v", err)
	}
	if hint := api.CodeMassDelete.Info().Hint; !strings.Contains(hint, "--allow-mass-delete") || !strings.Contains(hint, "allow_mass_delete") {
		w.Errorf("the hint names no way out: %s", hint)
	}
	return second, whole
}

// A workspace that others emptied follows them when its caller says so. What was changed here stays.
func TestAllowedMassDelete(t *testing.T) {
	testkit.Proves(t, "S3", "S10")
	w := newWorld(t)
	sb, _ := wedged(w)
	w.write(sb, "mine", "new")
	w.write(sb, "0", "changed here")
	mark, res, err := w.Sync(t.Context(), sb, workspacesync.SyncOptions{AllowMassDelete: true})
	if err != nil || res.Stats.FilesDeleted != 4 {
		t.Fatalf("%+v, %v", res, err)
	}
	sb.Synced = mark
	w.says(sb, "mine", "new")
	w.says(sb, "0", "changed here")
	w.says(sb, "5", "text")
	if names, err := os.ReadDir(w.path(sb, "")); err != nil || len(names) != 4 { // with the state file
		t.Errorf("%v, %v", names, err)
	}
	if again := w.restore(sb); again.Synced != mark {
		t.Errorf("the next start: %+v, not %+v", again.Synced, mark)
	}
}

// An explicit restore is told to delete. It needs no flag, and brings back what the other one deleted.
func TestRestoreCountsAsToldToDelete(t *testing.T) {
	testkit.Proves(t, "S3", "S10")
	w := newWorld(t)
	sb, whole := wedged(w)
	w.write(sb, "mine", "new")
	mark, res, err := w.RestoreVersion(t.Context(), sb, sb, whole)
	if err != nil || res.Stats.FilesDownloaded != 5 || res.Stats.FilesDeleted != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	sb.Synced = mark
	for i := range 6 {
		w.says(sb, fmt.Sprint(i), "text")
	}
	if again := w.restore(sb); again.Synced != mark {
		t.Errorf("the next start: %+v, not %+v", again.Synced, mark)
	}
	// What was here before the restore is a version.
	for v, err := range w.Repo(sb).Versions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(v.Note, "before version") {
			return
		}
	}
	t.Error("the workspace was not saved before the restore")
}
