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

// foreignState describes a version that another tool wrote: a folder of objects whose name is a time, with or
// without a state file. Such a version has no history.
type foreignState byte

const (
	notForeign foreignState = iota // a version of Berth
	stated                         // with a state file; the tool wrote it last, so the version is complete
	bare                           // without a state file
)

// foreignLineage is the lineage of all versions of other tools.
const foreignLineage = "plain"

// foreignVersions returns at most the given number of versions of other tools, newest first. If any version has a
// state file, versions without one are considered unfinished and are left out.
func (r *Repo) foreignVersions(ctx context.Context, most int) ([]Version, error) {
	var names []string
	for e, err := range r.Store.List(ctx, r.Prefix, blob.ListOptions{Folders: true}) {
		if err != nil {
			return nil, fmt.Errorf("list versions: %w", err) // a failed list must not look like an empty list
		}
		if name := strings.TrimSuffix(strings.TrimPrefix(e.Key, r.Prefix), "/"); e.Folder && looksLikeTime(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	slices.Reverse(names)
	var whole, without []Version
	for _, name := range names {
		v, ok, err := r.foreignVersion(ctx, name)
		switch {
		case err != nil:
			return nil, err
		case ok && v.foreign == bare && len(without) < most:
			without = append(without, v)
		case ok && v.foreign == stated:
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

// foreignVersion checks one folder. It returns false for uncommitted versions of Berth and for state files that
// cannot be decoded.
func (r *Repo) foreignVersion(ctx context.Context, name string) (v Version, ok bool, err error) {
	v = Version{ID: name, Layout: Plain, foreign: bare}
	if checkVersion(name) != nil {
		return v, false, nil
	}
	text, _, err := r.read(ctx, v.state(), maxManifest)
	if errors.Is(err, blob.ErrNotFound) {
		return r.bareForeignVersion(ctx, v)
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
	v.foreign, v.SHA256, v.At = stated, hex.EncodeToString(sum[:]), m.At
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

// bareForeignVersion checks a folder without a state file. A folder with an id of Berth is left over from an
// interrupted push and is not a version.
func (r *Repo) bareForeignVersion(ctx context.Context, v Version) (Version, bool, error) {
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

// foreignManifest returns the manifest of a version of another tool, and the text of its state file if it has one.
func (r *Repo) foreignManifest(ctx context.Context, v Version) (m *Manifest, text []byte, err error) {
	if v.foreign == bare {
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
	m.ID, m.Lineage, m.Layout = v.ID, foreignLineage, Plain
	return m, text, nil
}

// listManifest builds a manifest from the list of objects in a folder. It contains only sizes and times, no
// checksums.
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
			Path: path, Kind: File, Mode: 0o644, Size: e.Size, ModTime: e.At.UnixNano(), At: PackOffset{Pack: -1},
		})
	}
	m.assignPlainObjects(v.ID)
	m.addFolders()
	slices.SortFunc(m.Entries, byPath)
	return m, checkEntries(m.Entries, m.Packs)
}

// looksLikeTime reports whether the name of a folder may be the time of a version: mostly digits, with separators.
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

// isOwnID reports whether a name has the form of an id from NewVersionID.
func isOwnID(name string) bool {
	at, suffix, ok := strings.Cut(name, "-")
	_, err := time.Parse(idTime, at)
	return ok && err == nil && len(suffix) == 6 && strings.Trim(suffix, "0123456789abcdef") == ""
}
