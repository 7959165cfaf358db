package versions

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"time"
)

// probeCache is the path of a file in the user's cache. The file records that a store supports conditional writes.
// Testing a store takes four requests, as many as a sync.
type probeCache string

// probeValid is the time after which a store is tested again.
const probeValid = 24 * time.Hour

// probeCache returns the file of a store. It is empty if the user has no cache directory.
func (a *app) probeCache(store string) probeCache {
	cache := a.Getenv("XDG_CACHE_HOME")
	if home := a.Getenv("HOME"); cache == "" && home != "" {
		cache = filepath.Join(home, ".cache")
	}
	if !filepath.IsAbs(cache) {
		return ""
	}
	sum := sha256.Sum256([]byte(store))
	return probeCache(filepath.Join(cache, "berth", "conditional-"+hex.EncodeToString(sum[:12])))
}

func (t probeCache) fresh() bool {
	info, err := os.Stat(string(t))
	return err == nil && time.Since(info.ModTime()) < probeValid
}

// save records the result of the test. If that fails, the store is tested again the next time.
func (t probeCache) save() {
	if t == "" || os.MkdirAll(filepath.Dir(string(t)), 0o700) != nil {
		return
	}
	_ = os.Remove(string(t))
	_ = os.WriteFile(string(t), nil, 0o600)
}
