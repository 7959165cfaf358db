// Package claudetest installs the real Claude Code CLI for tests.
//
// [Dir] installs the CLI's version that 'berth template install' installs, once for all test processes, and
// keeps it in bin/tests. [DirOf] installs another one of [Versions]. [Env] returns environment variables that connect
// the CLI to a fake model service.
package claudetest

import (
	"testing"

	"github.com/berthdev/berth/internal/template/program"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/programtest"
)

// Versions returns the versions of the CLI for tests: one that counts tokens per process and one that counts them per
// session (see package claudecli), and in make torture also the newest on npm.
func Versions(t testing.TB) []string {
	t.Helper()
	return []string{"2.1.197", program.ClaudeCode.Tested(), "latest"}[:testkit.Size(t, "claude.versions")]
}

// Dir returns a directory with bin/claude, which templates can mount.
func Dir(t testing.TB) string {
	t.Helper()
	return DirOf(t, program.ClaudeCode.Tested())
}

// DirOf is like [Dir], for the given version.
func DirOf(t testing.TB, version string) string {
	t.Helper()
	return programtest.Dir(t, program.ClaudeCode.Name, version)
}

// Env returns environment variables that point the CLI at a model service. The key is a placeholder, and the CLI
// retries a request at most twice.
func Env(url string) []string {
	return []string{"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=dummy", "CLAUDE_CODE_MAX_RETRIES=2"}
}
