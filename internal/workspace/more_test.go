package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// Progress counts what is looked at, read and written, and reaches what it said it would.
func TestProgress(t *testing.T) {
	testkit.Proves(t, "S10")
	r, a := &workspace.Repo{Store: newMemory()}, t.TempDir()
	furnish(t, a)
	for _, op := range []string{"push", "pull"} {
		r.Progress = new(workspace.Progress)
		var stats workspace.Stats
		if op == "push" {
			stats = push(t, r, a, nil).Stats
			if seen := r.Progress.Seen.Load(); seen < 20 {
				t.Errorf("%d seen", seen)
			}
		} else {
			stats = pull(t, r, t.TempDir(), nil, workspace.PullOptions{}).Stats
		}
		p := r.Progress
		if p.Files.Load() == 0 || p.Files.Load() != p.AllFiles.Load() || p.Bytes.Load() != p.AllBytes.Load() {
			t.Errorf("%s: %d of %d files, %d of %d bytes", op, p.Files.Load(), p.AllFiles.Load(), p.Bytes.Load(), p.AllBytes.Load())
		}
		if stats.BytesTransferred < 10<<20 || stats.Requests == 0 || stats.Duration <= 0 {
			t.Errorf("%s: %+v", op, stats)
		}
	}
}

// An index of either layout is read as it was written; what stands in its place is no index.
func TestIndexOfEitherLayout(t *testing.T) {
	dir, a := t.TempDir(), t.TempDir()
	furnish(t, a)
	path := filepath.Join(dir, "index")
	for _, layout := range []workspace.Layout{workspace.Packed, workspace.Plain} {
		res := push(t, &workspace.Repo{Store: newMemory(), Layout: layout}, a, nil)
		must(t, res.Index.Save(path))
		got, err := workspace.LoadIndex(path)
		must(t, err)
		if diff := cmp.Diff(res.Index.Entries, got.Entries); diff != "" || got.Layout != layout {
			t.Errorf("%s: %s", layout, diff)
		}
		bad := *res.Index
		bad.Packs = append([]workspace.Pack{{Key: "../../other/packs/a", Size: 1 << 40}}, bad.Packs[1:]...)
		if _, err := workspace.DecodeIndex(workspace.EncodeIndex(&bad)); err == nil {
			t.Error("an index that leads elsewhere is read")
		}
	}
	if left, _ := filepath.Glob(path + "?*"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	secret := filepath.Join(dir, "secret")
	must(t, os.WriteFile(secret, []byte("secret"), 0o600), os.Remove(path), os.Symlink(secret, path))
	if x, err := workspace.LoadIndex(path); x != nil || err != nil {
		t.Errorf("a link: %v, %v", x, err)
	}
	must(t, (&workspace.Index{}).Save(path))
	if read(t, dir, "secret") != "secret" {
		t.Error("the link was followed")
	}
	must(t, os.Remove(path), unix.Mkfifo(path, 0o600))
	if x, err := workspace.LoadIndex(path); x != nil || err != nil {
		t.Errorf("a pipe: %v, %v", x, err)
	}
	must(t, os.Remove(path), os.Mkdir(path, 0o700))
	if x, _ := workspace.LoadIndex(path); x != nil {
		t.Error("a folder is an index")
	}
	if err := (&workspace.Index{}).Save(path); err == nil {
		t.Error("saved over a folder")
	}
	if err := (&workspace.Index{}).Save(filepath.Join(secret, "x")); err == nil {
		t.Error("saved below a file")
	}
}

// A history of several pages is pruned, day by day too, and read again.
func TestPruneOfALongHistory(t *testing.T) {
	testkit.Proves(t, "S17")
	r, a := &workspace.Repo{Store: newMemory()}, t.TempDir()
	if !workspace.IsEmpty(second(r.Pull(t.Context(), open(t, a), nil, workspace.PullOptions{}))) {
		t.Error("there is a version")
	}
	if done, err := r.Prune(t.Context(), workspace.PruneOptions{}); err != nil || len(done.Kept) > 0 {
		t.Errorf("%+v, %v", done, err)
	}
	now := time.Now().Add(-300 * 6 * time.Hour)
	r.Now = func() time.Time { return now }
	var index *workspace.Index
	for i := range 300 {
		write(t, a, map[string]string{"f": fmt.Sprint(i)})
		index = push(t, r, a, index).Index
		now = now.Add(6 * time.Hour)
	}
	for _, c := range []struct {
		policy workspace.Policy
		kept   int
	}{{workspace.Policy{}, 300}, {workspace.Policy{Last: 150}, 150}, {workspace.Policy{Last: 2, Daily: 10}, 11}} {
		done, err := r.Prune(t.Context(), workspace.PruneOptions{Policy: c.policy})
		if err != nil || len(done.Kept) < c.kept-1 || len(done.Kept) > c.kept+1 {
			t.Errorf("%+v keeps %d, %v", c.policy, len(done.Kept), err)
		}
		listed := 0
		for _, err := range r.Versions(t.Context()) {
			must(t, err)
			listed++
		}
		if listed != len(done.Kept) {
			t.Errorf("%d are listed, %d kept", listed, len(done.Kept))
		}
		oldest := done.Kept[len(done.Kept)-1]
		pull(t, r, t.TempDir(), nil, workspace.PullOptions{Version: oldest.ID})
	}
	write(t, a, map[string]string{"f": "on"})
	push(t, r, a, index)
}

// A name that was a restored file's temporary name, or anything else of ours, never gets into a version.
func TestOwnFilesAreNotSaved(t *testing.T) {
	testkit.Proves(t, "S2")
	r, a := &workspace.Repo{Store: newMemory()}, t.TempDir()
	write(t, a, map[string]string{".sandbox-state": "1", ".sandbox-state.idx": "2", ".sandbox-state.lock": "3", "d/.sandbox-state": "kept", ".sandbox-states/x": "4", "f": "5"})
	res := push(t, r, a, nil)
	var names []string
	for _, e := range res.Index.Entries {
		names = append(names, e.Path)
	}
	if got := strings.Join(names, " "); got != "d d/.sandbox-state f" {
		t.Errorf("saved %q", got)
	}
	// A user's files under such a name are said to be left out.
	if len(res.Skipped) != 1 || res.Skipped[0].Path != ".sandbox-states" {
		t.Errorf("skipped %+v", res.Skipped)
	}
	b := t.TempDir()
	write(t, b, map[string]string{".sandbox-state/x": "1", ".sandbox-state.bak": "2", "f": "3"})
	if res := push(t, &workspace.Repo{Store: newMemory()}, b, nil); len(res.Skipped) != 2 || res.Skipped[0].Path != ".sandbox-state" || res.Skipped[1].Path != ".sandbox-state.bak" {
		t.Errorf("skipped %+v", res.Skipped)
	}
}
