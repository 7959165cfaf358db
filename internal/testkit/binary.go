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

// Binary returns the path of Berth's own binary, static as in a release, for tests that run it or put
// it into a sandbox: a test's binary may be linked with C, which pid 1 of a sandbox must not be. It is
// built once for all test processes; one with a seeded bug is built beside the bug's overlay.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := buildBinary()
	if err != nil {
		t.Fatalf("build Berth: %v", err)
	}
	return path
}

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

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
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

// overlayDir returns the folder of the overlay in the flags of the go command, if there is one. The
// build takes the overlay from the same flags, so a seeded bug is in the binary too.
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
