// Package browsertest drives a real Chromium in tests.
//
// [Run] runs a script of a test in Node.js with playwright-core and Debian's Chromium, and reports every check of the
// script that failed. [Web] installs the development servers that the pages come from.
package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/testkit/npm"
)

// Web returns a directory whose node_modules has Vite, Next.js, React and ws.
func Web(t testing.TB) string {
	t.Helper()
	dir, err := npm.EnsureAll(npm.Package{Name: "vite", Version: "7.3.8"}, npm.Package{Name: "next", Version: "15.5.29"},
		npm.Package{Name: "react", Version: "19.1.10"}, npm.Package{Name: "react-dom", Version: "19.1.10"}, npm.Package{Name: "ws", Version: "8.23.0"})
	if err != nil {
		t.Fatalf("browsertest: %v", err)
	}
	return dir
}

// limit is the time for one script.
const limit = 4 * time.Minute

// Run runs a script, an ECMAScript module. Its argument is in the variable ARGUMENT as JSON, and PLAYWRIGHT and CHROMIUM have
// the paths of the module and the browser. Each line "FAIL …" that it prints is an error of the test; its last line must be
// "DONE".
func Run(t testing.TB, script string, argument any) {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("browsertest: Chromium is not installed; scripts/setup test does that: %v", err)
	}
	text, err := json.Marshal(argument)
	if err != nil {
		t.Fatal(err)
	}
	playwright := filepath.Join(npm.Install(t, "playwright-core", "1.65.1"), "node_modules", "playwright-core", "index.mjs")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", script)
	cmd.Env = append(cmd.Environ(), "ARGUMENT="+string(text), "PLAYWRIGHT="+playwright, "CHROMIUM="+chromium, "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, line := range lines {
		if what, failed := strings.CutPrefix(line, "FAIL "); failed {
			t.Error(what)
		}
	}
	if err != nil || lines[len(lines)-1] != "DONE" {
		err = fmt.Errorf("the script ended early: %w", err)
	}
	if err != nil || t.Failed() {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
