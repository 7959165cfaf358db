// Package open opens an object store by its address.
package open

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/blob/dirblob"
	"github.com/berthdev/berth/internal/blob/s3blob"
	"github.com/berthdev/berth/internal/fault"
)

// Store opens the store at an address, which has one of these forms:
//
//	s3://bucket/prefix?endpoint=…&region=…   S3; see [s3blob.Parse]
//	file:///path, or a path                  a directory
//	none                                     no store; the result is nil
//
// A missing directory is created. Store sends no request to S3; the first call of the store, for example
// [blob.Probe], shows whether the address is right.
func Store(ctx context.Context, address string) (blob.Store, error) {
	scheme, _, isURL := strings.Cut(address, "://")
	switch {
	case address == "none":
		return nil, nil
	case address == "" || strings.ContainsRune(address, 0):
		return nil, invalid("%q is no address", address)
	case !isURL:
		return directory(ctx, address)
	case scheme == "file":
		return fileURL(ctx, address)
	case scheme == "s3":
		o, err := s3blob.Parse(address)
		if err != nil {
			return nil, err
		}
		s, err := s3blob.Open(ctx, o)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	return nil, invalid("%q is not a kind of store that Berth knows", scheme+"://")
}

func fileURL(ctx context.Context, address string) (blob.Store, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !filepath.IsAbs(u.Path) {
		return nil, invalid("it is not file:// and an absolute path")
	}
	return directory(ctx, u.Path)
}

func directory(ctx context.Context, path string) (blob.Store, error) {
	s, err := dirblob.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func invalid(format string, args ...any) error {
	e := fault.Errorf("open object store", api.CodeInvalidConfig, format, args...)
	e.Hint = "Write s3://bucket/prefix?endpoint=…&region=…, file:///path, a path, or none."
	return e
}
