package workspace

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/berthdev/berth/internal/blob"
)

// Snapshot reads the files of one version without restoring it. It is safe for concurrent use.
type Snapshot struct {
	Version  Version
	Manifest *Manifest

	repo *Repo
	mu   sync.Mutex
	near *windows // cached parts of packs for the next files; nil before the second read
	read bool     // a file was read before
}

// SnapshotOf returns a snapshot of a version whose manifest is known.
func (r *Repo) SnapshotOf(v Version, m *Manifest) *Snapshot {
	return &Snapshot{Version: v, Manifest: m, repo: r}
}

// Newest returns the newest version without its manifest. It returns CodeUnknownVersion if there is none.
func (r *Repo) Newest(ctx context.Context) (Version, error) { return r.versionOf(ctx, "") }

// ManifestOf reads the manifest of a version. It returns an error if the version exceeds the limits.
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

// Large reports whether a file must be read with Stream. Smaller files are read with Bytes.
func (e *Entry) Large() bool { return e.Size >= largeFile }

// Bytes returns the bytes of a small file after it has verified the checksum.
func (s *Snapshot) Bytes(ctx context.Context, e *Entry) ([]byte, error) {
	if e.Size == 0 {
		return nil, nil
	}
	own := *e // a copy, because verifyData sets missing checksums
	e = &own
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.read {
		s.read = true // most callers read one file, so the first read gets only its bytes
		return s.exact(ctx, e)
	}
	if s.near == nil {
		s.near = &windows{Repo: s.repo, packs: s.Manifest.Packs}
	}
	data, err := s.near.small(ctx, e)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(data), e.verifyData(data)
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
	return data, e.verifyData(data)
}

// Stream reads a file from an offset. With offset 0 it verifies the file: the last read fails if the checksum does
// not match.
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
	o, err := s.repo.getPack(ctx, pack.Key, blob.GetOptions{Offset: e.At.Offset + offset, Length: e.Size - offset})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", pack.Key, err)
	}
	return o.Body, nil
}
