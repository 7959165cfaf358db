package workspace

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/berthdev/berth/internal/blob"
)

// Snapshot is one version that is read in place, without a tree to restore it into. It is safe for concurrent
// use.
type Snapshot struct {
	Version  Version
	Manifest *Manifest

	repo *Repo
	mu   sync.Mutex
	near *windows // parts of packs that were read, for the files beside them; nil before the second read
	read bool
}

// SnapshotOf is a snapshot of a version whose manifest is already known.
func (r *Repo) SnapshotOf(v Version, m *Manifest) *Snapshot {
	return &Snapshot{Version: v, Manifest: m, repo: r}
}

// Newest returns the newest version without its manifest. One that does not exist is CodeUnknownVersion.
func (r *Repo) Newest(ctx context.Context) (Version, error) { return r.versionOf(ctx, "") }

// ManifestOf reads the manifest of a version. It refuses one that has more entries than the limits allow.
func (r *Repo) ManifestOf(ctx context.Context, v Version) (*Manifest, error) {
	if v.Files > r.Limits.entries() {
		return nil, tooLarge("version %s has %d files, more than %d", v.ID, v.Files, r.Limits.entries())
	}
	m, err := r.manifestOf(ctx, v)
	if err != nil {
		return nil, err
	}
	return m, r.Limits.check(m)
}

// Large reports whether a file is streamed by Stream; the others are read whole by Bytes.
func (e *Entry) Large() bool { return e.Size >= largeFile }

// Bytes reads a small file and checks that its bytes are those of the version.
func (s *Snapshot) Bytes(ctx context.Context, e *Entry) ([]byte, error) {
	if e.Size == 0 {
		return nil, nil
	}
	own := *e // checking completes the checksums of an entry
	e = &own
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.read {
		s.read = true // most readers want one file: the first read is exact
		return s.exact(ctx, e)
	}
	if s.near == nil {
		s.near = &windows{Repo: s.repo, packs: s.Manifest.Packs}
	}
	data, err := s.near.small(ctx, e)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(data), e.believe(data)
}

func (s *Snapshot) exact(ctx context.Context, e *Entry) ([]byte, error) {
	body, err := s.open(ctx, e, 0)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data := make([]byte, e.Size)
	if _, err := io.ReadFull(body, data); err != nil {
		return nil, fmt.Errorf("read the bytes of %s: %w", e.Path, err)
	}
	return data, e.believe(data)
}

// Stream reads a file from an offset on. One that is read from its beginning to its end is checked: the last
// read fails if the bytes are not those of the version.
func (s *Snapshot) Stream(ctx context.Context, e *Entry, offset int64) (io.ReadCloser, error) {
	body, err := s.open(ctx, e, offset)
	if err != nil {
		return nil, err
	}
	if offset > 0 {
		return struct {
			io.Reader
			io.Closer
		}{io.LimitReader(body, e.Size-offset), body}, nil
	}
	own := *e
	return struct {
		io.Reader
		io.Closer
	}{&summing{r: body, left: e.Size, e: &own, sums: newSummer(e.Sum.SHA256 == none.SHA256)}, body}, nil
}

func (s *Snapshot) open(ctx context.Context, e *Entry, offset int64) (io.ReadCloser, error) {
	pack := s.Manifest.Packs[e.At.Pack]
	o, err := s.repo.Store.Get(ctx, s.repo.Prefix+pack.Key, blob.GetOptions{Offset: e.At.Offset + offset, Length: e.Size - offset})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", pack.Key, err)
	}
	return o.Body, nil
}
