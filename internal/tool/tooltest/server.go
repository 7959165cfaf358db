package tooltest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Server builds a static MCP server with the file name server and returns its directory. Without an argument the server
// works; the arguments in testdata/server select faults.
func Server(t testing.TB) (dir string) {
	t.Helper()
	dir, err := buildServer()
	if err != nil {
		t.Fatalf("build an MCP server: %v", err)
	}
	return dir
}

var buildServer = sync.OnceValues(func() (string, error) {
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	root := filepath.Dir(strings.TrimSpace(string(mod)))
	dir := filepath.Join(root, "bin", "tests", "toolserver")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	built := filepath.Join(dir, fmt.Sprintf(".server-%d", os.Getpid()))
	cmd := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-o", built, "./internal/tool/testdata/server")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return dir, os.Rename(built, filepath.Join(dir, "server")) // other tests may be running the old file
})
