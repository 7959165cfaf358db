package workspace_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// A difference names what was added, modified, deleted and renamed, in the order of the paths.
func TestDiff(t *testing.T) {
	testkit.Proves(t, "S7")
	r, a := &workspace.Repo{Store: newMemory()}, t.TempDir()
	write(t, a, map[string]string{"same": "0", "changed": "12", "gone": "3", "old name": "moved", "mode": "4", "twice1": "t", "twice2": "t", "swap": "file"})
	first := push(t, r, a, nil)
	remove(t, a, "gone", "twice1", "twice2", "swap")
	write(t, a, map[string]string{"changed": "1234", "d/new": "567", "thrice": "t", "swap/in": "x"})
	must(t, os.Rename(filepath.Join(a, "old name"), filepath.Join(a, "d/new name")), os.Symlink("same", filepath.Join(a, "link")))
	chmod(t, a, "mode", 0o700)
	push(t, r, a, first.Index)
	_, m1, err := r.Version(t.Context(), first.Version)
	must(t, err)
	_, m2, err := r.Version(t.Context(), "")
	must(t, err)
	got := workspace.Diff(m1, m2)
	want := &workspace.Difference{
		Changes: []workspace.Change{
			{Path: "changed", Kind: workspace.Modified, Is: "file", Was: 2, Size: 4},
			{Path: "d", Kind: workspace.Added, Is: "folder"},
			{Path: "d/new", Kind: workspace.Added, Is: "file", Size: 3},
			{Path: "d/new name", Kind: workspace.Renamed, Is: "file", From: "old name", Was: 5, Size: 5},
			{Path: "gone", Kind: workspace.Deleted, Is: "file", Was: 1},
			{Path: "link", Kind: workspace.Added, Is: "link"},
			{Path: "mode", Kind: workspace.Modified, Is: "file", Was: 1, Size: 1, Meta: true},
			{Path: "swap", Kind: workspace.Modified, Is: "folder", Was: 4},
			{Path: "swap/in", Kind: workspace.Added, Is: "file", Size: 1},
			{Path: "thrice", Kind: workspace.Renamed, Is: "file", From: "twice1", Was: 1, Size: 1},
			{Path: "twice2", Kind: workspace.Deleted, Is: "file", Was: 1},
		},
		Added: 4, Modified: 3, Deleted: 2, Renamed: 2, Bytes: 4 + 3 + 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if all := workspace.Diff(nil, m1); all.Added != 8 || all.Deleted+all.Modified > 0 {
		t.Errorf("%+v", all)
	}
	if none := workspace.Diff(m1, nil); none.Deleted != 8 {
		t.Errorf("%+v", none)
	}
}
