package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/blob"
)

// stranger is a version that another tool wrote: a folder of objects named after a time, with or without
// a state file. It belongs to no history.
type stranger byte

const (
	no     stranger = iota
	stated          // with a state file, which its writer put there last
	bare            // without one
)

// strangerLineage is the history of versions that belong to none.
const strangerLineage = "plain"

// strangers are at most so many versions that other tools wrote, newest first. Where any has a state file,
// those without one were never finished.
func (r *Repo) strangers(ctx context.Context, most int) ([]Version, error) {
	var names []string
	for e, err := range r.Store.List(ctx, r.Prefix, blob.ListOptions{Folders: true}) {
		if err != nil {
			return nil, fmt.Errorf("list versions: %w", err) // an unreadable list is not an empty list
		}
		if name := strings.TrimSuffix(strings.TrimPrefix(e.Key, r.Prefix), "/"); e.Folder && looksLikeTime(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	slices.Reverse(names)
	var whole, without []Version
	for _, name := range names {
		v, ok, err := r.stranger(ctx, name)
		switch {
		case err != nil:
			return nil, err
		case ok && v.stranger == bare && len(without) < most:
			without = append(without, v)
		case ok && v.stranger == stated:
			whole = append(whole, v)
		}
		if len(whole) == most {
			break
		}
	}
	if len(whole) > 0 {
		return whole, nil
	}
	return without, nil
}

// stranger looks at one folder. A version of Berth's own that was never committed is none; neither is one
// whose state file cannot be read.
func (r *Repo) stranger(ctx context.Context, name string) (v Version, ok bool, err error) {
	v = Version{ID: name, Layout: Plain, stranger: bare}
	if checkVersion(name) != nil {
		return v, false, nil
	}
	text, _, err := r.read(ctx, v.state(), maxManifest)
	if errors.Is(err, blob.ErrNotFound) {
		return r.bare(ctx, v)
	}
	if err != nil {
		return v, false, fmt.Errorf("read %s: %w", v.state(), err)
	}
	m, err := Decode(text)
	if err != nil || m.ID != "" || m.Lineage != "" {
		if err != nil {
			r.log().WarnContext(ctx, "a version of another tool cannot be read", "version", name, "error", err)
		}
		return v, false, nil
	}
	sum := sha256.Sum256(text)
	v.stranger, v.SHA256, v.At = stated, hex.EncodeToString(sum[:]), m.At
	v.Files, v.Bytes = m.size()
	return v, true, nil
}

func (m *Manifest) size() (files int, bytes int64) {
	for i := range m.Entries {
		if e := &m.Entries[i]; e.Kind == File {
			files, bytes = files+1, bytes+e.Size
		}
	}
	return files, bytes
}

// bare looks at a folder without a state file. One with a name that Berth makes is what a push has left.
func (r *Repo) bare(ctx context.Context, v Version) (Version, bool, error) {
	if isOwnID(v.ID) {
		return v, false, nil
	}
	for e, err := range r.Store.List(ctx, r.Prefix+v.ID+"/", blob.ListOptions{}) {
		if err != nil {
			return v, false, fmt.Errorf("list %s: %w", v.ID, err)
		}
		if e.At.After(v.At) {
			v.At = e.At.UTC()
		}
		v.Files, v.Bytes = v.Files+1, v.Bytes+e.Size
	}
	return v, v.Files > 0, nil
}

// strangerManifest is the manifest of a version that another tool wrote.
func (r *Repo) strangerManifest(ctx context.Context, v Version) (m *Manifest, text []byte, err error) {
	if v.stranger == bare {
		if m, err = r.listManifest(ctx, v); err != nil {
			return nil, nil, err
		}
	} else {
		if text, _, err = r.read(ctx, v.state(), maxManifest); err == nil {
			m, err = Decode(text)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read the state file of version %s: %w", v.ID, err)
		}
		for i := range m.Packs {
			m.Packs[i].Key = plainKey(v.ID, m.Packs[i].Key)
		}
	}
	m.ID, m.Lineage, m.Layout = v.ID, strangerLineage, Plain
	return m, text, nil
}

// listManifest makes a manifest of the objects in a folder. Nothing is known of them but size and time.
func (r *Repo) listManifest(ctx context.Context, v Version) (*Manifest, error) {
	m := &Manifest{At: v.At}
	prefix := r.Prefix + v.ID + "/"
	for e, err := range r.Store.List(ctx, prefix, blob.ListOptions{}) {
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", v.ID, err)
		}
		path := strings.TrimPrefix(e.Key, prefix)
		if ours(path) {
			continue
		}
		if len(m.Entries) == maxEntries {
			return nil, tooLarge("version %s has more than %d objects", v.ID, maxEntries)
		}
		m.Entries = append(m.Entries, Entry{
			Path: path, Kind: File, Mode: 0o644, Size: e.Size, ModTime: e.At.UnixNano(), At: Place{Pack: -1},
		})
	}
	m.place(v.ID)
	m.addFolders()
	slices.SortFunc(m.Entries, byPath)
	return m, checkEntries(m.Entries, m.Packs)
}

// looksLikeTime reports whether the name of a folder may be the time of a version: those of other things
// beside the versions are not.
func looksLikeTime(name string) bool {
	digits := 0
	for _, c := range []byte(name) {
		if c >= '0' && c <= '9' {
			digits++
		}
	}
	return digits >= 8 && digits <= len(name) && name[0] >= '0' && name[0] <= '9' &&
		(isOwnID(name) || strings.Trim(name, "0123456789TZ:._-") == "")
}

// isOwnID reports whether NewVersionID may have made a name.
func isOwnID(name string) bool {
	at, suffix, ok := strings.Cut(name, "-")
	_, err := time.Parse(idTime, at)
	return ok && err == nil && len(suffix) == 6 && strings.Trim(suffix, "0123456789abcdef") == ""
}
