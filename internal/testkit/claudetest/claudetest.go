// Package claudetest installs the real Claude Code CLI for tests.
//
// [Dir] installs the CLI's version that 'berth template install' installs, once for all test processes, and
// keeps it in bin/tests. [DirOf] installs another one of [Versions]. [Env] returns environment variables that connect
// the CLI to a fake model service.
package claudetest

import (
	"context"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/template/program"
	"github.com/berthdev/berth/internal/testkit"
)

// Versions returns the versions of the CLI for tests: one that counts tokens per process and one that counts them per
// session (see package claudecli), and in make torture also the newest on npm.
func Versions(t testing.TB) []string {
	t.Helper()
	return []string{"2.1.197", program.ClaudeCode.Version, "latest"}[:testkit.Size(t, "claude.versions")]
}

// Dir returns a directory with bin/claude, which templates can mount.
func Dir(t testing.TB) string {
	t.Helper()
	return DirOf(t, program.ClaudeCode.Version)
}

// DirOf is like [Dir], for the given version.
func DirOf(t testing.TB, version string) string {
	t.Helper()
	dir, err := ensure(version)
	if err != nil {
		t.Fatalf("claudetest: %v", err)
	}
	return dir
}

// Ensure is like [Dir], for code outside of tests.
func Ensure() (string, error) { return ensure(program.ClaudeCode.Version) }

func ensure(version string) (string, error) {
	return testkit.Kept("claude-"+version, func(dir string) error { return install(dir, version) })
}

// pauses are the pauses between attempts: a registry may ask clients to try again later.
var pauses = []time.Duration{5 * time.Second, 20 * time.Second, 60 * time.Second}

func install(dir, version string) error {
	for n := 0; ; n++ {
		_, err := program.Install(context.Background(), program.Options{Program: program.ClaudeCode, Dir: dir, Version: version})
		if err == nil || n == len(pauses) {
			return err
		}
		<-time.After(pauses[n])
	}
}

// Env returns environment variables that point the CLI at a model service. The key is a placeholder, and the CLI
// retries a request at most twice.
func Env(url string) []string {
	return []string{"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=dummy", "CLAUDE_CODE_MAX_RETRIES=2"}
}
