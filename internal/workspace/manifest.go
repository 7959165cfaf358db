package workspace

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
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

	Packs   []Pack
	Entries []Entry // sorted by path, every parent a folder
}

// Pack is an object that holds the bytes of files.
type Pack struct {
	Key  string // below the prefix
	Size int64
}

// maxManifest bounds what is read of a manifest: a million files fit.
const maxManifest = 1 << 30

// wire is a manifest as JSON. What is not in the contract of 1.0 has its own names beside it: a reader
// of the contract sees the files it knows, and nothing it does not.
type wire struct {
	Version string      `json:"version"`
	Synced  int64       `json:"last_synced_at"`
	Files   []wireFile  `json:"files"`
	Folders []wireOther `json:"folders,omitempty"`
	Links   []wireOther `json:"links,omitempty"`
	Berth   *wireBerth  `json:"berth,omitempty"`
}

type wireBerth struct {
	ID       string     `json:"id,omitempty"`
	Lineage  string     `json:"lineage,omitempty"`
	Parent   string     `json:"parent,omitempty"`
	Sequence int64      `json:"sequence,omitempty"`
	Packs    []wirePack `json:"packs,omitempty"`
}

type wirePack struct {
	Key  string `json:"key"`
	Size int64  `json:"size"`
}

type wireFile struct {
	Path     string `json:"path"`
	Checksum string `json:"checksum"`
	Size     int64  `json:"size"`
	Modified int64  `json:"modified_at"`
	SHA256   string `json:"sha256,omitempty"`
	ModTime  int64  `json:"mtime_ns,omitempty"`
	Mode     uint32 `json:"mode,omitempty"`
	Pack     *int   `json:"pack,omitempty"`
	Offset   int64  `json:"offset,omitempty"`
}

type wireOther struct {
	Path    string `json:"path"`
	Mode    uint32 `json:"mode,omitempty"`
	ModTime int64  `json:"mtime_ns,omitempty"`
	Target  string `json:"target,omitempty"`
}

// Encode writes the manifest as JSON.
func (m *Manifest) Encode() []byte {
	b := make([]byte, 0, 512+len(m.Entries)*280)
	b = append(b, `{"version":"`+FormatVersion+`","last_synced_at":`...)
	b = strconv.AppendInt(b, m.At.Unix(), 10)
	b = append(b, `,"berth":`...)
	b = append(b, m.header()...)
	b = append(b, `,"files":[`...)
	b = m.appendAll(b, File, appendFile)
	b = append(b, `],"folders":[`...)
	b = m.appendAll(b, Folder, appendOther)
	b = append(b, `],"links":[`...)
	b = m.appendAll(b, Link, appendOther)
	return append(b, "]}\n"...)
}

func (m *Manifest) header() []byte {
	w := wireBerth{ID: m.ID, Lineage: m.Lineage, Parent: m.Parent, Sequence: m.Sequence, Packs: make([]wirePack, len(m.Packs))}
	for i, p := range m.Packs {
		w.Packs[i] = wirePack(p)
	}
	text, err := json.Marshal(w)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return text
}

func (m *Manifest) appendAll(b []byte, kind Kind, one func([]byte, *Entry) []byte) []byte {
	first := true
	for i := range m.Entries {
		if e := &m.Entries[i]; e.Kind == kind {
			if !first {
				b = append(b, ",\n"...)
			}
			first, b = false, one(b, e)
		}
	}
	return b
}

func appendFile(b []byte, e *Entry) []byte {
	b = append(b, `{"path":`...)
	b = appendText(b, e.Path)
	b = append(b, `,"checksum":"`...)
	b = hex.AppendEncode(b, e.Sum.MD5[:])
	b = append(b, `","size":`...)
	b = strconv.AppendInt(b, e.Size, 10)
	b = append(b, `,"modified_at":`...)
	b = strconv.AppendInt(b, time.Unix(0, e.ModTime).Unix(), 10)
	b = append(b, `,"sha256":"`...)
	b = hex.AppendEncode(b, e.Sum.SHA256[:])
	b = append(b, `","mtime_ns":`...)
	b = strconv.AppendInt(b, e.ModTime, 10)
	b = append(b, `,"mode":`...)
	b = strconv.AppendUint(b, uint64(e.Mode), 10)
	if e.Size > 0 {
		b = append(b, `,"pack":`...)
		b = strconv.AppendInt(b, int64(e.At.Pack), 10)
		b = append(b, `,"offset":`...)
		b = strconv.AppendInt(b, e.At.Offset, 10)
	}
	return append(b, '}')
}

