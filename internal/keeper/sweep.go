package keeper

import (
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// tempForm is the name of an index that is being written.
var tempForm = regexp.MustCompile(`^[0-9a-z-]+\.index\.tmp-[0-9]+$`)

// tempAge is how old such a file is at least whose writer is gone: writing one takes seconds.
const tempAge = time.Hour

// Sweep removes the indexes that servers were writing when they were killed. Call it when a server starts.
func (k *Keeper) Sweep() {
	entries, _ := os.ReadDir(k.Dir) // there is none before the first save
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !tempForm.MatchString(e.Name()) || time.Since(info.ModTime()) < tempAge {
			continue
		}
		if err := os.Remove(filepath.Join(k.Dir, e.Name())); err != nil {
			k.log().Warn("remove an unfinished index", "file", e.Name(), "error", err)
		}
	}
}
