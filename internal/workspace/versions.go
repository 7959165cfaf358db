package workspace

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/fault"
)

// Versions yields the versions that HEAD leads to, newest first.
func (r *Repo) Versions(ctx context.Context) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		head, _, err := r.readHead(ctx)
		if errors.Is(err, errNoHead) {
			var others []Version
			others, err = r.foreignVersions(ctx, maxVersions)
			head = &Head{Versions: others}
		}
		if err != nil {
			yield(Version{}, err)
			return
		}
		r.walk(ctx, head, yield)
	}
}

// readHistory reads HEAD. If there is no HEAD, it returns a history with the newest version of other tools.
func (r *Repo) readHistory(ctx context.Context) (*Head, blob.Tag, error) {
	head, tag, err := r.readHead(ctx)
	if !errors.Is(err, errNoHead) {
		return head, tag, err
	}
	others, err := r.foreignVersions(ctx, 1)
	if err == nil && len(others) == 0 {
		err = errNoHead
	}
	if err != nil {
		return nil, "", err
	}
	return &Head{Format: 1, Lineage: foreignLineage, Versions: others}, "", nil
}

// maxVersions limits the length of a history.
const maxVersions = 1_000_000

// walk yields the versions of a head, newest first.
func (r *Repo) walk(ctx context.Context, head *Head, yield func(Version, error) bool) {
	page := logPage{head.Versions, head.Log}
	seen := map[string]bool{}
	for n := 0; ; {
		n += len(page.Versions)
		for _, v := range page.Versions {
			if !yield(v, nil) {
				return
			}
		}
		key := page.Log
		if key == "" {
			return
		}
		text, _, err := r.read(ctx, key, maxHead)
		page = logPage{}
		switch {
		case err != nil:
		case seen[key] || n > maxVersions:
			err = bad("the history leads in circles, or has no end: %q", clip(key))
		default:
			if err = json.Unmarshal(text, &page); err != nil {
				err = bad("%s is not JSON: %w", key, err)
			} else {
				err = page.check()
			}
		}
		if err != nil {
			yield(Version{}, fmt.Errorf("read the history: %w", err))
			return
		}
		seen[key] = true
	}
}

// find looks up a version by its id in the history, and then among the versions of other tools.
func (r *Repo) find(ctx context.Context, head *Head, id string) (found Version, err error) {
	err = unknownVersion(id)
	defer func() {
		if fault.CodeOf(err) == api.CodeUnknownVersion && looksLikeTime(id) {
			if v, ok, failed := r.foreignVersion(ctx, id); ok || failed != nil {
				found, err = v, failed
			}
		}
	}()
	r.walk(ctx, head, func(v Version, failed error) bool {
		switch {
		case failed != nil:
			err = failed
		case v.ID == id:
			found, err = v, nil
		default:
			return true
		}
		return false
	})
	return found, err
}

func unknownVersion(id string) error {
	return fault.Errorf("find version", api.CodeUnknownVersion, "there is no version %q", clip(id))
}

// Version returns a version with its manifest. An empty id means the newest version.
func (r *Repo) Version(ctx context.Context, id string) (Version, *Manifest, error) {
	v, err := r.versionOf(ctx, id)
	if err != nil {
		return v, nil, err
	}
	m, err := r.manifestOf(ctx, v)
	return v, m, err
}

// versionOf returns a version without its manifest. An empty id means the newest version.
func (r *Repo) versionOf(ctx context.Context, id string) (Version, error) {
	head, _, err := r.readHistory(ctx)
	switch {
	case errors.Is(err, errNoHead):
		return Version{}, unknownVersion(id)
	case err != nil:
		return Version{}, err
	case id == "":
		return head.newest(), nil
	}
	return r.find(ctx, head, id)
}

// Empty reports whether the prefix has no version.
func (r *Repo) Empty(ctx context.Context) (bool, error) {
	_, _, err := r.readHistory(ctx)
	if errors.Is(err, errNoHead) {
		return true, nil
	}
	return false, err
}

func (v Version) digest() (d [32]byte) {
	_, _ = hex.Decode(d[:], []byte(v.SHA256)) // valid hexadecimal, because manifestOf has compared it with a checksum
	return d
}
