package dirblob

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/fault"
)

// damaged returns the error for a directory that is not a valid store.
func damaged(format string, args ...any) error {
	return &fault.Error{Code: api.CodeBlobDamaged, Err: fmt.Errorf(format, args...)}
}

// explain adds the operation, code and hint to an error of a call with a key. Errors of package blob get only the
// operation.
func (s *Store) explain(op, key string, err error) error {
	var foreign *unreadable
	if errors.As(err, &foreign) {
		return fmt.Errorf("%s %s: read the source: %w", op, key, foreign.error)
	}
	if errors.Is(err, unix.ENOENT) {
		err = blob.ErrNotFound
	}
	for _, known := range []error{blob.ErrNotFound, blob.ErrPrecondition, blob.ErrNotModified, blob.ErrRange} {
		if errors.Is(err, known) {
			return fmt.Errorf("%s %s: %w", op, key, err)
		}
	}
	return explain(op+" "+key+" in "+s.String(), "", err)
}

// explain adds the operation, code and hint to an error.
func explain(op, path string, err error) error {
	if path != "" {
		op += " " + path
	}
	code, hint := classify(err)
	if code == "" {
		return fmt.Errorf("%s: %w", op, err)
	}
	return &fault.Error{Op: op, Code: code, Retry: code.Info().Retryable, Hint: hint, Err: err}
}

func classify(err error) (code api.Code, hint string) {
	var known *fault.Error
	switch {
	case errors.As(err, &known):
		return known.Code, known.Hint
	case errors.Is(err, context.DeadlineExceeded):
		return api.CodeTimeout, ""
	case errors.Is(err, context.Canceled):
		return "", ""
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return api.CodeBlobFull, ""
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		return api.CodeBlobDenied, fmt.Sprintf("Let the user that Berth runs as (uid %d) write there: change the directory's owner or its mount.", unix.Geteuid())
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, errNotPlain):
		return api.CodeBlobDamaged, "An object store has only regular files and folders; remove the other entry."
	case errors.Is(err, unix.EIO), errors.Is(err, unix.ESTALE), errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return api.CodeBlobUnreachable, ""
	}
	return "", ""
}
