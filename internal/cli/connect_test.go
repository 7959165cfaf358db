package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writeKey(t *testing.T, dir, name, key string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestKeyIsFoundWhereItIsKept(t *testing.T) {
	f := newFakeServer(t)
	bare := newShell(t, f).without("BERTH_API_KEY")
	dir := t.TempDir()
	file := writeKey(t, dir, "other.key", testKey, 0o600)
	writeKey(t, filepath.Join(dir, "data"), "admin.key", testKey, 0o600)

	t.Run("environment", func(t *testing.T) { bare.with("BERTH_API_KEY", testKey).ok("ls", "-q") })
	t.Run("key file", func(t *testing.T) { bare.ok("ls", "-q", "--key-file", file) })
	t.Run("key file before the environment", func(t *testing.T) {
		bare.with("BERTH_API_KEY", "wrong").ok("ls", "-q", "--key-file", file)
	})
	t.Run("given data directory", func(t *testing.T) { bare.ok("ls", "-q", "--data-dir", filepath.Join(dir, "data")) })
	t.Run("data directory of the environment", func(t *testing.T) {
		bare.with("BERTH_DATA_DIR", filepath.Join(dir, "data")).ok("ls", "-q")
	})
	t.Run("default data directory", func(t *testing.T) {
		writeKey(t, filepath.Join(dir, "xdg", "berth"), "admin.key", testKey, 0o600)
		bare.with("XDG_DATA_HOME", filepath.Join(dir, "xdg")).ok("ls", "-q")
	})
}

func TestMissingKeySaysWhereItWasLookedFor(t *testing.T) {
	f := newFakeServer(t)
	s := newShell(t, f).without("BERTH_API_KEY")
	r := s.berth("ls", "--data-dir", "/nosuch")
	contains(t, "stderr", r.err, "no valid key was sent", "BERTH_API_KEY is not set and /nosuch/admin.key does not exist")
	r = s.with("BERTH_API_KEY", "wrong").berth("ls")
	if strings.Contains(r.err, "is not set") || !strings.Contains(r.err, "no valid key was sent") {
		t.Errorf("a wrong key: %s", r.err)
	}
}

func TestKeyFileThatCannotBeUsed(t *testing.T) {
	f := newFakeServer(t)
	s := newShell(t, f).without("BERTH_API_KEY")
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, make([]byte, 4096+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/nosuch/key": "no such file", t.TempDir(): "is not a file that holds a key", big: "is not a file that holds a key",
	} {
		r := s.berth("ls", "--key-file", path)
		if r.code != 125 || !strings.Contains(r.err, want) || !strings.Contains(r.err, "hint: ") {
			t.Errorf("%s: %+v, want %q", path, r, want)
		}
	}
}

func TestKeyFileOpenToOthersIsTold(t *testing.T) {
	f := newFakeServer(t)
	path := writeKey(t, t.TempDir(), "open.key", testKey, 0o644)
	s := newShell(t, f).without("BERTH_API_KEY")
	if r := s.berth("keys", "ls", "--key-file", path); r.code != 0 || !strings.Contains(r.err, "chmod 600 "+path) {
		t.Errorf("%+v", r)
	}
	if r := s.berth("ls", "--json", "--key-file", path); r.err != "" {
		t.Errorf("--json has words on stderr: %q", r.err)
	}
}

func TestKeyNeverAppears(t *testing.T) {
	s := newShell(t, nil).with("BERTH_API_KEY", "berth_hunter2_hunter2 with space", "BERTH_SERVER", "http://127.0.0.1:1")
	for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"config"}, {"config", "--json"}, {"doctor"}, {"serve", "--listen", "x"}} {
		if r := s.berth(args...); strings.Contains(r.out+r.err, "hunter2") {
			t.Errorf("%v shows the key:\n%s%s", args, r.out, r.err)
		}
	}
}
