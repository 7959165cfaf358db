package program

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// lockFile is the part of a lock file that npm needs.
type lockFile struct {
	LockfileVersion int                       `json:"lockfileVersion"`
	Requires        bool                      `json:"requires"`
	Packages        map[string]map[string]any `json:"packages"`
}

// TestLocks compares the lock files with the programs. With BERTH_UPDATE_LOCKS=1 it asks npm to write them.
func TestLocks(t *testing.T) {
	for _, p := range All {
		if p.Vendor != "" {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			path := filepath.Join("locks", p.Name+".json")
			if os.Getenv("BERTH_UPDATE_LOCKS") != "" {
				writeLock(t, p, path)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var l lockFile
			if err := json.Unmarshal(text, &l); err != nil {
				t.Fatal(err)
			}
			wanted, _ := l.Packages[""]["dependencies"].(map[string]any)
			for _, pack := range p.Packages {
				name := strings.ReplaceAll(pack.Name, "{arch}", "x64") // lock files are made on such a machine
				if wanted[name] != pack.Version {
					t.Errorf("the lock has %s %v, the program %s", name, wanted[name], pack.Version)
				}
			}
			for name, about := range l.Packages {
				if sum, _ := about["integrity"].(string); name != "" && !strings.HasPrefix(sum, "sha512-") {
					t.Errorf("%s has no checksum", name)
				}
			}
			if strings.Contains(string(text), "://") {
				t.Error("the lock names a host")
			}
		})
	}
}

// writeLock has npm resolve the packages of a program, and keeps the fields that are needed to install the same again.
func writeLock(t *testing.T, p Program, path string) {
	t.Helper()
	o := Options{Program: p, Version: p.Tested()}
	dir := t.TempDir()
	if err := o.describe(dir); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(dir, "package-lock.json"))
	cmd := exec.CommandContext(context.Background(), "npm", "install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	var l lockFile
	if err := json.Unmarshal(text, &l); err != nil {
		t.Fatal(err)
	}
	for _, about := range l.Packages {
		for _, key := range []string{"resolved", "license", "funding", "engines", "bin", "peerDependencies", "peerDependenciesMeta", "hasInstallScript", "deprecated"} {
			delete(about, key)
		}
	}
	text, _ = json.MarshalIndent(l, "", " ")
	if err := os.WriteFile(path, append(text, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
}
