package workspace

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// Decode reads and checks a manifest. Every error has CodeBadManifest. For an unknown major version the error names
// the version.
func Decode(text []byte) (*Manifest, error) {
	d, ok := decodeFast(text)
	if !ok {
		d = new(decoded)
		if err := d.read(text); err != nil {
			return nil, err
		}
	}
	return d.manifest()
}

// decoded is a parsed manifest that is not checked yet.
type decoded struct {
	version               string
	synced                int64
	berth                 *wireBerth
	files, folders, links []Entry // a file outside all packs has pack -1
}

type wireFile struct {
	Path     string  `json:"path"`
	Checksum string  `json:"checksum"`
	Size     int64   `json:"size"`
	Modified int64   `json:"modified_at"`
	SHA256   string  `json:"sha256"`
	ModTime  *int64  `json:"mtime_ns"`
	Mode     *uint32 `json:"mode"`
	Pack     *int    `json:"pack"`
	Offset   int64   `json:"offset"`
}

type wireOther struct {
	Path    string  `json:"path"`
	Mode    *uint32 `json:"mode"`
	ModTime int64   `json:"mtime_ns"`
	Target  string  `json:"target"`
}

// read reads any valid manifest, one entry at a time. Its memory is bounded by the size of the result.
func (d *decoded) read(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if err := expect(dec, '{'); err != nil {
		return err
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return notJSON(err)
		}
		switch name {
		case "version":
			err = dec.Decode(&d.version)
		case "last_synced_at":
			err = dec.Decode(&d.synced)
		case "berth":
			err = d.readBerth(dec)
		case "files":
			err = each(dec, maxEntries, d.readFile)
		case "folders":
			err = each(dec, maxEntries, func(dec *json.Decoder) error { return readOther(dec, Folder, &d.folders) })
		case "links":
			err = each(dec, maxEntries, func(dec *json.Decoder) error { return readOther(dec, Link, &d.links) })
		default:
			err = dec.Decode(new(json.RawMessage))
		}
		if err != nil {
			return notJSON(err)
		}
	}
	return expect(dec, '}')
}

func (d *decoded) readBerth(dec *json.Decoder) error {
	var w struct {
		wireBerth
		Packs json.RawMessage `json:"packs"`
	}
	if err := dec.Decode(&w); err != nil {
		return err
	}
	d.berth = &w.wireBerth
	if len(w.Packs) == 0 {
		return nil
	}
	return each(json.NewDecoder(bytes.NewReader(w.Packs)), maxPacks, func(dec *json.Decoder) error {
		var p wirePack
		err := dec.Decode(&p)
		d.berth.Packs = append(d.berth.Packs, p)
		return err
	})
}

func (d *decoded) readFile(dec *json.Decoder) error {
	var f wireFile
	if err := dec.Decode(&f); err != nil {
		return err
	}
	e, err := f.entry()
	d.files = append(d.files, e)
	return err
}

func readOther(dec *json.Decoder, kind Kind, to *[]Entry) error {
	var o wireOther
	if err := dec.Decode(&o); err != nil {
		return err
	}
	e := Entry{Path: unescapeBytes(o.Path), Kind: kind, Mode: 0o755, ModTime: o.ModTime, Target: unescapeBytes(o.Target)}
	switch {
	case kind == Link:
		e.Mode = 0o777
	case o.Mode != nil:
		e.Mode = *o.Mode & 0o777
	}
	*to = append(*to, e)
	return nil
}

// each calls one for each item of a JSON list, and fails if the list has more than most items.
func each(dec *json.Decoder, most int, one func(*json.Decoder) error) error {
	switch open, err := dec.Token(); {
	case err != nil:
		return err
	case open == nil:
		return nil // null counts as an empty list
	case open != json.Delim('['):
		return bad("it has %v where a list belongs", open)
	}
	for n := 0; dec.More(); n++ {
		if n == most {
			return bad("it lists more than %d of one kind", most)
		}
		if err := one(dec); err != nil {
			return err
		}
	}
	return expect(dec, ']')
}