func appendOther(b []byte, e *Entry) []byte {
	b = append(b, `{"path":`...)
	b = appendText(b, e.Path)
	b = append(b, `,"mode":`...)
	b = strconv.AppendUint(b, uint64(e.Mode), 10)
	b = append(b, `,"mtime_ns":`...)
	b = strconv.AppendInt(b, e.ModTime, 10)
	if e.Kind == Link {
		b = append(b, `,"target":`...)
		b = appendText(b, e.Target)
	}
	return append(b, '}')
}

// appendText writes a name as JSON. A name that is not UTF-8 keeps its bytes: each that JSON cannot hold
// becomes a character of the private plane U+10FF00, which readText turns back.
func appendText(b []byte, s string) []byte {
	text, err := json.Marshal(escapeBytes(s))
	if err != nil {
		panic(err) // strings always marshal
	}
	return append(b, text...)
}

// Decode reads a manifest and checks it. Whatever is wrong with it is CodeBadManifest; a major version
// that is not known is said so.
func Decode(text []byte) (*Manifest, error) {
	var w wire
	dec := json.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&w); err != nil {
		return nil, bad("it is not JSON: %w", err)
	}
	if major, _, _ := strings.Cut(w.Version, "."); major != "1" {
		e := sandbox.Errorf("read manifest", api.CodeBadManifest, "its format is %q, and this Berth reads 1.x", clip(w.Version))
		e.Hint = "It was written by a newer Berth, or is no manifest: use a Berth at least as new."
		return nil, e
	}
	m := &Manifest{At: time.Unix(w.Synced, 0).UTC()}
	if err := m.fill(&w); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Manifest) fill(w *wire) error {
	if b := w.Berth; b != nil {
		m.ID, m.Lineage, m.Parent, m.Sequence = b.ID, b.Lineage, b.Parent, b.Sequence
		for _, p := range b.Packs {
			if p.Size < 0 || checkPackKey(p.Key) != nil {
				return bad("it names the pack %q of %d bytes", clip(p.Key), p.Size)
			}
			m.Packs = append(m.Packs, Pack(p))
		}
	}
	m.Entries = make([]Entry, 0, len(w.Files)+len(w.Folders)+len(w.Links))
	for i := range w.Files {
		e, err := w.Files[i].entry()
		if err != nil {
			return err
		}
		m.Entries = append(m.Entries, e)
	}
	for _, o := range w.Folders {
		m.Entries = append(m.Entries, Entry{Path: unescapeBytes(o.Path), Kind: Folder, Mode: o.Mode & 0o777, ModTime: o.ModTime})
	}
	for _, o := range w.Links {
		m.Entries = append(m.Entries, Entry{Path: unescapeBytes(o.Path), Kind: Link, Mode: 0o777, ModTime: o.ModTime, Target: unescapeBytes(o.Target)})
	}
	if w.Berth == nil {
		m.addFolders()
	}
	slices.SortFunc(m.Entries, byPath)
	return checkEntries(m.Entries, m.Packs)
}

func (f *wireFile) entry() (Entry, error) {
	e := Entry{Path: unescapeBytes(f.Path), Kind: File, Size: f.Size, ModTime: f.ModTime, Mode: f.Mode & 0o777}
	if e.ModTime == 0 {
		e.ModTime = time.Unix(f.Modified, 0).UnixNano()
	}
	if e.Mode == 0 {
		e.Mode = 0o644
	}
	if n, err := hex.Decode(e.Sum.MD5[:], []byte(f.Checksum)); err != nil || n != len(e.Sum.MD5) || len(f.Checksum) != 2*n {
		return e, bad("the file %q has the checksum %q, which is not one", clip(f.Path), clip(f.Checksum))
	}
	if f.SHA256 != "" {
		if len(f.SHA256) != 2*sha256.Size {
			return e, bad("the file %q has a sha256 of %d characters", clip(f.Path), len(f.SHA256))
		}
		if _, err := hex.Decode(e.Sum.SHA256[:], []byte(f.SHA256)); err != nil {
			return e, bad("the file %q has a sha256 that is not one: %w", clip(f.Path), err)
		}
	}
	if e.At.Pack = -1; f.Pack != nil {
		e.At = Place{*f.Pack, f.Offset}
	}
	return e, nil
}

// addFolders adds the folders that a manifest of others implies.
func (m *Manifest) addFolders() {
	have := map[string]bool{}
	for _, e := range m.Entries {
		for dir := parentOf(e.Path); dir != "" && !have[dir]; dir = parentOf(dir) {
			have[dir] = true
		}
	}
	for dir := range have {
		m.Entries = append(m.Entries, Entry{Path: dir, Kind: Folder, Mode: 0o755})
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

const packsFolder = "packs/"
