package workspace

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/berthdev/berth/api"
)

// CheckNotNested returns an error if the store is inside the directory, or the directory inside the store.
func CheckNotNested(store, dir string) error {
	place, ok := storePath(store)
	if !ok || store == "" { // an empty address is reported elsewhere
		return nil
	}
	place, dir = resolved(place), resolved(dir)
	const hint = "Keep the store beside the directory."
	switch {
	case isInside(place, dir):
		return refuse(api.CodeInvalidRequest, hint, "the store %s lies in %s, and would be saved into itself", place, dir)
	case isInside(dir, place):
		return refuse(api.CodeInvalidRequest, hint, "the directory %s lies in the store %s", dir, place)
	}
	return nil
}

// CheckStoreExists returns an error if the store's directory does not exist. Opening the store would create it.
func CheckStoreExists(store string) error {
	place, ok := storePath(store)
	if !ok {
		return nil
	}
	if _, err := os.Stat(place); errors.Is(err, os.ErrNotExist) {
		return refuse(api.CodeBlobUnreachable, "Check --store; 'berth workspace push' makes a new store.", "there is no directory %s, and so nothing is saved in it", place)
	}
	return nil
}

// storePath returns the directory of a store's address. It returns false if the store is not a directory.
func storePath(address string) (string, bool) {
	if u, err := url.Parse(address); err == nil && u.Scheme == "file" {
		return u.Path, true
	}
	return address, !strings.Contains(address, "://")
}

// resolved returns the absolute path with all symbolic links resolved. Folders that do not exist stay as they are.
func resolved(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if whole, err := filepath.EvalSymlinks(path); err == nil {
		return whole
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(resolved(parent), filepath.Base(path))
	}
	return path
}

// isInside reports whether a path is the directory dir or below it.
func isInside(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
