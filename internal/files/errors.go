package files

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// meaning is the code and the message for an error of the kernel.
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

// explain converts an error of the kernel to a fault.Error. A fault.Error or an error of the context is returned
// unchanged.
func explain(op, path string, err error) error {
	var known *fault.Error
	var source *SourceError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known), errors.As(err, &source), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, fs.ErrClosed):
		return fault.Errorf(op, api.CodeInternal, "the directory is closed: %w", err)
	}
	for _, m := range meanings {
		if errors.Is(err, m.errno) {
			return fault.Errorf(op, m.code, m.words, display(path))
		}
	}
	return fault.Errorf(op, api.CodeInternal, "%q: %w", display(path), err)
}

// display formats a path for a message.
func display(path string) string {
	if path == "" {
		return "."
	}
	return clip(path)
}

func specialFileError(op, path, what string) error {
	return fault.Errorf(op, api.CodeSpecialFile, "%q is %s, which is never opened", display(path), what)
}
