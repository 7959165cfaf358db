package pgtest

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestServerAccount(t *testing.T) {
	users := func(known map[string]user.User) func(string) (*user.User, error) {
		return func(name string) (*user.User, error) {
			u, ok := known[name]
			if !ok {
				return nil, user.UnknownUserError(name)
			}
			return &u, nil
		}
	}
	both := map[string]user.User{"postgres": {Uid: "101", Gid: "104"}, "nobody": {Uid: "65534", Gid: "65534"}}
	for name, c := range map[string]struct {
		euid  int
		known map[string]user.User
		want  account
		fails string
	}{
		"ordinary user": {1000, both, nil, ""},
		"root":          {0, both, &syscall.Credential{Uid: 101, Gid: 104}, ""},
		"no postgres":   {0, map[string]user.User{"nobody": both["nobody"]}, &syscall.Credential{Uid: 65534, Gid: 65534}, ""},
		"nobody at all": {0, nil, nil, "adduser"},
		"bad uid":       {0, map[string]user.User{"postgres": {Uid: "x", Gid: "1"}}, nil, "uid"},
		"bad gid":       {0, map[string]user.User{"postgres": {Uid: "1", Gid: "x"}}, nil, "gid"},
	} {
		got, err := serverAccount(c.euid, users(c.known))
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v, want an error about %q", name, err, c.fails)
			}
			continue
		}
		if err != nil || (got == nil) != (c.want == nil) || got != nil && (got.Uid != c.want.Uid || got.Gid != c.want.Gid) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
}

func TestMakeDirAvoidsUnreachableBases(t *testing.T) {
	who := &syscall.Credential{Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid())}
	private, long := t.TempDir(), "/"+strings.Repeat("x", maxDir)
	if err := os.Chmod(private, 0o700); err != nil {
		t.Fatal(err)
	}
	dir, err := makeDir(who, long, private, filepath.Join(private, "none"), "/tmp")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(dir)
	if filepath.Dir(dir) != "/tmp" {
		t.Errorf("made %s, want it in /tmp", dir)
	}
	if _, err := makeDir(who, private); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("%v, want an error that names TMPDIR", err)
	}
	if _, err := makeDir(nil, filepath.Join(private, "none")); err == nil {
		t.Error("a missing base: want an error")
	}
}

func TestFindBinaries(t *testing.T) {
	root := t.TempDir()
	install(t, root, "9/bin", programs...)
	install(t, root, "15/bin", programs...)
	install(t, root, "17/bin", "initdb") // half installed
	install(t, root, "old/bin", programs...)
	pattern := filepath.Join(root, "*", "bin")
	got, err := findBinaries(pattern, nil)
	if want := filepath.Join(root, "15/bin"); got != want || err != nil {
		t.Errorf("%q, %v; want %q", got, err, want)
	}

	nothing := filepath.Join(root, "none", "*")
	path := func(file string, err error) func(string) (string, error) {
		return func(string) (string, error) { return file, err }
	}
	got, err = findBinaries(nothing, path(filepath.Join(root, "9/bin/initdb"), nil))
	if want := filepath.Join(root, "9/bin"); got != want || err != nil {
		t.Errorf("on the PATH: %q, %v; want %q", got, err, want)
	}
	for name, look := range map[string]func(string) (string, error){
		"absent":         path("", exec.ErrNotFound),
		"half installed": path(filepath.Join(root, "17/bin/initdb"), nil),
	} {
		if _, err := findBinaries(nothing, look); !errors.Is(err, ErrMissing) {
			t.Errorf("%s: %v, want ErrMissing", name, err)
		}
	}
	for name, look := range map[string]func(string) (string, error){
		"refused":  path("", os.ErrPermission),
		"vanished": path(filepath.Join(root, "vanished"), nil),
	} {
		if _, err := findBinaries(nothing, look); err == nil || errors.Is(err, ErrMissing) {
			t.Errorf("%s: %v, want the error itself", name, err)
		}
	}
	if _, err := findBinaries("[", nil); err == nil {
		t.Error("a bad pattern: want an error")
	}
}

func install(t *testing.T, root, dir string, names ...string) {
	t.Helper()
	dir = filepath.Join(root, dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
