package claudetest

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/template/program"
)

func TestCLIIsThePinnedOne(t *testing.T) {
	cmd := exec.Command(filepath.Join(Dir(t), "bin", "claude"), "--version")
	cmd.Env = append(cmd.Environ(), append(Env("http://127.0.0.1:1"), "DISABLE_AUTOUPDATER=1", "CLAUDE_CONFIG_DIR="+t.TempDir())...)
	out, err := cmd.CombinedOutput()
	if want := program.ClaudeCode.Tested(); err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("%s, %v; want %s", out, err, want)
	}
}
