package testkit

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Binary returns the path of a Berth program, linked statically as in a release, for tests that run it or put
// it into a sandbox. A test program cannot be pid 1 of a sandbox, because it may be linked with C.
// Binary builds once for all test processes. A program with a seeded bug is built beside the bug's overlay.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := buildBinary()
	if err != nil {
		t.Fatalf("build Berth: %v", err)
	}
	return path
}

// BinaryPath is like [Binary], for code without a testing.TB, such as TestMain and examples.
func BinaryPath() (string, error) { return buildBinary() }

var buildBinary = sync.OnceValues(func() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	dir := cmp.Or(overlayDir(os.Getenv("GOFLAGS")), filepath.Join(root, "bin", "tests", "berth"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(dir, ".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	path := filepath.Join(dir, "berth")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", path, "./cmd/berth")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// nestedModule is the beginning of the go.mod of a module inside Berth's module, such as bench.
const nestedModule = "module github.com/berthdev/berth/"

// moduleRoot returns the root folder of Berth's module. It skips the go.mod of a nested module.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		mod, missing := os.ReadFile(filepath.Join(dir, "go.mod"))
		if missing == nil && !strings.HasPrefix(string(mod), nestedModule) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			err = errors.New("no go.mod above the working directory")
		}
		dir = parent
	}
	return "", err
}

// overlayDir returns the folder of the overlay that the go command's flags name, or "". The build takes the
// overlay from the same flags, so a seeded bug is in the built program too.
func overlayDir(goflags string) string {
	for _, flag := range strings.Fields(goflags) {
		if path, ok := strings.CutPrefix(flag, "-overlay="); ok {
			return filepath.Dir(path)
		}
	}
	return ""
}

func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}
