package workspace_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// pair is two trees of one workspace that have the same files.
type pair struct {
	*workspace.Repo
	a, b       string
	wasA, wasB *workspace.Index
}

func newPair(t *testing.T, files map[string]string) *pair {
	t.Helper()
	p := &pair{Repo: &workspace.Repo{Store: newMemory()}, a: t.TempDir(), b: t.TempDir()}
	write(t, p.a, files)
	p.wasA = push(t, p.Repo, p.a, nil).Index
	p.wasB = pull(t, p.Repo, p.b, nil, workspace.PullOptions{}).Index
	return p
}

// meet saves a, then brings it together with b, and checks that both are then the same.
func (p *pair) meet(t *testing.T) *workspace.Result {
	t.Helper()
	push(t, p.Repo, p.a, p.wasA)
	res, err := p.Sync(t.Context(), open(t, p.b), p.wasB, workspace.PushOptions{AllowMassDelete: true})
	must(t, err)
	c := t.TempDir()
	pull(t, p.Repo, c, nil, workspace.PullOptions{})
	same(t, p.b, c)
	return res
}

func remove(t testing.TB, dir string, paths ...string) {
	t.Helper()
	for _, path := range paths {
		must(t, os.RemoveAll(filepath.Join(dir, path)))
	}
}

// Whatever two do to one path, nothing that either wrote is lost.
func TestEveryMeetingKeepsWhatWasWritten(t *testing.T) {
	testkit.Proves(t, "S15")
	many := map[string]string{"f": "0", "d/x": "0", "d/y": "0", "keep1": "k", "keep2": "k", "keep3": "k"}
	for name, c := range map[string]struct {
		there, here func(dir string)
		want        map[string]string // in the end
		conflicts   []string
	}{
		"a folder is removed here, a file in it changed there": {
			func(dir string) { write(t, dir, map[string]string{"d/x": "there"}) },
			func(dir string) { remove(t, dir, "d") },
			map[string]string{"d/x": "there"}, nil,
		},
		"a folder becomes a file here, a file in it changed there": {
			func(dir string) { write(t, dir, map[string]string{"d/x": "there"}) },
			func(dir string) { remove(t, dir, "d"); write(t, dir, map[string]string{"d": "file"}) },
			map[string]string{"d/x": "there", "d.conflict-here-*": "file"}, []string{"d"},
		},
		"a folder becomes a file there, a file in it is new here": {
			func(dir string) { remove(t, dir, "d"); write(t, dir, map[string]string{"d": "file"}) },
			func(dir string) { write(t, dir, map[string]string{"d/new": "here"}) },
			map[string]string{"d/new": "here", "d.conflict-*": "file"}, []string{"d"},
		},
		"a folder becomes a link there, a file in it is new here": {
			func(dir string) { remove(t, dir, "d"); must(t, os.Symlink("f", filepath.Join(dir, "d"))) },
			func(dir string) { write(t, dir, map[string]string{"d/new": "here"}) },
			map[string]string{"d/new": "here", "d.conflict-*": "0"}, []string{"d"},
		},
		"a file becomes a folder there, and is changed here": {
			func(dir string) { remove(t, dir, "f"); write(t, dir, map[string]string{"f/in": "folder"}) },
			func(dir string) { write(t, dir, map[string]string{"f": "here"}) },
			map[string]string{"f/in": "folder", "f.conflict-here-*": "here"}, []string{"f"},
		},
		"a file becomes a folder on both sides": {
			func(dir string) { remove(t, dir, "f"); write(t, dir, map[string]string{"f/there": "1"}) },
			func(dir string) { remove(t, dir, "f"); write(t, dir, map[string]string{"f/here": "2"}) },
			map[string]string{"f/there": "1", "f/here": "2"}, nil,
		},
		"a link on both sides to different things": {
			func(dir string) { remove(t, dir, "f"); must(t, os.Symlink("keep1", filepath.Join(dir, "f"))) },
			func(dir string) { remove(t, dir, "f"); must(t, os.Symlink("keep2", filepath.Join(dir, "f"))) },
			map[string]string{"f": "k", "f.conflict-*": "k"}, []string{"f"},
		},
		"a file there, a folder here": {
			func(dir string) { write(t, dir, map[string]string{"new": "file"}) },
			func(dir string) { write(t, dir, map[string]string{"new/in": "folder"}) },
			map[string]string{"new/in": "folder", "new.conflict-*": "file"}, []string{"new"},
		},
		"a folder there, a file here": {
			func(dir string) { write(t, dir, map[string]string{"new/in": "folder"}) },
			func(dir string) { write(t, dir, map[string]string{"new": "file"}) },
			map[string]string{"new/in": "folder", "new.conflict-here-*": "file"}, []string{"new"},
		},
		"a folder is removed there, a file in it is new here": {
			func(dir string) { remove(t, dir, "d") },
			func(dir string) { write(t, dir, map[string]string{"d/new": "here"}) },
			map[string]string{"d/new": "here"}, nil,
		},
		"permissions there, bytes here": {
			func(dir string) { chmod(t, dir, "f", 0o700) },
			func(dir string) { write(t, dir, map[string]string{"f": "here"}) },
			map[string]string{"f": "here", "f.conflict-*": "0"}, []string{"f"},
		},
		"empty files": {
			func(dir string) { write(t, dir, map[string]string{"f": ""}) },
			func(dir string) { write(t, dir, map[string]string{"f": "here"}) },
			map[string]string{"f": "here", "f.conflict-*": ""}, []string{"f"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, many)
			c.there(p.a)
			c.here(p.b)
			res := p.meet(t)
			if got := p.conflicts(t, res); !slices.Equal(got, c.conflicts) {
				t.Errorf("conflicts %q, not %q", got, c.conflicts)
			}
			for pattern, want := range c.want {
				found, _ := filepath.Glob(filepath.Join(p.b, pattern))
				if strings.HasSuffix(pattern, ".conflict-*") {
					found = slices.DeleteFunc(found, func(path string) bool { return strings.Contains(path, "conflict-here") })
				}
				if len(found) != 1 || read(t, "", found[0]) != want {
					t.Errorf("%s: %q is %q", pattern, found, read(t, "", strings.Join(found, "")))
				}
			}
		})
	}
}

