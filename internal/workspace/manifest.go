package workspace

import (
	"fmt"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/blob"
)

// FormatVersion is the version of the manifest format. Readers accept every 1.x.
const FormatVersion = "1.0"

// Manifest describes one version of a tree.
type Manifest struct {
	ID       string // the version's id; empty in a manifest of another tool
	Lineage  string // id of the history that this version belongs to
	Parent   string // id of the previous version; empty for the first
	Sequence int64  // number of the version in its lineage, from 1
	At       time.Time
	Layout   Layout

	Packs   []Pack
	Entries []Entry // sorted by path; the parent of each is a folder entry
}

// Layout is the form in which a version's files are stored.
type Layout string

// The layouts.
const (
	Packed Layout = ""      // small files together in packs
	Plain  Layout = "plain" // each file in a separate object {version}/{path}, as other tools expect
)

// Pack is an object with the bytes of one or more files.
type Pack struct {
	Key  string // relative to the repo's prefix
	Size int64
}

// Limits of a manifest. A stored manifest has about 300 bytes for each entry. A decoded manifest takes twice that
// in memory.
const (
	maxManifest = 512 << 20
	maxEntries  = 1_000_000
	maxPacks    = maxEntries
)

// wireBerth holds Berth's additions to the 1.0 format. Other readers ignore them and see only the files.
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

// plainKey returns the key of a file in the plain layout. With an empty id it is the path.
func plainKey(id, path string) string {
	if id == "" {
		return path
	}
	return id + "/" + path
}

// assignPlainObjects assigns an object of the plain layout to every file without a pack.
func (m *Manifest) assignPlainObjects(id string) {
	for i := range m.Entries {
		if e := &m.Entries[i]; e.Kind == File && e.At.Pack < 0 {
			e.At = PackOffset{len(m.Packs), 0}
			m.Packs = append(m.Packs, Pack{plainKey(id, e.Path), e.Size})
		}
	}
}

// addFolders adds the parent folders of all entries. Manifests of other tools do not list folders.
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

// checkPackKey returns an error if a key does not have the form of Berth's pack keys.
func checkPackKey(key string) error {
	name, ok := strings.CutPrefix(key, packsFolder)
	if !ok || name == "" || len(name) > 100 || strings.Trim(name, "0123456789abcdefghijklmnopqrstuvwxyz-") != "" {
		return fmt.Errorf("%q is no key of a pack", clip(key))
	}
	return nil
}

// checkKey returns an error if a key is neither the key of a pack nor the key of a file in the plain layout.
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
