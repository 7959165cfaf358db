// Package base builds and lists the root directories of sandboxes.
//
// A base named NAME is the directory bases/NAME of the data directory. [Build] makes one with debootstrap, [List] lists
// them, [Check] tests whether a directory can be a base. The base [Host] needs no directory: it uses the host's own
// programs.
package base

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/config"
)

// Host is the name of the base that uses the host's /usr.
const Host = "host"

// Base describes a base on this machine. Its sources are empty if they are not known.
type Base struct {
	Name    string    `json:"name"`
	Path    string    `json:"path"`
	Suite   string    `json:"suite,omitempty"`
	Mirror  string    `json:"mirror,omitempty"`
	Include []string  `json:"include,omitempty"`
	BuiltAt time.Time `json:"built_at"`
}

func root(dataDir string) string { return filepath.Join(dataDir, "bases") }

// Dir returns the directory of a base.
func Dir(dataDir, name string) string { return filepath.Join(root(dataDir), name) }

// notePath returns the path of the file that describes a base. The file is beside the base, so that sandboxes do not
// see it.
func notePath(dataDir, name string) string { return filepath.Join(root(dataDir), "."+name+".json") }

// CheckName returns an error if name is not a valid name of a base.
func CheckName(name string) error {
	if name == Host {
		return errors.New("host is the name of the built-in base")
	}
	if err := config.CheckName(name); err != nil {
		return fmt.Errorf("%q %w", name, err)
	}
	return nil
}

// Check returns the reason why dir cannot be the root directory of sandboxes, or nil if it can.
func Check(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("it does not exist")
	case err != nil:
		return err
	case !info.IsDir():
		return errors.New("it is not a directory")
	}
	for _, shell := range []string{"bin/sh", "usr/bin/sh"} {
		if _, err := os.Lstat(filepath.Join(dir, shell)); err == nil {
			return nil
		}
	}
	return errors.New("it holds no bin/sh, so it is no whole system")
}

// List returns the bases in a data directory by name.
func List(dataDir string) ([]Base, error) {
	entries, err := os.ReadDir(root(dataDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list bases: %w", err)
	}
	var found []Base
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && Check(Dir(dataDir, e.Name())) == nil {
			found = append(found, Describe(dataDir, e.Name()))
		}
	}
	return found, nil
}

// Describe returns the description of a base. If there is no description file, the time is that of the directory.
func Describe(dataDir, name string) Base {
	var b Base
	if text, err := os.ReadFile(notePath(dataDir, name)); err == nil {
		_ = json.Unmarshal(text, &b) // a damaged description is ignored
	}
	b.Name, b.Path = name, Dir(dataDir, name)
	if info, err := os.Stat(b.Path); err == nil && b.BuiltAt.IsZero() {
		b.BuiltAt = info.ModTime()
	}
	return b
}
