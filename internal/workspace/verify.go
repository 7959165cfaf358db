package workspace

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/berthdev/berth/internal/blob"
)

// Verified is what reading everything came to.
type Verified struct {
	Versions int
	Packs    int
	Files    int // different ones
	Bytes    int64
	Problems []Problem
}

// Problem is a version that cannot be restored, or a file of it.
type Problem struct {
	Version string
	Path    string // empty: all of it
	Why     string
}

// piece is the bytes of one file in a pack.
type piece struct {
	offset, size int64
	sum          [sha256.Size]byte
}

// Verify reads every version and every byte that one refers to, and proves that each can be restored.
func (r *Repo) Verify(ctx context.Context) (*Verified, error) {
	v := new(Verified)
	pieces := map[string]map[piece][]Problem{} // pack → what is in it → who says so
	for version, err := range r.Versions(ctx) {
		if err != nil {
			return v, err
		}
		v.Versions++
		m, err := r.manifestOf(ctx, version)
		if err != nil {
			if ctx.Err() != nil {
				return v, err
			}
			v.Problems = append(v.Problems, Problem{Version: version.ID, Why: err.Error()})
			continue
		}
		m.pieces(pieces)
	}
	for _, key := range slices.Sorted(maps.Keys(pieces)) {
		if err := r.verifyPack(ctx, v, key, pieces[key]); err != nil {
			return v, err
		}
	}
	return v, nil
}

// pieces adds what the manifest says to be where.
func (m *Manifest) pieces(all map[string]map[piece][]Problem) {
	for i := range m.Entries {
		e := &m.Entries[i]
		if e.Kind != File || e.Size == 0 {
			continue
		}
		key := m.Packs[e.At.Pack].Key
		if all[key] == nil {
			all[key] = map[piece][]Problem{}
		}
		p := piece{e.At.Offset, e.Size, e.Sum.SHA256}
		all[key][p] = append(all[key][p], Problem{Version: m.ID, Path: e.Path})
	}
}

// verifyPack reads one pack from its beginning to its end.
func (r *Repo) verifyPack(ctx context.Context, v *Verified, key string, in map[piece][]Problem) error {
	v.Packs++
	order := slices.SortedFunc(maps.Keys(in), func(a, b piece) int { return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.size, b.size)) })
	o, err := r.Store.Get(ctx, r.Prefix+key, blob.GetOptions{})
	if err == nil {
		defer o.Body.Close()
	} else if !errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("read %s: %w", key, err)
	}
	at := int64(0)
	for _, p := range order {
		why := ""
		switch {
		case err != nil:
			why = key + " is gone"
		case p.offset < at:
			why, err = r.verifyPiece(ctx, key, p)
		default:
			why, err = readPiece(o.Body, p, p.offset-at)
			at = p.offset + p.size
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		v.Files++
		v.Bytes += p.size
		if why != "" {
			for _, who := range in[p] {
				who.Why = why
				v.Problems = append(v.Problems, who)
			}
		}
	}
	return nil
}

// verifyPiece reads one piece by itself: it overlaps another.
func (r *Repo) verifyPiece(ctx context.Context, key string, p piece) (why string, err error) {
	o, err := r.Store.Get(ctx, r.Prefix+key, blob.GetOptions{Offset: p.offset, Length: p.size})
	if err != nil {
		return err.Error(), nil
	}
	defer o.Body.Close()
	why, _ = readPiece(o.Body, p, 0)
	return why, nil
}

// readPiece passes over skip bytes and compares the next with the piece. An error means that the rest of
// the body is of no use.
func readPiece(body io.Reader, p piece, skip int64) (why string, err error) {
	if _, err := io.CopyN(io.Discard, body, skip); err != nil {
		return "its pack ends before it", err
	}
	sum := sha256.New()
	if _, err := io.CopyN(sum, body, p.size); err != nil {
		return "its pack ends within it", err
	}
	if [sha256.Size]byte(sum.Sum(nil)) != p.sum {
		return "its bytes are not those that were saved", nil
	}
	return "", nil
}
