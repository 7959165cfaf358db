// Package claudetest gives tests the real Claude Code CLI, of the version that Berth installs.
//
// [Dir] installs it as 'berth template install' does, with npm, once for all test processes; it is kept in
// bin/tests. [Env] is what it needs to talk to a model's double.
package claudetest

import (
	"context"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/template/program"
	"github.com/berthdev/berth/internal/testkit"
)

// Dir is the directory that a template mounts: it has bin/claude.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := Ensure()
	if err != nil {
		t.Fatalf("claudetest: %v", err)
	}
	return dir
}

// Ensure is Dir outside of tests.
func Ensure() (string, error) {
	return testkit.Kept("claude-"+program.ClaudeCode.Version, install)
}

// pauses are between tries: a registry may ask to come back later.
var pauses = []time.Duration{5 * time.Second, 20 * time.Second, 60 * time.Second}

func install(dir string) error {
	for n := 0; ; n++ {
		_, err := program.Install(context.Background(), program.Options{Program: program.ClaudeCode, Dir: dir})
		if err == nil || n == len(pauses) {
			return err
		}
		<-time.After(pauses[n])
	}
}

// Env points the CLI at a model's service, which needs no key worth keeping. It tries again only a few times.
func Env(url string) []string {
	return []string{"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=dummy", "CLAUDE_CODE_MAX_RETRIES=2"}
}
