package testkit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// Kept returns a folder of bin/tests that holds what is dear to make. It is made once for all test
// processes, however many ask at once: fill is given an empty folder, and what it leaves there stays if it
// succeeds. The name may have slashes.
func Kept(name string, fill func(dir string) error) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "bin", "tests", filepath.FromSlash(name))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(root, "bin", "tests", "."+strings.ReplaceAll(name, "/", "_")+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	draft := dir + ".new" // a process that was killed may have left one
	if err := errors.Join(os.RemoveAll(draft), os.Mkdir(draft, 0o755)); err != nil {
		return "", err
	}
	if err := fill(draft); err != nil {
		return "", errors.Join(err, os.RemoveAll(draft))
	}
	return dir, os.Rename(draft, dir)
}
