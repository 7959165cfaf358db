package blob

import (
	"context"
	"io"
)

// Checked is a store that may be told what the checksums of an object are, and takes no other bytes for it.
// What was hashed anyway is then sent without being hashed again.
type Checked interface {
	// PutChecked writes the first size bytes of r as an object in one request, if they have the checksums. It
	// reads them as often as it needs to, and is for at most CheckedMost bytes. After a failure the object may
	// have been written, as after one of Put; what was written has the checksums.
	PutChecked(ctx context.Context, key string, r io.ReaderAt, size int64, sums Sums) error
	CheckedMost() int64
}

// Sums are the checksums of an object.
type Sums struct {
	SHA256 [32]byte
	CRC32C uint32
}

// As finds an ability of a store, or of what it is wrapped around.
func As[T any](s Store) (able T, ok bool) {
	for {
		if able, ok = s.(T); ok {
			return able, true
		}
		outer, wraps := s.(interface{ Unwrap() Store })
		if !wraps {
			return able, false
		}
		s = outer.Unwrap()
	}
}
