package program

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// npm is one that brings a program, after doing what the test asks for.
const npm = `#!/bin/sh
echo "$@" >>"$(dirname "$0")/calls"
version=$(sed 's/.*claude-code":"\([^"]*\)".*/\1/' package.json)
at=$PWD/node_modules/@anthropic-ai
DO
mkdir -p "$at/claude-code" "$at/claude-code-linux-x64"
echo "{\"version\":\"$version\"}" >"$at/claude-code/package.json"
printf '#!/bin/sh\necho "%s (Claude Code)"\n' "$version" >"$at/claude-code-linux-x64/claude"
chmod 640 "$at/claude-code-linux-x64/claude"
AFTER
`

// site is a machine with a stub of npm.
func site(t *testing.T, do, after string) (o Options, calls func() int) {
	t.Helper()
	bin := t.TempDir()
	script := strings.NewReplacer("DO", do, "AFTER", after).Replace(npm)
	if err := os.WriteFile(filepath.Join(bin, "npm"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	p, err := Find("claude_code")
	if err != nil {
		t.Fatal(err)
	}
	return Options{Program: p, Dir: Dir(filepath.Join(t.TempDir(), "data"), p.Name)}, func() int {
		text, _ := os.ReadFile(filepath.Join(bin, "calls"))
		return strings.Count(string(text), "\n")
	}
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestInstall(t *testing.T) {
	o, calls := site(t, "", "")
	var told []string
	o.Progress = func(what string, _ int64) { told = append(told, what) }
	if err := os.MkdirAll(filepath.Join(o.Dir, ".new-left"), 0o755); err != nil {
		t.Fatal(err)
	}
	first, err := Install(t.Context(), o)
	if err != nil || !first.Made || first.Version != o.Tested() || first.Path != filepath.Join(o.Dir, "bin", "claude") {
		t.Fatalf("%+v, %v", first, err)
	}
	if len(told) < 2 || !strings.HasPrefix(told[0], "Fetching @anthropic-ai/claude-code ") {
		t.Errorf("told was %q", told)
	}
	if got := names(t, o.Dir); got != ".lock 2.1.325 bin" {
		t.Errorf("left: %s", got)
	}
	again, err := Install(t.Context(), o)
	if err != nil || again.Made || calls() != 1 {
		t.Errorf("%+v, %v, %d calls", again, err, calls())
	}
	// Another version takes over under the same path. Those before stay for processes that use them, up to two.
	for _, o.Version = range []string{"7.0.0", "8.0.0", "9.9.9"} {
		other, err := Install(t.Context(), o)
		if err != nil || !other.Made || o.Installed(o.Dir) != o.Version || names(t, filepath.Join(o.Dir, "bin")) != "claude" {
			t.Errorf("%+v, %v, %s", other, err, names(t, filepath.Join(o.Dir, "bin")))
		}
	}
	if got := names(t, o.Dir); got != ".lock 7.0.0 8.0.0 9.9.9 bin" {
		t.Errorf("left: %s", got)
	}
	o.Force = true
	if forced, err := Install(t.Context(), o); err != nil || !forced.Made || calls() != 5 {
		t.Errorf("%+v, %v", forced, err)
	}
	if err := os.Remove(filepath.Join(o.Dir, "9.9.9", "claude")); err != nil || o.Installed(o.Dir) != "" {
		t.Errorf("a link to nothing is %q, %v", o.Installed(o.Dir), err)
	}
}

func TestInstallAtOnce(t *testing.T) {
	o, calls := site(t, "", "")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if r, err := Install(t.Context(), o); err != nil || r.Version != o.Tested() {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	all.Wait()
	if calls() != 1 {
		t.Errorf("npm was called %d times", calls())
	}
}

func TestInstallFails(t *testing.T) {
	for name, c := range map[string]struct {
		do, after, version string
		code               api.Code
		words              string
	}{
		"offline":        {"echo 'npm error code ENOTFOUND' >&2; exit 1", "", "", api.CodeServerUnreachable, "registry cannot be reached"},
		"no version":     {"echo 'npm error code ETARGET' >&2; exit 1", "", "", api.CodeUnknownVersion, "the registry has no @anthropic-ai/claude-code@"},
		"no space":       {"echo 'npm error code ENOSPC' >&2; exit 1", "", "", api.CodeDiskFull, "no space is left"},
		"another error":  {"yes npm error it broke | head -c 2000 >&2; echo npm error    at x.js >&2; exit 3", "", "", api.CodeUnsupported, "npm: exit status 3: it broke; it broke"},
		"nothing came":   {"exit 0", "", "", api.CodeUnsupported, "npm brought no package"},
		"no program":     {"", `rm -r "$at"/claude-code-*`, "", api.CodeUnsupported, "has no program for this machine"},
		"does not run":   {"", `printf '#!/bin/sh\necho oh\nexit 1\n' >"$at/claude-code-linux-x64/claude"`, "", api.CodeUnsupported, "does not run here: exit status 1: oh"},
		"an odd version": {"", "", "1;rm", api.CodeInvalidRequest, `"1;rm" is no version`},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := site(t, c.do, c.after)
			o.Version = c.version
			_, err := Install(t.Context(), o)
			if fault.CodeOf(err) != c.code || err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%v", err)
			}
			if o.Installed(o.Dir) != "" {
				t.Error("something was installed")
			}
		})
	}
	o, _ := site(t, "", "")
	t.Setenv("PATH", t.TempDir())
	if _, err := Install(t.Context(), o); err == nil || !strings.Contains(err.Error(), "npm is not installed") {
		t.Error(err)
	}
	o.Dir = "/dev/null/x"
	if _, err := Install(t.Context(), o); err == nil {
		t.Error("it was installed nowhere")
	}
}

// What fails leaves what is there.
func TestInstallThatFailsChangesNothing(t *testing.T) {
	o, _ := site(t, `[ "$version" != 2.0.0 ] || exit 1`, "")
	if _, err := Install(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	o.Version = "2.0.0"
	if _, err := Install(t.Context(), o); err == nil || o.Installed(o.Dir) != o.Tested() {
		t.Errorf("%v; there is %q", err, o.Installed(o.Dir))
	}
}

func TestInstallIsGivenUp(t *testing.T) {
	o, _ := site(t, "exec sleep 600", "")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := Install(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestProgressIsTold(t *testing.T) {
	seen := filepath.Join(t.TempDir(), "seen")
	o, _ := site(t, `mkdir -p x; echo 123456789 >x/y; while [ ! -e '`+seen+`' ]; do sleep 0.05; done`, "")
	o.Progress = func(_ string, bytes int64) {
		if bytes >= 10 {
			_ = os.WriteFile(seen, nil, 0o600)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := Install(ctx, o); err != nil {
		t.Error(err)
	}
}

func TestPrepare(t *testing.T) {
	data := t.TempDir()
	if err := Prepare(data); err != nil || names(t, filepath.Join(data, "programs")) != strings.Join(slices.Sorted(slices.Values(Names())), " ") {
		t.Errorf("%v: %s", err, names(t, filepath.Join(data, "programs")))
	}
	if err := Prepare("/dev/null"); err == nil {
		t.Error("places were made nowhere")
	}
	if _, err := Find("nosuch"); fault.CodeOf(err) != api.CodeUnknownTemplate {
		t.Error(err)
	}
}

// A program that npm does not have is copied from where its vendor's installer put it.
func TestVendoredProgram(t *testing.T) {
	home := t.TempDir()
	for _, version := range []string{"2026.09.01-aaaaaaa", "2026.10.02-bbbbbbb"} {
		dir := filepath.Join(home, "versions", version)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cursor-agent"), []byte("#!/bin/sh\ncat \"$(dirname \"$(readlink -f \"$0\")\")/name\"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "name"), []byte(version), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(home, ".local", "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(home, "versions", "2026.10.02-bbbbbbb", "cursor-agent"), filepath.Join(home, ".local", "bin", "cursor-agent")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", "/usr/bin:/bin")
	p, err := Find("cursor")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Program: p, Dir: Dir(t.TempDir(), p.Name)}
	t.Setenv("HOME", t.TempDir())
	if _, err := Install(t.Context(), o); err == nil || !strings.Contains(err.Error(), "Cursor CLI is not installed on this machine") {
		t.Errorf("without it: %v", err)
	}
	t.Setenv("HOME", home)
	for version, want := range map[string]string{"": "2026.10.02-bbbbbbb", "2026.09.01-aaaaaaa": "2026.09.01-aaaaaaa"} {
		o.Version = version
		got, err := Install(t.Context(), o)
		if err != nil || got.Version != want || o.Installed(o.Dir) != want {
			t.Fatalf("%+v, %v; want %s", got, err, want)
		}
		if out, err := exec.Command(got.Path).Output(); err != nil || string(out) != want {
			t.Errorf("it prints %q, %v", out, err)
		}
	}
	o.Version = "2020.01.01-none"
	if _, err := Install(t.Context(), o); fault.CodeOf(err) != api.CodeUnknownVersion {
		t.Error(err)
	}
}
