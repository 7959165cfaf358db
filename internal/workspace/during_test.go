package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// A file that is changed between the moment it was opened and the moment it is read is saved as it was at
// some time, or left out; the next push has it as it is.
func TestChangeWhileAFileIsRead(t *testing.T) {
	testkit.Proves(t, "S8")
	const large = 5 << 20
	for name, c := range map[string]struct {
		size   int
		change func(t *testing.T, path string)
		want   func(got string) bool
	}{
		"shrinks":        {5000, shrink(10), only(10)},
		"shrinks, large": {large, shrink(large - 4096), only(large - 4096)},
		"is emptied":     {5000, shrink(0), only(0)},
		"grows": {5000, func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte(strings.Repeat("x", 6000)), 0o644)) },
			func(got string) bool { return only(5000)(got) || only(6000)(got) }},
		"is written anew": {5000, func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte(strings.Repeat("y", 5000)), 0o644)) },
			func(got string) bool { return got == strings.Repeat("y", 5000) }},
		"is replaced": {5000, func(t *testing.T, path string) {
			must(t, os.WriteFile(path+".new", []byte("new"), 0o644), os.Rename(path+".new", path))
		}, func(got string) bool { return got == "new" || only(5000)(got) }},
		"goes away": {5000, func(t *testing.T, path string) { must(t, os.Remove(path)) },
			func(got string) bool { return only(5000)(got) || strings.Contains(got, "no such file") }},
		"becomes a folder": {5000, func(t *testing.T, path string) { must(t, os.Remove(path), os.Mkdir(path, 0o755)) },
			func(got string) bool { return only(5000)(got) || strings.Contains(got, "no such file") }},
		"becomes a link": {5000, func(t *testing.T, path string) { must(t, os.Remove(path), os.Symlink("/etc/passwd", path)) },
			func(got string) bool { return only(5000)(got) || strings.Contains(got, "no such file") }},
		"becomes a pipe": {5000, func(t *testing.T, path string) { must(t, os.Remove(path), unix.Mkfifo(path, 0o644)) },
			func(got string) bool { return only(5000)(got) || strings.Contains(got, "no such file") }},
	} {
		for layout, in := range map[string]workspace.Layout{"packed": workspace.Packed, "plain": workspace.Plain} {
			t.Run(fmt.Sprintf("%s/%s", name, layout), func(t *testing.T) {
				r, a, b := &workspace.Repo{Store: newMemory(), Layout: in}, t.TempDir(), t.TempDir()
				write(t, a, map[string]string{"f": strings.Repeat("x", c.size)})
				first := true
				workspace.SetStep(r, func(string) {
					if first {
						first = false
						c.change(t, filepath.Join(a, "f"))
					}
				})
				res := push(t, r, a, nil)
				workspace.SetStep(r, nil)
				pull(t, r, b, nil, workspace.PullOptions{})
				if got := read(t, b, "f"); !c.want(got) {
					t.Errorf("saved as %d bytes: %.60q", len(got), got)
				}
				if v, err := r.Verify(t.Context()); err != nil || len(v.Problems) > 0 {
					t.Errorf("%+v, %v", v, err)
				}
				push(t, r, a, res.Index)
				_, err := r.Restore(t.Context(), open(t, b), nil, "", workspace.PullOptions{})
				must(t, err)
				if name != "becomes a pipe" {
					same(t, a, b)
				}
			})
		}
	}
}

func shrink(to int64) func(t *testing.T, path string) {
	return func(t *testing.T, path string) { must(t, os.Truncate(path, to)) }
}

// only reports whether a text is so many of the letter that was written.
func only(n int) func(got string) bool {
	return func(got string) bool { return got == strings.Repeat("x", n) }
}
