package testkit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// Kept returns a folder below bin/tests with content that is expensive to make. It calls fill with an empty folder
// once for all test processes, also concurrent ones, and keeps the folder if fill succeeds. The name may contain
// slashes.
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
