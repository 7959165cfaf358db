package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/template/program"
)

// stubNPM puts an npm into the path that brings a program, after doing something.
func stubNPM(t *testing.T, s *shell, do string) (data string) {
	t.Helper()
	bin := t.TempDir()
	script := `#!/bin/sh
version=$(sed 's/.*claude-code":"\([^"]*\)".*/\1/' package.json)
at=$PWD/node_modules/@anthropic-ai
` + do + `
mkdir -p "$at/claude-code" "$at/claude-code-linux-x64"
echo "{\"version\":\"$version\"}" >"$at/claude-code/package.json"
printf '#!/bin/sh\necho %s\n' "$version" >"$at/claude-code-linux-x64/claude"
chmod 755 "$at/claude-code-linux-x64/claude"
`
	if err := os.WriteFile(filepath.Join(bin, "npm"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	data = t.TempDir()
	s.env["BERTH_DATA_DIR"] = data
	return data
}

func TestTemplateInstall(t *testing.T) {
	s := newShell(t, nil)
	data := stubNPM(t, s, "")
	r := s.berth("template", "install", "claude_code")
	version := program.ClaudeCode.Tested()
	if r.code != 0 || r.err != "Fetching @anthropic-ai/claude-code "+version+"\nChecking Claude Code\n" {
		t.Errorf("%+v", r)
	}
	contains(t, "install", r.out, "Claude Code "+version+" (installed in ", data+"/programs/claude_code/bin/claude\n")
	contains(t, "again", s.ok("template", "install", "claude_code"), "(was there already; --force installs it anew)")
	got := decode[program.Result](t, s.ok("template", "install", "claude_code", "--version", "3.0.0", "--json"))
	if !got.Made || got.Version != "3.0.0" || got.Name != "claude_code" {
		t.Errorf("%+v", got)
	}
	contains(t, "completion", s.berth("__complete", "template", "install", "").out, "claude_code\tClaude Code")
	if got := s.berth("__complete", "template", "install", "claude_code", "").out; strings.Contains(got, "claude_code") {
		t.Errorf("completed twice: %s", got)
	}
}

func TestTemplateInstallSaysWhatIsMissing(t *testing.T) {
	s := newShell(t, nil)
	stubNPM(t, s, "echo 'npm error code ENOTFOUND' >&2; exit 1")
	if r := s.berth("template", "install", "claude_code"); r.code != 125 || !strings.Contains(r.err, "npm's registry cannot be reached") || !strings.Contains(r.err, "hint: Check the network") {
		t.Errorf("%+v", r)
	}
	t.Setenv("PATH", t.TempDir())
	if r := s.berth("template", "install", "claude_code"); r.code != 125 || !strings.Contains(r.err, "npm is not installed") || !strings.Contains(r.err, "hint: Install Node.js with npm") {
		t.Errorf("%+v", r)
	}
	if r := s.berth("template", "install", "demo"); r.code != 125 || !strings.Contains(r.err, "hint: These can be installed: claude_code, opencode, ") {
		t.Errorf("%+v", r)
	}
	if r := s.berth("template", "install", "claude_code", "--data-dir", "/dev/null/x"); r.code != 125 || !strings.Contains(r.err, "make directory for programs") {
		t.Errorf("%+v", r)
	}
	if r := s.berth("template", "install", "claude_code", "--listen", "nowhere"); r.code != 125 || !strings.Contains(r.err, "host:port") {
		t.Errorf("%+v", r)
	}
}
