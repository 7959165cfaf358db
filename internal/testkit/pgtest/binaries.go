package pgtest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// ErrMissing is the error on a machine without PostgreSQL.
var ErrMissing = errors.New("PostgreSQL is not installed: run scripts/setup test, or: sudo apt-get install -y postgresql")

// debianBins matches the folders of the server's programs on Debian, where they are not on the PATH.
const debianBins = "/usr/lib/postgresql/*/bin"

var programs = []string{"initdb", "postgres", "pg_ctl"}

// findBinaries returns the folder of the newest PostgreSQL that matches pattern, or of the one on the PATH if none
// matches.
func findBinaries(pattern string, lookPath func(string) (string, error)) (string, error) {
	dirs, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	best, newest := "", -1
	for _, dir := range dirs {
		major, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err == nil && major > newest && hasPrograms(dir) {
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
	if dir := filepath.Dir(path); hasPrograms(dir) {
		return dir, nil
	}
	return "", ErrMissing
}

func hasPrograms(dir string) bool {
	for _, name := range programs {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}
