package program

import (
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// locks has a lock file of npm for each program, which names all its packages with their versions and checksums.
//
//go:embed locks
var locks embed.FS

// describe writes package.json, and package-lock.json if the version is the one of the lock file.
func (o *Options) describe(dir string) error {
	text, err := json.Marshal(map[string]any{"private": true, "dependencies": o.dependencies()})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), text, 0o644); err != nil { //nolint:gosec // nothing private
		return err
	}
	lock, err := locks.ReadFile("locks/" + o.Name + ".json")
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && o.Version != o.Tested():
		return nil
	case err != nil:
		return err
	}
	return os.WriteFile(filepath.Join(dir, "package-lock.json"), lock, 0o644) //nolint:gosec // nothing private
}

// dependencies returns the packages to install with their versions.
func (o *Options) dependencies() map[string]string {
	all := map[string]string{}
	for i, p := range o.Packages {
		version := p.Version
		if i == 0 {
			version = o.Version
		}
		all[p.NPM()] = version
	}
	return all
}

// main returns the name of the package that has the program's version.
func (o *Options) main() string { return o.Packages[0].NPM() }
