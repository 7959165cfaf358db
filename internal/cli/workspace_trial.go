package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"time"
)

// trial is a note in the user's cache that a store did conditional writes when it was tried. To try takes
// four requests, which is as much as a sync.
type trial string

// trialLasts is how long a store is believed to be what it was.
const trialLasts = 24 * time.Hour

// triedBefore is empty where nothing can be noted.
func (f *frame) triedBefore(store string) trial {
	cache := f.env("XDG_CACHE_HOME")
	if home := f.env("HOME"); cache == "" && home != "" {
		cache = filepath.Join(home, ".cache")
	}
	if !filepath.IsAbs(cache) {
		return ""
	}
	sum := sha256.Sum256([]byte(store))
	return trial(filepath.Join(cache, "berth", "conditional-"+hex.EncodeToString(sum[:12])))
}

func (t trial) holds() bool {
	info, err := os.Stat(string(t))
	return err == nil && time.Since(info.ModTime()) < trialLasts
}

// keep notes it; where that is not possible, the store is tried again.
func (t trial) keep() {
	if t == "" || os.MkdirAll(filepath.Dir(string(t)), 0o700) != nil {
		return
	}
	_ = os.Remove(string(t))
	_ = os.WriteFile(string(t), nil, 0o600)
}
