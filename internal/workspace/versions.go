package workspace

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/sandbox"
)

// Versions yields the versions there are, newest first: those that HEAD leads to.
func (r *Repo) Versions(ctx context.Context) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		head, _, err := r.readHead(ctx)
		if errors.Is(err, errNoHead) {
			return
		}
		if err != nil {
			yield(Version{}, err)
			return
		}
		r.walk(ctx, head, yield)
	}
}

// walk yields the versions of a head, newest first.
func (r *Repo) walk(ctx context.Context, head *Head, yield func(Version, error) bool) {
	page := logPage{head.Versions, head.Log}
	for seen := map[string]bool{}; ; {
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
		case seen[key] || !strings.HasPrefix(key, logFolder):
			err = bad("the history leads in circles, or away: %q", clip(key))
		default:
			err = json.Unmarshal(text, &page)
		}
		for _, v := range page.Versions {
			err = errors.Join(err, checkVersion(v.ID))
		}
		if err != nil {
			yield(Version{}, fmt.Errorf("read the history: %w", err))
			return
		}
		seen[key] = true
	}
}

// find looks a version up by its id.
func (r *Repo) find(ctx context.Context, head *Head, id string) (found Version, err error) {
	err = unknownVersion(id)
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
	return sandbox.Errorf("find version", api.CodeUnknownVersion, "there is no version %q", clip(id))
}

// Version returns one version, the newest for an empty id, with its manifest.
func (r *Repo) Version(ctx context.Context, id string) (Version, *Manifest, error) {
	head, _, err := r.readHead(ctx)
	if errors.Is(err, errNoHead) {
		return Version{}, nil, unknownVersion(id)
	}
	if err != nil {
		return Version{}, nil, err
	}
	v := head.newest()
	if id != "" {
		if v, err = r.find(ctx, head, id); err != nil {
			return v, nil, err
		}
	}
	m, err := r.manifestOf(ctx, v)
	return v, m, err
}

// Empty reports whether nothing was ever saved under this prefix.
func (r *Repo) Empty(ctx context.Context) (bool, error) {
	_, _, err := r.readHead(ctx)
	if errors.Is(err, errNoHead) || errors.Is(err, blob.ErrNotFound) {
		return true, nil
	}
	return false, err
}

func (v Version) digest() (d [32]byte) {
	_, _ = hex.Decode(d[:], []byte(v.SHA256)) // manifestOf compared it
	return d
}
