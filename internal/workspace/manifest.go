package workspace

import (
	"fmt"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/blob"
)

// FormatVersion is the version of the manifest's format. Readers take every 1.x.
const FormatVersion = "1.0"

// Manifest is one version of a tree.
type Manifest struct {
	ID       string // the version's id; empty in a manifest that Berth did not write
	Lineage  string // of which history this is a version
	Parent   string // the version before it, empty for the first
	Sequence int64  // counts versions of a lineage
	At       time.Time
	Layout   Layout

	Packs   []Pack
	Entries []Entry // sorted by path, every parent a folder
}

// Layout is how the files of a version are kept.
type Layout string

// The layouts there are.
const (
	Packed Layout = ""      // many small files in one object
	Plain  Layout = "plain" // each file an object of its own, {version}/{path}, as other tools expect it
)

// Pack is an object that holds the bytes of files.
type Pack struct {
	Key  string // below the prefix
	Size int64
}

// Bounds of a manifest, whoever wrote it. One that is written down takes some 300 bytes for each entry,
// and twice that in memory.
const (
	maxManifest = 512 << 20
	maxEntries  = 1_000_000
	maxPacks    = maxEntries
)

// wireBerth is what is in a manifest beside the contract of 1.0: a reader of that sees the files it knows,
// and nothing it does not.
type wireBerth struct {
	ID       string     `json:"id,omitempty"`
	Lineage  string     `json:"lineage,omitempty"`
	Parent   string     `json:"parent,omitempty"`
	Sequence int64      `json:"sequence,omitempty"`
	Layout   Layout     `json:"layout,omitempty"`
	Packs    []wirePack `json:"packs,omitempty"`
}

type wirePack struct {
	Key  string `json:"key"`
	Size int64  `json:"size"`
}

// plainKey is where a version of the plain layout has a file.
func plainKey(id, path string) string {
	if id == "" {
		return path
	}
	return id + "/" + path
}

// place gives every file that is in no pack the object of its own that it has in the plain layout.
func (m *Manifest) place(id string) {
	for i := range m.Entries {
		if e := &m.Entries[i]; e.Kind == File && e.At.Pack < 0 {
			e.At = Place{len(m.Packs), 0}
			m.Packs = append(m.Packs, Pack{plainKey(id, e.Path), e.Size})
		}
	}
}

// addFolders adds the folders that a manifest of others implies.
func (m *Manifest) addFolders() {
	have := map[string]bool{}
	for i := range m.Entries {
		if m.Entries[i].Kind == Folder {
			have[m.Entries[i].Path] = true
		}
	}
	for _, e := range m.Entries {
		for dir := parentOf(e.Path); dir != "" && !have[dir]; dir = parentOf(dir) {
			have[dir] = true
			m.Entries = append(m.Entries, Entry{Path: dir, Kind: Folder, Mode: 0o755, ModTime: m.At.UnixNano()})
		}
	}
}

// checkPackKey says what is wrong with the key of a pack: they are names that Berth makes.
func checkPackKey(key string) error {
	name, ok := strings.CutPrefix(key, packsFolder)
	if !ok || name == "" || len(name) > 100 || strings.Trim(name, "0123456789abcdefghijklmnopqrstuvwxyz-") != "" {
		return fmt.Errorf("%q is no key of a pack", clip(key))
	}
	return nil
}

// checkKey is checkPackKey, for a file of the plain layout too.
func checkKey(key string) error {
	if checkPackKey(key) == nil {
		return nil
	}
	id, path, _ := strings.Cut(key, "/")
	if err := checkVersion(id); err != nil {
		return err
	}
	if err := checkPath(path); err != nil {
		return err
	}
	return blob.CheckKey(key)
}

const packsFolder = "packs/"
