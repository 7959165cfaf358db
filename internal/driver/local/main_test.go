package local_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	_ "github.com/berthdev/berth/internal/guest/pid1" // so that what the helper is made of is known to the test's cache
)

// helper is a program that can become an instance's first process. A test binary cannot: it may have cgo.
var helper string

func TestMain(m *testing.M) {
	os.Exit(runMain(m))
}

func runMain(m *testing.M) int {
	if helper = os.Getenv(helperEnv); helper != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "berth-local-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	build := exec.Command("go", "build", "-o", dir, "./testdata/helper", "./testdata/attack")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the helper: %v\n%s", err, out)
		return 1
	}
	helper = filepath.Join(dir, "helper")
	return m.Run()
}

// programs is the directory of the programs that tests run in instances.
func programs() string { return filepath.Dir(helper) }