// The name for the other copy may be taken: by something of one's own, by an earlier try, by another file
// whose name is too long to be told apart.
func TestConflictNamesThatAreTaken(t *testing.T) {
	long := strings.Repeat("l", 250)
	p := newPair(t, map[string]string{"f": "0", long + "1": "0", long + "2": "0", "k1": "", "k2": "", "k3": ""})
	write(t, p.a, map[string]string{"f": "there", long + "1": "there1", long + "2": "there2"})
	next := push(t, p.Repo, p.a, p.wasA)
	write(t, p.b, map[string]string{"f": "here", long + "1": "here1", long + "2": "here2", workspace.ConflictName("f", next.Version, 0): "mine"})
	for range 2 { // the second time as if the first had failed at its end
		res := pull(t, p.Repo, p.b, p.wasB, workspace.PullOptions{})
		if len(res.Conflicts) != 3 {
			t.Errorf("conflicts %q", res.Conflicts)
		}
	}
	if got := read(t, p.b, workspace.ConflictName("f", next.Version, 0)); got != "mine" {
		t.Errorf("the file of that name is %q", got)
	}
	var texts []string
	for path := range tree(t, p.b) {
		if strings.Contains(path, ".conflict-") {
			texts = append(texts, read(t, p.b, path))
		}
	}
	slices.Sort(texts)
	if want := []string{"mine", "there", "there1", "there2"}; !slices.Equal(texts, want) {
		t.Errorf("copies %q", texts)
	}
}

