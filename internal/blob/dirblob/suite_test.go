package dirblob

import (
	"testing"

	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/blob/blobtest"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestSuite(t *testing.T) {
	blobtest.Run(t, blobtest.Harness{New: func(t *testing.T) blob.Store { return open(t, t.TempDir()) }})
}
