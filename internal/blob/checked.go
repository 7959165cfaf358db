package blob

import (
	"context"
	"io"
)

// Checked is a store that accepts the checksums of an object and refuses other bytes. It does not compute the
// checksums again.
type Checked interface {
	// PutChecked writes the first size bytes of r as an object in one request, if they have the checksums. It may
	// read the bytes repeatedly. Size is at most CheckedMost. After an error the object may have been written, as
	// after Put, but only with matching checksums.
	PutChecked(ctx context.Context, key string, r io.ReaderAt, size int64, sums Sums) error
	CheckedMost() int64
}

// Sums are the checksums of an object.
type Sums struct {
	SHA256 [32]byte
	CRC32C uint32
}

// As returns the optional interface T of a store, or of a store that it wraps.
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
