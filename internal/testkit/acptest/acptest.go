// Package acptest installs real agents that speak the Agent Client Protocol, for tests.
//
// [Dir] installs an agent as 'berth template install' does, or else the packages of its profile, once for all test
// processes, and keeps it in bin/tests. [Env] returns the environment and [Files] the files that connect the agent to a
// fake model service.
package acptest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/acp/profile"
	"github.com/berthdev/berth/internal/template/program"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/npm"
	"github.com/berthdev/berth/internal/testkit/programtest"
)

// Dir returns a directory with the agent's programs in bin, which sandboxes can mount.
func Dir(t testing.TB, name string) string {
	t.Helper()
	p, ok := profile.Find(name)
	if !ok {
		t.Fatalf("acptest: there is no agent %q", name)
	}
	if slices.Contains(program.Names(), name) {
		return programtest.Dir(t, name, "")
	}
	dir, err := testkit.Kept("acp/"+name+"-"+p.Packages[0].Version, func(dir string) error { return install(dir, p) })
	if err != nil {
		t.Fatalf("acptest: %v", err)
	}
	return dir
}

func install(dir string, p profile.Profile) error {
	var packages []npm.Package
	for _, one := range p.Packages {
		packages = append(packages, npm.Package{Name: one.NPM(), Version: one.Version})
	}
	from, err := npm.EnsureAll(packages...)
	if err != nil {
		return err
	}
	bin := filepath.Join(dir, "bin")
	if err := errors.Join(os.Mkdir(bin, 0o755), linkTree(filepath.Join(from, "node_modules"), filepath.Join(dir, "node_modules"))); err != nil {
		return err
	}
	for name, pattern := range p.Programs {
		if err := link(dir, name, pattern); err != nil {
			return err
		}
	}
	if !p.Node {
		return nil
	}
	node, err := npm.Ensure(program.Node.NPM(), program.Node.Version)
	if err != nil {
		return err
	}
	return os.Link(filepath.Join(node, "node_modules", program.Node.NPM(), "bin", "node"), filepath.Join(bin, "node"))
}

// link makes a program executable under its name.
func link(dir, name, pattern string) error {
	found, _ := filepath.Glob(filepath.Join(dir, "node_modules", pattern))
	if len(found) == 0 {
		return fmt.Errorf("there is no %s", pattern)
	}
	if strings.HasSuffix(found[0], ".br") {
		return unpack(found[0], filepath.Join(dir, "bin", name))
	}
	below, err := filepath.Rel(filepath.Join(dir, "bin"), found[0])
	if err != nil {
		return err
	}
	return errors.Join(os.Chmod(found[0], 0o755), os.Symlink(below, filepath.Join(dir, "bin", name)))
}

// unpack writes the program that a file contains, compressed with Brotli. Node can read that.
func unpack(from, to string) error {
	const script = `const fs = require("fs"), zlib = require("zlib"), [, from, to] = process.argv;
fs.writeFileSync(to, zlib.brotliDecompressSync(fs.readFileSync(from)), {mode: 0o755});`
	if out, err := exec.Command("node", "-e", script, from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("unpack %s: %w\n%s", from, err, out)
	}
	return nil
}

// linkTree copies a tree by hard links.
func linkTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, below)
		switch {
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			text, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(text, target)
		}
		return os.Link(path, target)
	})
}
