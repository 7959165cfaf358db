package claudetest

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/template/program"
)

func TestCLIIsThePinnedOne(t *testing.T) {
	cmd := exec.Command(filepath.Join(Dir(t), "bin", "claude"), "--version")
	cmd.Env = append(cmd.Environ(), append(Env("http://127.0.0.1:1"), "DISABLE_AUTOUPDATER=1", "CLAUDE_CONFIG_DIR="+t.TempDir())...)
	out, err := cmd.CombinedOutput()
	if want := program.ClaudeCode.Version; err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("%s, %v; want %s", out, err, want)
	}
}

func TestInstallGivesUp(t *testing.T) {
	was := pauses
	t.Cleanup(func() { pauses = was })
	pauses = []time.Duration{time.Millisecond}
	t.Setenv("PATH", t.TempDir())
	if err := install(t.TempDir(), "2.1.197"); err == nil || errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "npm is not installed") {
		t.Error(err)
	}
}
