// Package base makes and finds the root directories that sandboxes may be made of.
//
// A base named NAME is the directory bases/NAME of the data directory. [Build] makes one with
// debootstrap, [List] finds them, [Check] says whether a directory can serve as one. [Host] is the
// base that needs no directory: the host's own programs.
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

// Host is the base that is made of the host's /usr.
const Host = "host"

// Base is one base on this machine, and what it was made of if that is known.
type Base struct {
	Name    string    `json:"name"`
	Path    string    `json:"path"`
	Suite   string    `json:"suite,omitempty"`
	Mirror  string    `json:"mirror,omitempty"`
	Include []string  `json:"include,omitempty"`
	BuiltAt time.Time `json:"built_at"`
}

func root(dataDir string) string { return filepath.Join(dataDir, "bases") }

// Dir is where the base of that name is.
func Dir(dataDir, name string) string { return filepath.Join(root(dataDir), name) }

// note is the file that says what a base was made of. It is beside the base, so that sandboxes do not
// see it.
func note(dataDir, name string) string { return filepath.Join(root(dataDir), "."+name+".json") }

// CheckName says what is wrong with the name of a base, or nil.
func CheckName(name string) error {
	if name == Host {
		return errors.New("host is the name of the built-in base")
	}
	if err := config.CheckName(name); err != nil {
		return fmt.Errorf("%q %w", name, err)
	}
	return nil
}

// Check says why the directory cannot be the root of sandboxes, or nil.
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

// List finds the bases of a data directory, by name. None is no error.
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

// Describe is what is known of a base.
func Describe(dataDir, name string) Base {
	var b Base
	if text, err := os.ReadFile(note(dataDir, name)); err == nil {
		_ = json.Unmarshal(text, &b) // a spoiled note says nothing
	}
	b.Name, b.Path = name, Dir(dataDir, name)
	if info, err := os.Stat(b.Path); err == nil && b.BuiltAt.IsZero() {
		b.BuiltAt = info.ModTime()
	}
	return b
}
