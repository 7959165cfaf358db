package pid1

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/guest/wire"
)

// rootAt is a world whose root is a plain directory.
func rootAt(t *testing.T, c wire.Config) (*world, string) {
	t.Helper()
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return &world{config: &c, root: fd}, dir
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func text(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestHomesAreMade(t *testing.T) {
	w, dir := rootAt(t, wire.Config{Workdir: "/project/deep"})
	if err := os.MkdirAll(filepath.Join(dir, "home/agent"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.homes(); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"project/deep", "home/agent"} {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(dir, path), &st); err != nil || st.Uid != agentID || st.Gid != agentID || st.Mode != unix.S_IFDIR|0o755 {
			t.Errorf("%s: %+v, %v", path, st, err)
		}
	}
}

func TestHomesFollowNoLink(t *testing.T) {
	outside := t.TempDir()
	for _, link := range []string{"workspace", "home"} {
		w, dir := rootAt(t, wire.Config{})
		if err := os.Symlink(outside, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
		if err := w.homes(); err != nil {
			t.Errorf("%s is a link: %v", link, err)
		}
		if to, err := os.Readlink(filepath.Join(dir, link+".replaced-1")); err != nil || to != outside {
			t.Errorf("the link at %s was not moved aside: %q, %v", link, to, err)
		}
		if info, err := os.Lstat(filepath.Join(dir, link)); err != nil || !info.IsDir() {
			t.Errorf("%s: %v, %v", link, info, err)
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("a link was followed: %v, %v", entries, err)
	}
}

func TestUsersAreAdded(t *testing.T) {
	const agent = "agent:x:1000:1000:agent:/home/agent:/bin/sh\n"
	for name, tt := range map[string]struct{ before, after string }{
		"empty":           {"", agent},
		"others":          {"root:x:0:0::/:/bin/sh\n", "root:x:0:0::/:/bin/sh\n" + agent},
		"no newline":      {"root:x:0:0::/:/bin/sh", "root:x:0:0::/:/bin/sh\n" + agent},
		"there already":   {"root:x:0:0::/:\nagent:x:7:7::/:\n", "root:x:0:0::/:\nagent:x:7:7::/:\n"},
		"there first":     {"agent:x:7:7::/:\n", "agent:x:7:7::/:\n"},
		"a name like his": {"subagent:x:7:7::/:\n", "subagent:x:7:7::/:\n" + agent},
	} {
		t.Run(name, func(t *testing.T) {
			w, dir := rootAt(t, wire.Config{})
			put(t, filepath.Join(dir, "etc/passwd"), tt.before)
			if err := w.etc(); err != nil {
				t.Fatal(err)
			}
			if got := text(t, filepath.Join(dir, "etc/passwd")); got != tt.after {
				t.Errorf("got %q", got)
			}
			if got := text(t, filepath.Join(dir, "etc/group")); got != "agent:x:1000:\n" {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestFilesAreWritten(t *testing.T) {
	w, dir := rootAt(t, wire.Config{Etc: []wire.EtcFile{
		{Path: "/etc/once", Mode: 0o644, Data: []byte("new")},
		{Path: "/etc/always", Mode: 0o600, Data: []byte("new"), Always: true},
		{Path: "/deep/down/file", Mode: 0o644, Data: []byte("new")},
		{Path: "/top", Mode: 0o644, Data: []byte("new")},
	}})
	put(t, filepath.Join(dir, "etc/once"), "old")
	put(t, filepath.Join(dir, "etc/always"), "old")
	if err := w.etc(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"etc/once": "old", "etc/always": "new", "deep/down/file": "new", "top": "new"} {
		if got := text(t, filepath.Join(dir, path)); got != want {
			t.Errorf("%s has %q", path, got)
		}
	}
}

func TestHomesKeepTheirMode(t *testing.T) {
	w, dir := rootAt(t, wire.Config{})
	if err := w.homes(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "home/agent"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := w.homes(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "home/agent")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
}

// Whatever was put in the place of a file, nothing outside is touched and the instance still starts.
func TestFilesFollowNoLink(t *testing.T) {
	outside := t.TempDir()
	target := filepath.Join(outside, "target")
	put(t, target, "untouched")
	etc := []wire.EtcFile{{Path: "/etc/hosts", Mode: 0o644, Data: []byte("new")}, {Path: "/etc/always", Mode: 0o644, Data: []byte("new"), Always: true}}
	for name, spoil := range map[string]func(dir string) error{
		"links": func(dir string) error {
			return errors.Join(os.Mkdir(dir+"/etc", 0o755), os.Symlink(target, dir+"/etc/passwd"), os.Symlink(target, dir+"/etc/group"),
				os.Symlink(target, dir+"/etc/hosts"), os.Symlink(target, dir+"/etc/always"))
		},
		"etc is a link": func(dir string) error { return os.Symlink(outside, dir+"/etc") },
		"etc is a file": func(dir string) error { return os.WriteFile(dir+"/etc", nil, 0o644) },
		"directories":   func(dir string) error { return os.MkdirAll(dir+"/etc/passwd", 0o755) },
		"a FIFO": func(dir string) error {
			return errors.Join(os.Mkdir(dir+"/etc", 0o755), unix.Mkfifo(dir+"/etc/passwd", 0o644))
		},
		"a huge file": func(dir string) error {
			return errors.Join(os.Mkdir(dir+"/etc", 0o755), os.WriteFile(dir+"/etc/passwd", nil, 0o644), os.Truncate(dir+"/etc/passwd", 1<<40))
		},
		"always is a directory": func(dir string) error { return os.MkdirAll(dir+"/etc/always", 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			w, dir := rootAt(t, wire.Config{Etc: etc})
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			if err := w.etc(); err != nil {
				t.Error(err)
			}
			if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 || text(t, target) != "untouched" {
				t.Errorf("outside was touched: %v, %v, %q", entries, err, text(t, target))
			}
		})
	}
}

func TestPathsStayBelow(t *testing.T) {
	w, _ := rootAt(t, wire.Config{})
	for _, path := range []string{"..", "a/../..", "a//b", ".", ""} {
		if fd, err := ensureDir(w.root, path, 0o755); err == nil {
			unix.Close(fd)
			t.Errorf("%q is a path", path)
		}
	}
}

func TestTreesNeedDescriptors(t *testing.T) {
	config := wire.Config{Trees: []wire.Tree{{Role: wire.RoleBase, Path: "/"}, {Role: wire.RoleUpper}, {Role: wire.RoleMount}}}
	w := &world{config: &config}
	if err := w.assign([]int{7, 8}); err != nil || len(w.trees) != 3 || w.trees[0] != -1 || w.trees[1] != 7 || w.trees[2] != 8 {
		t.Errorf("%v, %v", w.trees, err)
	}
	w = &world{config: &config}
	err := w.assign([]int{7})
	if !errors.Is(err, unix.EBADMSG) || !strings.HasPrefix(err.Error(), "match descriptors") {
		t.Errorf("one descriptor for two trees: %v", err)
	}
	if got := []string{w.layerName(0), w.layerName(1), w.layerName(2)}; strings.Join(got, " ") != "base fs mount2" {
		t.Errorf("the layers are called %v", got)
	}
}

func TestSizes(t *testing.T) {
	if got := orDefault(0, 5) + " " + orDefault(7, 5); got != "5 7" {
		t.Errorf("got %s", got)
	}
	single := &world{config: &wire.Config{Single: true}}
	several := &world{config: &wire.Config{}}
	if len(several.ptsOptions()) != len(single.ptsOptions())+1 {
		t.Error("a single user has no group for terminals")
	}
}
