package programtest

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/template/program"
)

func TestInstallGivesUp(t *testing.T) {
	was := pauses
	t.Cleanup(func() { pauses = was })
	pauses = []time.Duration{time.Millisecond}
	t.Setenv("PATH", t.TempDir())
	err := install(program.Options{Program: program.ClaudeCode, Dir: t.TempDir()})
	if err == nil || errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "npm is not installed") {
		t.Error(err)
	}
}
