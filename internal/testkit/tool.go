package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"
)

// Tool returns the path of a program that is built from the Go package pkg, at the version that
// tools/NAME.mod pins. The build takes minutes. The program is then kept in bin/tests; make test
// builds it before the tests start.
func Tool(t testing.TB, pkg string) string {
	t.Helper()
	path, err := BuildTool(pkg)
	if err != nil {
		t.Fatalf("build %s: %v", pkg, err)
	}
	return path
}

var toolMu sync.Mutex

// BuildTool is like [Tool], for code outside of tests.
func BuildTool(pkg string) (string, error) {
	toolMu.Lock()
	defer toolMu.Unlock()
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	name := path.Base(pkg)
	version, err := toolVersion(filepath.Join(root, "tools", name+".mod"), name)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "bin", "tests")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(dir, "."+name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	built := filepath.Join(dir, name+"-"+version)
	if _, err := os.Stat(built); err == nil {
		return built, nil
	}
	return built, buildTool(root, pkg, filepath.Join("tools", name+".mod"), built)
}

func toolVersion(file, name string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`(?m)/` + regexp.QuoteMeta(name) + ` (v\S+)`).FindSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("%s names no version of %s", file, name)
	}
	return string(found[1]), nil
}

// toolPauses are the pauses between attempts: a module proxy may ask clients to try again later.
var toolPauses = []time.Duration{5 * time.Second, 20 * time.Second, 60 * time.Second}

func buildTool(root, pkg, modules, to string) error {
	for n := 0; ; n++ {
		cmd := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-modfile="+modules, "-o", to+".new", pkg)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err == nil {
			return os.Rename(to+".new", to)
		}
		if err = errors.Join(err, errors.New(string(out))); n == len(toolPauses) {
			return err
		}
		<-time.After(toolPauses[n])
	}
}
