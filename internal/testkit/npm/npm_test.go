package npm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestInstalledOnce(t *testing.T) {
	dir := Install(t, "dynalite", "4.0.0")
	main := filepath.Join(dir, "node_modules", "dynalite", "package.json")
	before, err := os.Stat(main)
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(filepath.Join(Install(t, "dynalite", "4.0.0"), "node_modules", "dynalite", "package.json"))
	if err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("it was installed again: %v", err)
	}
}

// fakeNPM stands for npm: it notes what it was asked, and fails as often as a file has lines.
const fakeNPM = `#!/bin/sh
echo "$*" >>"$LOG"
[ "$(wc -l <"$LOG")" -gt "$FAILURES" ] || { echo "come back later"; exit 1; }
mkdir node_modules
`

func withFakeNPM(t *testing.T, failures string) (log string) {
	t.Helper()
	t.Chdir(t.TempDir())
	bin := t.TempDir()
	for path, text := range map[string]string{"go.mod": "module example.com/other\n", filepath.Join(bin, "npm"): fakeNPM} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	log = filepath.Join(bin, "log")
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("LOG", log)
	t.Setenv("FAILURES", failures)
	was := pauses
	pauses = []time.Duration{0, 0}
	t.Cleanup(func() { pauses = was })
	return log
}

func TestRegistryThatHesitates(t *testing.T) {
	log := withFakeNPM(t, "2")
	dir := Install(t, "@some/thing", "1.2.3")
	if !strings.HasSuffix(dir, "/bin/tests/npm/@some/thing-1.2.3") {
		t.Errorf("it is in %s", dir)
	}
	said, _ := os.ReadFile(log)
	if strings.Count(string(said), "install --no-package-lock --ignore-scripts") != 3 {
		t.Errorf("npm was asked %q", said)
	}
	want, _ := os.ReadFile(filepath.Join(dir, "package.json"))
	if string(want) != `{"dependencies":{"@some/thing":"1.2.3"},"private":true}` {
		t.Errorf("package.json is %s", want)
	}
}

func TestLockedVersions(t *testing.T) {
	log := withFakeNPM(t, "0")
	dir := Install(t, "dynalite", "4.0.0")
	said, _ := os.ReadFile(log)
	lock, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if !strings.HasPrefix(string(said), "ci ") || err != nil || !strings.Contains(string(lock), "integrity") {
		t.Errorf("npm was asked %q; %v", said, err)
	}
}

func TestRefusals(t *testing.T) {
	withFakeNPM(t, "9")
	for _, c := range [][2]string{{"../x", "1.2.3"}, {"x", "^1.2.3"}, {"x", "latest"}, {"", "1.2.3"}} {
		if _, err := Ensure(c[0], c[1]); err == nil || !strings.Contains(err.Error(), "exact version") {
			t.Errorf("%v: %v", c, err)
		}
	}
	if _, err := Ensure("thing", "1.2.3"); err == nil || !strings.Contains(err.Error(), "come back later") {
		t.Errorf("npm's words are missing: %v", err)
	}
	if err := install("/nowhere", Package{"thing", "1.2.3"}); err == nil {
		t.Error("installed nowhere")
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Ensure("thing", "1.2.3"); err == nil || !strings.Contains(err.Error(), "scripts/setup") {
		t.Errorf("without npm: %v", err)
	}
}
