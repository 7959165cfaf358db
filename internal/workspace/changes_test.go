package workspace_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// The changes of a tree are what a push would save, and what cannot be read is none of them.
func TestChangesOfATree(t *testing.T) {
	testkit.Proves(t, "S7")
	r, a := &workspace.Repo{Store: newMemory()}, t.TempDir()
	write(t, a, map[string]string{"same": "0", "changed": "12", "gone": "3", "old": "moved", "shut/in": "x"})
	first := push(t, r, a, nil)
	remove(t, a, "gone")
	write(t, a, map[string]string{"changed": "34", "new": "1"})
	must(t, os.Rename(filepath.Join(a, "old"), filepath.Join(a, "now")))
	must(t, os.Chmod(filepath.Join(a, "same"), 0o640))
	look := func(tree workspace.Tree, from *workspace.Manifest, base *workspace.Index) string {
		d, err := workspace.Changes(t.Context(), tree, from, base, nil)
		must(t, err)
		var all []string
		for _, c := range d.Changes {
			all = append(all, string(c.Kind)+" "+c.Path)
		}
		return strings.Join(all, ", ")
	}
	const want = "modified changed, deleted gone, added new, renamed now, modified same"
	base := first.Index
	for name, got := range map[string]string{
		"with the index":    look(open(t, a), &base.Manifest, base),
		"without the index": look(open(t, a), &base.Manifest, nil),
	} {
		if got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := look(open(t, a), nil, nil); !strings.Contains(got, "added same, added shut, added shut/in") || strings.Contains(got, "deleted") {
		t.Errorf("against nothing: %s", got)
	}
	second := push(t, r, a, base)
	if got := look(open(t, a), &second.Index.Manifest, second.Index); got != "" {
		t.Errorf("after a push: %s", got)
	}
	tree := asUser(t, a)
	must(t, os.Chmod(filepath.Join(a, "shut"), 0), os.Chmod(filepath.Join(a, "now"), 0))
	if got := look(tree, &second.Index.Manifest, second.Index); strings.Contains(got, "deleted") || strings.Contains(got, "now") {
		t.Errorf("what cannot be read: %s", got)
	}
	must(t, os.Chmod(filepath.Join(a, "shut"), 0o700))
}

// conflicts are the paths that were kept twice; each copy is where it is said to be.
func (p *pair) conflicts(t *testing.T, res *workspace.Result) (paths []string) {
	t.Helper()
	for _, c := range res.Conflicts {
		if _, err := os.Lstat(filepath.Join(p.b, c.Copy)); err != nil || !strings.HasPrefix(c.Copy, c.Path+".conflict-") {
			t.Errorf("the other copy of %s is said to be %s: %v", c.Path, c.Copy, err)
		}
		paths = append(paths, c.Path)
	}
	return paths
}

// Whoever brought a newer version and had nothing to save is told the state of that version.
func TestSyncThatOnlyBringsHasAState(t *testing.T) {
	testkit.Proves(t, "S1")
	p := newPair(t, map[string]string{"f": "0", "g": "0"})
	write(t, p.a, map[string]string{"f": "1"})
	next := push(t, p.Repo, p.a, p.wasA)
	res, err := p.Sync(t.Context(), open(t, p.b), p.wasB, workspace.PushOptions{})
	must(t, err)
	if res.New || res.Version != next.Version || !bytes.Equal(res.State, next.State) {
		t.Errorf("version %s, new %v, state %q", res.Version, res.New, res.State)
	}
}

// Verify and both exports reach what they said they would do.
func TestProgressOfReaders(t *testing.T) {
	testkit.Proves(t, "S10")
	r, a := &workspace.Repo{Store: newMemory()}, t.TempDir()
	furnish(t, a)
	push(t, r, a, nil)
	for name, do := range map[string]func() error{
		"verify": func() error { _, err := r.Verify(t.Context()); return err },
		"export": func() error { _, err := r.Export(t.Context(), "", newMemory(), ""); return err },
		"tar": func() error {
			_, err := r.ExportTar(t.Context(), "", io.Discard)
			return err
		},
	} {
		r.Progress = new(workspace.Progress)
		must(t, do())
		p := r.Progress
		if p.Files.Load() == 0 || p.Files.Load() != p.AllFiles.Load() || p.Bytes.Load() < 1<<20 || p.Bytes.Load() != p.AllBytes.Load() {
			t.Errorf("%s: %d of %d files, %d of %d bytes", name, p.Files.Load(), p.AllFiles.Load(), p.Bytes.Load(), p.AllBytes.Load())
		}
	}
}

// Each sync is logged with its numbers, and each state file with its path and size.
func TestSyncsAreLogged(t *testing.T) {
	testkit.Proves(t, "S10")
	var out bytes.Buffer
	r, a := &workspace.Repo{Store: newMemory(), Prefix: "p/", Log: slog.New(slog.NewTextHandler(&out, nil))}, t.TempDir()
	write(t, a, map[string]string{"f": "12345"})
	logged := func(want ...string) {
		t.Helper()
		lines := strings.Split(out.String(), "\n")
		for _, w := range want {
			if !slices.ContainsFunc(lines, func(line string) bool {
				return !slices.ContainsFunc(strings.Fields(w), func(part string) bool { return !strings.Contains(line, part) })
			}) {
				t.Errorf("no line has %s:\n%s", w, out.String())
			}
		}
		out.Reset()
	}
	first := push(t, r, a, nil)
	state := fmt.Sprintf("path=p/%s/.sandbox-state size=%d", first.Version, len(first.State))
	logged("level=INFO pushed version="+first.Version+" stats.files_uploaded=1 stats.bytes_transferred= stats.duration=", "written "+state)
	pull(t, r, t.TempDir(), nil, workspace.PullOptions{})
	logged("level=INFO pulled version="+first.Version+" stats.files_downloaded=1 stats.files_skipped=0", "read "+state)
	_, err := r.BaseOf(t.Context(), "")
	must(t, err)
	logged("read " + state)
}

// Each file of a push is counted once: as sent, though its bytes may have been stored before, as skipped, though
// it may have been read to be sure, or as deleted.
func TestEveryFileIsCountedOnce(t *testing.T) {
	testkit.Proves(t, "S10")
	r, a := &workspace.Repo{Store: newMemory()}, t.TempDir()
	write(t, a, map[string]string{"a": "same", "b": "same", "empty": "", "d/c": "other"})
	count := func(base *workspace.Index, uploaded, skipped, deleted int) *workspace.Index {
		t.Helper()
		res := push(t, r, a, base)
		if s := res.Stats; s.FilesUploaded != uploaded || s.FilesSkipped != skipped || s.FilesDeleted != deleted {
			t.Errorf("%+v, not %d sent, %d skipped, %d deleted", s, uploaded, skipped, deleted)
		}
		return res.Index
	}
	was := count(nil, 4, 0, 0)
	was = count(was, 0, 4, 0) // a moment later: each may have changed in the same instant
	remove(t, a, "b")
	write(t, a, map[string]string{"d/c": "changed", "moved": "same"})
	was = count(was, 2, 2, 1)
	was.Stamps = make([]workspace.Stamp, len(was.Entries)) // everything is read
	count(was, 0, 4, 0)
	b := t.TempDir()
	if s := pull(t, r, b, nil, workspace.PullOptions{}).Stats; s.FilesDownloaded != 4 || s.FilesSkipped != 0 {
		t.Errorf("%+v", s)
	}
	if s := pull(t, r, b, nil, workspace.PullOptions{}).Stats; s.FilesDownloaded != 0 || s.FilesSkipped != 4 {
		t.Errorf("%+v", s)
	}
}

// The bytes of a large file are told while they pass, and not only when it is done.
func TestProgressWithinAFile(t *testing.T) {
	testkit.Proves(t, "S10")
	r, a := &workspace.Repo{Store: newMemory()}, t.TempDir()
	write(t, a, map[string]string{"large": strings.Repeat("0123456789abcdef", 1<<20)})
	push(t, r, a, nil)
	r.Progress = new(workspace.Progress)
	seen := map[int64]bool{}
	_, err := r.ExportTar(t.Context(), "", writing(func() { seen[r.Progress.Bytes.Load()] = true }))
	must(t, err)
	if len(seen) < 10 || r.Progress.Bytes.Load() != 16<<20 {
		t.Errorf("%d steps, %d bytes", len(seen), r.Progress.Bytes.Load())
	}
}

// writing is told of each write.
type writing func()

func (w writing) Write(p []byte) (int, error) {
	w()
	return len(p), nil
}
