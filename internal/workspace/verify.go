package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/berthdev/berth/internal/blob"
)

// Verified is what reading everything came to.
type Verified struct {
	Versions int       `json:"versions"`
	Packs    int       `json:"packs"`
	Files    int       `json:"files"` // different ones
	Bytes    int64     `json:"bytes"`
	Problems []Problem `json:"problems"`
}

// Problem is a version that cannot be restored, or a file of it.
type Problem struct {
	Version string `json:"version"`
	Path    string `json:"path,omitempty"` // empty: all of it
	Why     string `json:"why"`
}

// piece is the bytes of one file in a pack.
type piece struct {
	offset, size int64
	sum          Sum
}

// verification is one under way. It holds every different piece once, and says whose it is only of those
// that are broken.
type verification struct {
	*Repo
	Verified
	versions []Version
	pieces   map[string]map[piece]string // pack → what is in it → why it is broken, if it is
	broken   bool
	told     int64 // of a piece's bytes, as progress
}

// Verify reads every version and every byte that one refers to, and proves that each can be restored.
func (r *Repo) Verify(ctx context.Context) (*Verified, error) {
	v := &verification{Repo: r, pieces: map[string]map[piece]string{}}
	for version, err := range r.Versions(ctx) {
		if err != nil {
			return &v.Verified, err
		}
		v.Verified.Versions++
		if err := v.list(ctx, version); err != nil {
			return &v.Verified, err
		}
	}
	for _, in := range v.pieces {
		for p := range in {
			v.Progress.expect(1, p.size)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(v.pieces)) {
		if err := v.pack(ctx, key, v.pieces[key]); err != nil {
			return &v.Verified, err
		}
	}
	return &v.Verified, v.blame(ctx)
}

// list adds what a version says to be where.
func (v *verification) list(ctx context.Context, version Version) error {
	m, err := v.manifestOf(ctx, version)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		v.Problems = append(v.Problems, Problem{Version: version.ID, Why: err.Error()})
		return nil
	}
	v.versions = append(v.versions, version)
	v.Progress.saw(len(m.Entries))
	for i := range m.Entries {
		e := &m.Entries[i]
		if e.Kind != File || e.Size == 0 {
			continue
		}
		key := m.Packs[e.At.Pack].Key
		if v.pieces[key] == nil {
			v.pieces[key] = map[piece]string{}
		}
		v.pieces[key][piece{e.At.Offset, e.Size, e.Sum}] = ""
	}
	return nil
}

// pack reads one pack from its beginning to its end.
func (v *verification) pack(ctx context.Context, key string, in map[piece]string) error {
	v.Packs++
	order := slices.SortedFunc(maps.Keys(in), func(a, b piece) int { return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.size, b.size)) })
	o, err := v.Store.Get(ctx, v.Prefix+key, blob.GetOptions{})
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("read %s: %w", key, err)
	}
	there := err == nil
	if there {
		defer o.Body.Close()
	}
	at, usable := int64(0), there
	for _, p := range order {
		why, read := key+" is gone", !there
		if usable && p.offset >= at {
			why, err = v.readPiece(o.Body, p, p.offset-at)
			at, usable, read = p.offset+p.size, err == nil, err == nil
		}
		if !read { // it overlaps another, or the body broke off
			if why, err = v.piece(ctx, key, p); err != nil {
				return err
			}
		}
		v.Files++
		v.Bytes += p.size
		v.Progress.finished(p.size, &v.told)
		if why != "" {
			in[p], v.broken = why, true
		}
	}
	return ctx.Err()
}

// piece reads one piece by itself.
func (v *verification) piece(ctx context.Context, key string, p piece) (why string, err error) {
	o, err := v.Store.Get(ctx, v.Prefix+key, blob.GetOptions{Offset: p.offset, Length: p.size})
	switch {
	case errors.Is(err, blob.ErrRange):
		return "its pack ends before it", nil
	case errors.Is(err, blob.ErrNotFound):
		return key + " is gone", nil
	case err != nil:
		return "", fmt.Errorf("read %s: %w", key, err)
	}
	defer o.Body.Close()
	why, _ = v.readPiece(o.Body, p, 0)
	return why, nil
}

// readPiece passes over skip bytes and compares the next with the piece. An error means that the rest of
// the body is of no use.
func (v *verification) readPiece(body io.Reader, p piece, skip int64) (why string, err error) {
	if _, err := io.CopyN(io.Discard, body, skip); err != nil {
		return "its pack ends before it", err
	}
	sums := newSummer(p.sum.SHA256 == none.SHA256)
	if _, err := io.CopyN(adder{sums}, &flow{body, v.Progress, p.size, &v.told}, p.size); err != nil {
		return "its pack ends within it", err
	}
	e := Entry{Sum: p.sum}
	if e.settle(sums.sum()) != nil {
		return "its bytes are not those that were saved", nil
	}
	return "", nil
}

// adder is a summer as a writer.
type adder struct{ *summer }

func (a adder) Write(data []byte) (int, error) {
	a.add(data)
	return len(data), nil
}

// blame says which files of which versions the broken pieces are. Versions that were pruned meanwhile are
// not missed.
func (v *verification) blame(ctx context.Context) error {
	if !v.broken {
		return nil
	}
	kept := map[string]bool{}
	for version, err := range v.Repo.Versions(ctx) {
		if err != nil {
			return err
		}
		kept[version.ID] = true
	}
	for _, version := range v.versions {
		if !kept[version.ID] {
			continue
		}
		m, err := v.manifestOf(ctx, version)
		if err != nil {
			return err
		}
		for i := range m.Entries {
			if e := &m.Entries[i]; e.Kind == File && e.Size > 0 {
				if why := v.pieces[m.Packs[e.At.Pack].Key][piece{e.At.Offset, e.Size, e.Sum}]; why != "" {
					v.Problems = append(v.Problems, Problem{version.ID, e.Path, why})
				}
			}
		}
	}
	return nil
}