// What is changed here while a pull is under way is neither overwritten nor deleted.
func TestChangeDuringAPullIsKept(t *testing.T) {
	testkit.Proves(t, "S15")
	for name, c := range map[string]struct {
		there, here func(t *testing.T, dir string)
		want        map[string]string
	}{
		"overwritten": {
			func(t *testing.T, dir string) { write(t, dir, map[string]string{"f": "there"}) },
			func(t *testing.T, dir string) { write(t, dir, map[string]string{"f": "just now"}) },
			map[string]string{"f": "just now"},
		},
		"deleted": {
			func(t *testing.T, dir string) { remove(t, dir, "f"); write(t, dir, map[string]string{"g": "1"}) },
			func(t *testing.T, dir string) { write(t, dir, map[string]string{"f": "just now"}) },
			map[string]string{"f": "just now"},
		},
		"new": {
			func(t *testing.T, dir string) { write(t, dir, map[string]string{"n": "there"}) },
			func(t *testing.T, dir string) { write(t, dir, map[string]string{"n": "just now"}) },
			map[string]string{"n": "just now"},
		},
		"new, and the same": {
			func(t *testing.T, dir string) { write(t, dir, map[string]string{"n": "alike"}) },
			func(t *testing.T, dir string) { write(t, dir, map[string]string{"n": "alike"}) },
			map[string]string{"n": "alike"},
		},
		"gone": {
			func(t *testing.T, dir string) { write(t, dir, map[string]string{"f": "there"}) },
			func(t *testing.T, dir string) { remove(t, dir, "f") },
			map[string]string{"f": "there"},
		},
		"a link": {
			func(t *testing.T, dir string) {
				remove(t, dir, "f")
				must(t, os.Symlink("k1", filepath.Join(dir, "f")))
			},
			func(t *testing.T, dir string) { write(t, dir, map[string]string{"f": "just now"}) },
			map[string]string{"f": "just now"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, map[string]string{"f": "0", "k1": "1", "k2": "2", "k3": "3", "k4": "4"})
			c.there(t, p.a)
			write(t, p.a, map[string]string{"k4": "to be read"})
			push(t, p.Repo, p.a, p.wasA)
			var once sync.Once
			done := false
			change := func() { done = true; c.here(t, p.b) }
			workspace.SetStep(p.Repo, func(string) { once.Do(change) })
			m := p.Store.(*memory)
			m.hook = func(_, key string) error {
				if strings.HasPrefix(key, "packs/") {
					once.Do(change)
				}
				return nil
			}
			pull(t, p.Repo, p.b, p.wasB, workspace.PullOptions{AllowMassDelete: true})
			if !done {
				t.Fatal("nothing was changed meanwhile")
			}
			for path, want := range c.want {
				if got := read(t, p.b, path); got != want {
					t.Errorf("%s is %q", path, got)
				}
			}
			if name == "new, and the same" {
				if copies, _ := filepath.Glob(filepath.Join(p.b, "*.conflict-*")); len(copies) > 0 {
					t.Errorf("kept twice: %q", copies)
				}
			}
		})
	}
}

// A store that was set back, or whose history went another way, deletes nothing here.
func TestHistoryThatWentAnotherWayDeletesNothing(t *testing.T) {
	testkit.Proves(t, "S3")
	p := newPair(t, map[string]string{"f": "0", "g": "1"})
	m := p.Store.(*memory)
	backup := m.clone()
	write(t, p.b, map[string]string{"made later": "2"})
	later := push(t, p.Repo, p.b, p.wasB)
	m.data = backup
	pull(t, p.Repo, p.b, later.Index, workspace.PullOptions{})
	if read(t, p.b, "made later") != "2" {
		t.Error("a file was deleted because the store was set back")
	}
	write(t, p.a, map[string]string{"f": "another way"})
	push(t, p.Repo, p.a, p.wasA)
	write(t, p.a, map[string]string{"f": "further on"})
	pushAny(t, p.Repo, p.a)
	pull(t, p.Repo, p.b, later.Index, workspace.PullOptions{})
	if read(t, p.b, "made later") != "2" {
		t.Error("a file was deleted because the history went another way")
	}
	if _, err := p.Push(t.Context(), open(t, p.b), later.Index, workspace.PushOptions{}); !errors.Is(err, workspace.ErrMoved) {
		t.Errorf("%v", err)
	}
}
