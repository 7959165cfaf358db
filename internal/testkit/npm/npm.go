// Package npm installs npm packages with programs that tests need.
//
// [Install] installs an exact version of a package with its dependencies into a folder below bin/tests/npm,
// once for all test processes. If the folder locks has a lock file for this name and version, npm installs exactly
// the dependencies in the lock file; otherwise it installs the newest versions that fit. No install scripts are run.
package npm

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/testkit"
)

// Install installs a package and returns the folder that contains node_modules.
func Install(t testing.TB, name, version string) (dir string) {
	t.Helper()
	dir, err := Ensure(name, version)
	if err != nil {
		t.Fatalf("npm: %v", err)
	}
	return dir
}

// Ensure is like [Install], for code outside of tests.
func Ensure(name, version string) (dir string, err error) {
	return EnsureAll(Package{name, version})
}

// Package is a package with an exact version.
type Package struct{ Name, Version string }

// EnsureAll is like [Ensure] for several packages in one folder. The folder and the lock file have the first one's name.
func EnsureAll(packages ...Package) (dir string, err error) {
	for _, p := range packages {
		if !nameShape.MatchString(p.Name) || !versionShape.MatchString(p.Version) {
			return "", fmt.Errorf("%q is not a package, or %q not an exact version of one", p.Name, p.Version)
		}
	}
	return testkit.Kept("npm/"+packages[0].Name+"-"+packages[0].Version, func(dir string) error {
		return install(dir, packages...)
	})
}

var (
	nameShape    = regexp.MustCompile(`^(@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*$`)
	versionShape = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)
)

//go:embed locks
var locks embed.FS

// pauses are the pauses between attempts: a registry may ask clients to try again later.
var pauses = []time.Duration{2 * time.Second, 10 * time.Second, 30 * time.Second}

func install(dir string, packages ...Package) error {
	if _, err := exec.LookPath("npm"); err != nil {
		return fmt.Errorf("node and npm are not installed; scripts/setup test does that: %w", err)
	}
	args, err := describe(dir, packages)
	if err != nil {
		return err
	}
	args = append(args, "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
	for n := 0; ; n++ {
		cmd := exec.Command("npm", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err == nil {
			return nil
		}
		if err = fmt.Errorf("install %s@%s: %w\n%s", packages[0].Name, packages[0].Version, err, out); n == len(pauses) {
			return err
		}
		<-time.After(pauses[n])
	}
}

// describe writes package.json, and package-lock.json if there is a lock file. It returns the arguments for npm.
func describe(dir string, packages []Package) (args []string, err error) {
	wanted := map[string]string{}
	for _, p := range packages {
		wanted[p.Name] = p.Version
	}
	want, err := json.Marshal(map[string]any{"private": true, "dependencies": wanted})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), want, 0o600); err != nil {
		return nil, err
	}
	lock, err := locks.ReadFile("locks/" + strings.ReplaceAll(packages[0].Name, "/", "_") + "-" + packages[0].Version + ".json")
	if errors.Is(err, os.ErrNotExist) {
		return []string{"install", "--no-package-lock"}, nil
	}
	return []string{"ci"}, errors.Join(err, os.WriteFile(filepath.Join(dir, "package-lock.json"), lock, 0o600))
}
