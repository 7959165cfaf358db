package workspace

import (
	"hash"
	"io"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// summing passes a file's bytes on and, at their end, refuses them if they are not those of the entry.
type summing struct {
	r   io.Reader
	e   *Entry
	sha hash.Hash
}

func (s *summing) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.sha.Write(p[:n])
	if err == io.EOF && verified && [32]byte(s.sha.Sum(nil)) != s.e.Sum.SHA256 {
		return n, altered(s.e)
	}
	return n, err
}

// altered is a file whose stored bytes are not those that were saved.
func altered(e *Entry) error {
	return sandbox.Errorf("restore", api.CodeBadManifest, "the stored bytes of %s are not those that were saved", clip(e.Path))
}
