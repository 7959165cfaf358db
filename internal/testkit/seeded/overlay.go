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

// patched returns the content of the changed files with the bug, by path. The content of a removed file is nil.
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

// writeOverlay writes the patched files and a JSON file for "go build -overlay" into dir. It returns the path of the
// JSON file.
func (b Bug) writeOverlay(root, dir string) (string, error) {
	files, err := b.patched(os.DirFS(root))
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for name, text := range files {
		original := filepath.Join(root, name)
		if text == nil {
			replace[original] = "" // the build then treats the file as missing
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
