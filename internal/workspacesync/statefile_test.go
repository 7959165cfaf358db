package workspacesync_test

import (
	"os"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// A workspace has its state file from the first save on, an empty one too; one that was deleted comes back with the
// next save, though there is nothing new to save.
func TestEverySavedWorkspaceHasItsStateFile(t *testing.T) {
	testkit.Proves(t, "S1")
	w := newWorld(t)
	sb := w.save(w.restore(w.born(sandbox.Sandbox{})))
	text, err := os.ReadFile(w.path(sb, ".sandbox-state"))
	if err != nil || !strings.Contains(string(text), `"version":"1.0"`) || !strings.Contains(string(text), `"files":[]`) || sb.Synced.Version != "" {
		t.Fatalf("of an empty workspace: %s, %v; %+v", text, err, sb.Synced)
	}
	w.write(sb, "f", "one")
	sb = w.save(sb)
	if err := os.Remove(w.path(sb, ".sandbox-state")); err != nil {
		t.Fatal(err)
	}
	sb = w.save(sb)
	if m, err := workspace.ReadState(openDir(t, w.path(sb, ""))); err != nil || m == nil || m.ID != sb.Synced.Version || len(m.Entries) != 1 {
		t.Errorf("after it was deleted: %+v, %v", m, err)
	}
	other := w.restore(w.born(sb))
	if m, err := workspace.ReadState(openDir(t, w.path(other, ""))); err != nil || m == nil || m.ID != sb.Synced.Version {
		t.Errorf("of the next instance: %+v, %v", m, err)
	}
}
