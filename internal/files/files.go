// Package files lists, reads, writes and packs the files of a sandbox for the API. It never accesses a file outside one
// directory.
//
// [FS] is the interface to the files. [Dir] implements it for a directory on this machine. [List], [Tree], [Pack] and
// [Unpack] work with any FS. [Clean] converts a path of a request to one for an FS.
//
// All content of the directory is treated as hostile: names, links, special files, and concurrent changes. All
// implementations of FS follow these rules:
//
//   - The kernel of the machine with the files resolves a path, which must not leave the directory: a link or
//     a mount that leads outside is an error with the code path_outside_workspace.
//   - Links are listed as links, with the text of their target. Reading and listing follow a link that
//     stays inside; writing, removing and moving act on the link itself.
//   - FIFOs, sockets, devices and other users' files with more than one hard link are listed, removed and
//     moved, but never opened or written: that is an error with the code special_file. Files of the sandbox's
//     user may have any number of hard links.
package files

import (
	"context"
	"io"
	"io/fs"
	"time"
)

// The roots of a sandbox's files.
const (
	WorkingDir = "working_dir" // the workspace
	HomeDir    = "home_dir"
)

// Info describes one file. It never describes the target of a link.
type Info struct {
	Path    string      // relative to the root, with slashes; "" is the root itself
	Mode    fs.FileMode // type and permissions
	Size    int64
	ModTime time.Time
	Target  string // the text of a symbolic link; empty for other files
	Tag     string // changes whenever the file may have changed
}

// WriteOptions configure a write.
type WriteOptions struct {
	Perm    fs.FileMode // zero: the permissions of the existing file, or 0644 for a new one
	ModTime time.Time   // zero: now
	New     bool        // fail with file_exists if the path exists
	Lazy    bool        // do not wait for the disk
}

// FS is one root of a sandbox's files. Paths are relative with slashes, as [Clean] returns them; names that the FS
// listed are also accepted. Errors are *fault.Error with a code of the api's table. All methods are safe for
// concurrent use.
type FS interface {
	Stat(ctx context.Context, path string) (Info, error)
	// ReadDir lists the first limit entries of a directory with names greater than after, sorted by name. If it
	// returns fewer than limit, there are no more. The memory that it uses is bounded by limit, independent of the
	// directory's size.
	ReadDir(ctx context.Context, path, after string, limit int) ([]Info, error)
	// Open opens a regular file for reading.
	Open(ctx context.Context, path string) (Reader, error)
	// Write replaces or creates a regular file atomically with the bytes of from, and creates missing directories.
	// If reading fails, nothing changes. It reports whether the file is new.
	Write(ctx context.Context, path string, from io.Reader, opts WriteOptions) (info Info, created bool, err error)
	Mkdir(ctx context.Context, path string) error // with parents; nil if it exists
	Symlink(ctx context.Context, target, path string) error
	// Remove removes a file, a link or, if recursive is set, a directory with all its contents.
	Remove(ctx context.Context, path string, recursive bool) error
	// Rename moves a file or directory and creates missing directories; it replaces a file only if replace is set.
	Rename(ctx context.Context, from, to string, replace bool) error
	Close() error
}

// Reader reads one open file.
type Reader interface {
	io.ReadSeekCloser
	io.ReaderAt
	Info() Info
}