func expect(dec *json.Decoder, delim json.Delim) error {
	switch got, err := dec.Token(); {
	case err != nil:
		return notJSON(err)
	case got != delim:
		return bad("it has %v where %v belongs", got, delim)
	}
	return nil
}

func notJSON(err error) error {
	if fault.CodeOf(err) == api.CodeBadManifest {
		return err
	}
	return bad("it is not JSON of the right form: %w", err)
}

func (f *wireFile) entry() (Entry, error) {
	e := Entry{Path: unescapeBytes(f.Path), Kind: File, Size: f.Size, Mode: 0o644, At: PackOffset{Pack: -1}}
	if e.ModTime = time.Unix(f.Modified, 0).UnixNano(); f.ModTime != nil {
		e.ModTime = *f.ModTime
	}
	if f.Mode != nil {
		e.Mode = *f.Mode & 0o777
	}
	if len(f.Checksum) != 2*len(e.Sum.MD5) || !unhex(e.Sum.MD5[:], f.Checksum) {
		return e, bad("the file %q has the checksum %q, which is not one", clip(f.Path), clip(f.Checksum))
	}
	if f.SHA256 != "" && (len(f.SHA256) != 2*sha256.Size || !unhex(e.Sum.SHA256[:], f.SHA256)) {
		return e, bad("the file %q has the sha256 %q, which is not one", clip(f.Path), clip(f.SHA256))
	}
	if f.Pack != nil {
		e.At = PackOffset{*f.Pack, f.Offset}
	}
	return e, nil
}

func unhex(to []byte, text string) bool {
	_, err := hex.Decode(to, []byte(text))
	return err == nil
}

// manifest converts the parsed text to a manifest and checks it.
func (d *decoded) manifest() (*Manifest, error) {
	if major, _, _ := strings.Cut(d.version, "."); major != "1" {
		e := fault.Errorf("read manifest", api.CodeBadManifest, "its format is %q, and this Berth reads 1.x", clip(d.version))
		e.Hint = "It was written by a newer Berth, or is no manifest: use a Berth at least as new."
		return nil, e
	}
	m := &Manifest{At: time.Unix(d.synced, 0).UTC(), Layout: Plain}
	if err := d.setBerthFields(m); err != nil {
		return nil, err
	}
	if m.Entries = merged(d.files, d.folders, d.links); d.berth == nil {
		m.addFolders()
		slices.SortFunc(m.Entries, byPath)
	}
	if m.Layout == Plain {
		m.assignPlainObjects(m.ID)
	}
	return m, checkEntries(m.Entries, m.Packs)
}

// setBerthFields sets the fields that only manifests of Berth have, and checks that every file has a SHA-256.
func (d *decoded) setBerthFields(m *Manifest) error {
	b := d.berth
	if b == nil {
		return nil
	}
	m.ID, m.Lineage, m.Parent, m.Sequence, m.Layout = b.ID, b.Lineage, b.Parent, b.Sequence, b.Layout
	if m.Layout != Packed && m.Layout != Plain {
		return bad("its layout is %q, which this Berth does not know", clip(string(m.Layout)))
	}
	m.Packs = make([]Pack, 0, len(b.Packs))
	for _, p := range b.Packs {
		if p.Size < 0 || checkPackKey(p.Key) != nil {
			return bad("it names the pack %q of %d bytes", clip(p.Key), p.Size)
		}
		m.Packs = append(m.Packs, Pack(p))
	}
	for i := range d.files {
		if e := &d.files[i]; e.Size > 0 && e.Sum.SHA256 == none.SHA256 {
			return bad("the file %q has no sha256", clip(e.Path))
		}
	}
	return nil
}

// merged merges lists of entries into one list sorted by path.
func merged(lists ...[]Entry) []Entry {
	n := 0
	for _, l := range lists {
		n += len(l)
		if !slices.IsSortedFunc(l, byPath) {
			slices.SortFunc(l, byPath)
		}
	}
	all := make([]Entry, 0, n)
	for len(all) < n {
		next := -1
		for i, l := range lists {
			if len(l) > 0 && (next < 0 || l[0].Path < lists[next][0].Path) {
				next = i
			}
		}
		all = append(all, lists[next][0])
		lists[next] = lists[next][1:]
	}
	return all
}
