package seeded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// patched returns the files of the bug as they are with it: path to content, nil for a removed file.
func (b Bug) patched(root fs.FS) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, f := range b.diff {
		text, err := fs.ReadFile(root, f.path)
		switch {
		case f.create && err == nil:
			return nil, fmt.Errorf("%s: the patch creates it, but it exists", f.path)
		case f.create && errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		}
		after, err := f.apply(string(text))
		if err != nil {
			return nil, err
		}
		files[f.path] = []byte(after)
		if f.remove {
			files[f.path] = nil
		}
	}
	return files, nil
}

// writeOverlay puts the patched files and the overlay that "go build -overlay" takes into dir, and
// returns the overlay's path.
func (b Bug) writeOverlay(root, dir string) (string, error) {
	files, err := b.patched(os.DirFS(root))
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for name, text := range files {
		original := filepath.Join(root, name)
		if text == nil {
			replace[original] = "" // as if it did not exist
			continue
		}
		replace[original] = filepath.Join(dir, strconv.Itoa(len(replace))+filepath.Ext(name))
		if err := os.WriteFile(replace[original], text, 0o644); err != nil {
			return "", err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, overlay, 0o644)
}
