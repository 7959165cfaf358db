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

// Verified is the result of a verification.
type Verified struct {
	Versions int       `json:"versions"`
	Packs    int       `json:"packs"`
	Files    int       `json:"files"` // number of distinct pieces
	Bytes    int64     `json:"bytes"`
	Problems []Problem `json:"problems"`
}

// Problem describes a version or a file that cannot be restored.
type Problem struct {
	Version string `json:"version"`
	Path    string `json:"path,omitempty"` // empty if the whole version is affected
	Why     string `json:"why"`
}

// piece identifies the bytes of one file in a pack.
type piece struct {
	offset, size int64
	sum          Sum
}

// verification is the state of a running Verify. It holds each distinct piece once. It looks up file names only for
// broken pieces.
type verification struct {
	*Repo
	Verified
	versions []Version
	pieces   map[string]map[piece]string // pack key → piece → problem; empty if the piece is good
	broken   bool
	reported int64 // progress reported for the current piece
}

// Verify reads all versions and all bytes that they refer to. It reports the versions and files that cannot be
// restored.
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
	return &v.Verified, v.nameBroken(ctx)
}

// list adds the pieces of a version. It reports a version whose manifest cannot be read.
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
	v.Progress.addSeen(len(m.Entries))
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

// pack verifies the pieces of one pack, with one read of the pack if possible.
func (v *verification) pack(ctx context.Context, key string, in map[piece]string) error {
	v.Packs++
	order := slices.SortedFunc(maps.Keys(in), func(a, b piece) int { return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.size, b.size)) })
	o, err := v.getPack(ctx, key, blob.GetOptions{})
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
		if !read { // the piece overlaps another one, or the body ended early
			if why, err = v.piece(ctx, key, p); err != nil {
				return err
			}
		}
		v.Files++
		v.Bytes += p.size
		v.Progress.finished(p.size, &v.reported)
		if why != "" {
			in[p], v.broken = why, true
		}
	}
	return ctx.Err()
}

// piece verifies one piece with a separate request.
func (v *verification) piece(ctx context.Context, key string, p piece) (why string, err error) {
	o, err := v.getPack(ctx, key, blob.GetOptions{Offset: p.offset, Length: p.size})
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

// readPiece skips bytes of the body and then verifies a piece. It returns the problem in why. After an error the
// rest of the body cannot be used.
func (v *verification) readPiece(body io.Reader, p piece, skip int64) (why string, err error) {
	if _, err := io.CopyN(io.Discard, body, skip); err != nil {
		return "its pack ends before it", err
	}
	sums := newSummer(p.sum.SHA256 == none.SHA256)
	if _, err := io.CopyN(sumWriter{sums}, &flow{body, v.Progress, p.size, &v.reported}, p.size); err != nil {
		return "its pack ends within it", err
	}
	e := Entry{Sum: p.sum}
	if e.verifySum(sums.sum()) != nil {
		return "its bytes are not those that were saved", nil
	}
	return "", nil
}

// sumWriter makes a summer an io.Writer.
type sumWriter struct{ *summer }

func (a sumWriter) Write(data []byte) (int, error) {
	a.add(data)
	return len(data), nil
}

// nameBroken reports the files that contain broken pieces. It ignores versions that were pruned since.
func (v *verification) nameBroken(ctx context.Context) error {
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
