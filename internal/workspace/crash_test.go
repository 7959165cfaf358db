package workspace_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// A pull that is killed at any step and repeated comes to the same end as one that was not.
func TestKilledPullIsRepeated(t *testing.T) {
	testkit.Proves(t, "S5")
	from, store := t.TempDir(), t.TempDir()
	write(t, from, map[string]string{"a": "1", "b": "2", "d/x": "3", "d/y": "4", "swap": "file", "gone/deep": "5", "fold/in": "6", "closed/c": "7", "k": "8"})
	chmod(t, from, "closed", 0o500)
	r := &workspace.Repo{Store: dirblobAt(t, store)}
	first := push(t, r, from, nil)
	old := filepath.Join(t.TempDir(), "index")
	must(t, first.Index.Save(old))

	remove(t, from, "swap", "gone", "fold", "b")
	write(t, from, map[string]string{"a": "changed", "swap/now/deep": "folder", "fold": "file", "d/z": "", "closed/new": "n", "new/n": "n", "zlarge": strings.Repeat("l", 5<<20)})
	chmod(t, from, "d/x", 0o700)
	chmod(t, from, "new", 0o700)
	must(t, os.Symlink("a", filepath.Join(from, "link")))
	push(t, r, from, first.Index)

	windows := map[string]int{}
	for name, c := range map[string]struct {
		index   string
		discard bool
	}{"into nothing": {}, "over the version before": {index: old}, "restore over something else": {discard: true}} {
		t.Run(name, func(t *testing.T) {
			stride := 1
			if !testkit.Torture() {
				stride = 5
			}
			for at := 1; ; at += stride {
				dir := t.TempDir()
				switch {
				case c.index != "":
					pull(t, r, dir, nil, workspace.PullOptions{Version: first.Version})
				case c.discard:
					write(t, dir, map[string]string{"a/b/c": "in the way", "fold/other": "x", "zlarge": "y"})
				}
				index := filepath.Join(t.TempDir(), "index")
				if c.index != "" {
					must(t, first.Index.Save(index))
				}
				out, killed, err := job{Do: "pull", Store: store, Dir: dir, Step: at, Index: index, Discard: c.discard}.run(t)
				must(t, err)
				if !killed {
					same(t, from, dir)
					return
				}
				windows[string(out)]++
				base, err := workspace.LoadIndex(index)
				must(t, err)
				res := pull(t, r, dir, base, workspace.PullOptions{Discard: c.discard, AllowMassDelete: true})
				if len(res.Conflicts) > 0 {
					t.Errorf("step %d (%s): conflicts %q", at, out, res.Conflicts)
				}
				same(t, from, dir)
			}
		})
	}
	for _, window := range []string{"created", "filled", "completed", "linked", "folder made", "drop", "finish folder", "clear"} {
		if windows[window] == 0 && testkit.Torture() {
			t.Errorf("nothing was stopped at %q: %v", window, windows)
		}
	}
}

// A disk that fills up stops a restore and a state file with an error that says so; with room again the
// restore goes on, and until then nothing is half there.
func TestFullDisk(t *testing.T) {
	testkit.Proves(t, "S5")
	r, from, dir := &workspace.Repo{Store: newMemory()}, t.TempDir(), t.TempDir()
	files := map[string]string{"old": "old"}
	for i := range 40 {
		files[fmt.Sprint("f", i)] = strings.Repeat(fmt.Sprint(i%10), 50<<10)
	}
	files["large"] = strings.Repeat("large", 1<<20)
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,mode=0755"))
	defer func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
	write(t, from, map[string]string{"old": "old"})
	first := push(t, r, from, nil)
	here := pull(t, r, dir, nil, workspace.PullOptions{})
	must(t, workspace.WriteState(open(t, dir), here.State))
	write(t, from, files)
	write(t, from, map[string]string{"old": strings.Repeat("new", 1<<20)})
	push(t, r, from, first.Index)
	_, err := r.Pull(t.Context(), open(t, dir), here.Index, workspace.PullOptions{})
	wantCode(t, err, api.CodeDiskFull)
	if got := read(t, dir, "old"); got != "old" {
		t.Errorf("a file is half there: %d bytes", len(got))
	}
	must(t, os.WriteFile(filepath.Join(dir, "filler"), nil, 0o644))
	filler, err := os.OpenFile(filepath.Join(dir, "filler"), os.O_WRONLY, 0)
	must(t, err)
	for err == nil {
		_, err = filler.Write(make([]byte, 1024))
	}
	must(t, filler.Close())
	if err := workspace.WriteState(open(t, dir), []byte(strings.Repeat("x", 1<<20))); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("the state file: %v", err)
	}
	if got := read(t, dir, workspace.StateFile); got != string(here.State) {
		t.Errorf("the state file has %d bytes", len(got))
	}
	if left, _ := filepath.Glob(filepath.Join(dir, workspace.StateFile+".tmp*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	must(t, os.Remove(filepath.Join(dir, "filler")), unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=64m"))
	pull(t, r, dir, here.Index, workspace.PullOptions{})
	same(t, from, dir)
}

// The temporary files and unfinished folders of a restore are never saved, and swept by the next.
func TestLeftoversAreSwept(t *testing.T) {
	r, a, b := &workspace.Repo{Store: newMemory()}, t.TempDir(), t.TempDir()
	write(t, a, map[string]string{"d/f": "1", "g": "2"})
	first := push(t, r, a, nil)
	got := pull(t, r, b, nil, workspace.PullOptions{})
	write(t, b, map[string]string{"d/" + workspace.TempName(): "half", "half": "written", ".berth-tmp-mine": "a name of one's own"})
	must(t, os.Mkdir(filepath.Join(b, "void"), 0o700), syscall.Chmod(filepath.Join(b, "half"), workspace.UnfinishedFile), syscall.Chmod(filepath.Join(b, "void"), workspace.UnfinishedFolder))
	if next := push(t, r, b, got.Index); next.Stats.FilesUploaded != 1 {
		t.Errorf("%+v", next.Stats)
	}
	remove(t, a, "g")
	_, err := r.Sync(t.Context(), open(t, a), first.Index, workspace.PushOptions{})
	must(t, err)
	pull(t, r, b, got.Index, workspace.PullOptions{})
	want := tree(t, a)
	delete(want, "void")
	delete(want, "g")
	have := tree(t, b)
	for path := range have {
		if want[path] == "" && path != "void" {
			t.Errorf("%s is left", path)
		}
	}
}
