package files

import (
	"context"
	"errors"
	"io/fs"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"golang.org/x/sys/unix"
)

// meaning is what an error of the kernel is in our table, and the words for it.
type meaning struct {
	errno unix.Errno
	code  api.Code
	words string
}

var meanings = []meaning{
	{unix.ENOENT, api.CodeFileNotFound, "there is no %q"},
	{unix.ENOTDIR, api.CodeNotADirectory, "%q is not a directory, or something above it is not"},
	{unix.EISDIR, api.CodeIsADirectory, "%q is a directory"},
	{unix.EEXIST, api.CodeFileExists, "%q exists"},
	{unix.ENOTEMPTY, api.CodeNotEmpty, "the directory %q is not empty"},
	{unix.EXDEV, api.CodePathOutside, "%q leads out of its root, through a link or a mount"},
	{unix.ELOOP, api.CodeInvalidPath, "%q leads through too many links"},
	{unix.ENAMETOOLONG, api.CodeInvalidPath, "%q has a name that is too long"},
	{unix.EINVAL, api.CodeInvalidPath, "%q is no name that the file system takes"},
	{unix.EACCES, api.CodeFileDenied, "the sandbox's user has no access to %q"},
	{unix.EPERM, api.CodeFileDenied, "the sandbox's user may not do that with %q"},
	{unix.EROFS, api.CodeFileDenied, "%q is on a file system that is read only"},
	{unix.ENOSPC, api.CodeDiskFull, "no space is left for %q"},
	{unix.EDQUOT, api.CodeDiskFull, "the sandbox's space is used up; %q does not fit"},
	{unix.EFBIG, api.CodeDiskFull, "%q is larger than the file system allows"},
	{unix.EAGAIN, api.CodeConflict, "%q is locked or changes all the time"},
	{unix.EBUSY, api.CodeConflict, "%q is in use"},
	{unix.ETXTBSY, api.CodeConflict, "%q is being run"},
}

// explain turns an error of the kernel into one of ours. One that is ours already, or a context's, stays.
func explain(op, path string, err error) error {
	var known *sandbox.Error
	var source *SourceError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known), errors.As(err, &source), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, fs.ErrClosed):
		return sandbox.Errorf(op, api.CodeInternal, "the directory is closed: %w", err)
	}
	for _, m := range meanings {
		if errors.Is(err, m.errno) {
			return sandbox.Errorf(op, m.code, m.words, display(path))
		}
	}
	return sandbox.Errorf(op, api.CodeInternal, "%q: %w", display(path), err)
}

// display is a path for people.
func display(path string) string {
	if path == "" {
		return "."
	}
	return clip(path)
}

func special(op, path, what string) error {
	return sandbox.Errorf(op, api.CodeSpecialFile, "%q is %s, which is never opened", display(path), what)
}
