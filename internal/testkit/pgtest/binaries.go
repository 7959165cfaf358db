package pgtest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// ErrMissing says that the machine has no PostgreSQL and how to get it.
var ErrMissing = errors.New("PostgreSQL is not installed: run scripts/setup test, or: sudo apt-get install -y postgresql")

// debianBins is where Debian keeps the server's programs; none of them is on the PATH there.
const debianBins = "/usr/lib/postgresql/*/bin"

var programs = []string{"initdb", "postgres", "pg_ctl"}

// findBinaries returns the folder of the newest PostgreSQL that matches pattern, or else the one on
// the PATH.
func findBinaries(pattern string, lookPath func(string) (string, error)) (string, error) {
	dirs, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	best, newest := "", -1
	for _, dir := range dirs {
		major, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err == nil && major > newest && complete(dir) {
			best, newest = dir, major
		}
	}
	if best != "" {
		return best, nil
	}
	return binariesOnPath(lookPath)
}

func binariesOnPath(lookPath func(string) (string, error)) (string, error) {
	path, err := lookPath("initdb")
	if errors.Is(err, exec.ErrNotFound) {
		return "", ErrMissing
	}
	if err != nil {
		return "", err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	if dir := filepath.Dir(path); complete(dir) {
		return dir, nil
	}
	return "", ErrMissing
}

func complete(dir string) bool {
	for _, name := range programs {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}
