package cli

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/berthdev/berth/api"
)

// apart refuses a store that lies in the directory, and a directory that lies in the store.
func apart(store, dir string) error {
	place, ok := storePath(store)
	if !ok || store == "" { // none is named, which is told elsewhere
		return nil
	}
	place, dir = resolved(place), resolved(dir)
	const hint = "Keep the store beside the directory."
	switch {
	case inside(place, dir):
		return refusal(api.CodeInvalidRequest, hint, "the store %s lies in %s, and would be saved into itself", place, dir)
	case inside(dir, place):
		return refusal(api.CodeInvalidRequest, hint, "the directory %s lies in the store %s", dir, place)
	}
	return nil
}

// mustBeThere refuses to look for versions in a directory that is not there, which to open would make.
func mustBeThere(store string) error {
	place, ok := storePath(store)
	if !ok {
		return nil
	}
	if _, err := os.Stat(place); errors.Is(err, os.ErrNotExist) {
		return refusal(api.CodeBlobUnreachable, "Check --store; 'berth workspace push' makes a new store.", "there is no directory %s, and so nothing is saved in it", place)
	}
	return nil
}

// storePath is the directory that an address means, if it means one.
func storePath(address string) (string, bool) {
	if u, err := url.Parse(address); err == nil && u.Scheme == "file" {
		return u.Path, true
	}
	return address, !strings.Contains(address, "://")
}

// resolved is a path without links, as far as it is there.
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

func inside(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
