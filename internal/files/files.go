// Package files is a sandbox's files as the API shows them: listed, read, written and packed, within one
// directory and never outside it.
//
// [FS] is the seam; [Dir] is a directory on this machine. [List], [Tree], [Pack] and [Unpack] work on any
// FS. [Clean] is where a path from outside becomes one that an FS takes.
//
// Everything below the directory is hostile: names, links, special files, and whatever changes while it
// is being looked at. The rules, which every FS keeps:
//
//   - A path is resolved by whoever holds the files, in one step, and never leads out of the directory: a
//     link that does, or a mount, is an error of code path_outside_workspace.
//   - Links are listed as links, with the text of their target. Reading and listing follow a link that
//     stays inside; writing, removing and moving act on the link itself.
//   - FIFOs, sockets, devices and other users' files with further hard links are special_file: listed,
//     removed and moved, but never opened or written. A user's own files have as many names as it likes.
package files

import (
	"context"
	"io"
	"io/fs"
	"time"
)

// The roots that a sandbox's files have.
const (
	WorkingDir = "working_dir" // the workspace
	HomeDir    = "home_dir"
)

// Info describes one file. It is never the target of a link.
type Info struct {
	Path    string      // relative to the root, slashes, no leading one; "" is the root itself
	Mode    fs.FileMode // type and permissions
	Size    int64
	ModTime time.Time
	Target  string // of a symbolic link, as it is written
	Tag     string // another one whenever the file may have changed
}

// WriteOptions say how a file is written.
type WriteOptions struct {
	Perm    fs.FileMode // zero keeps the permissions there are, or is 0644
	ModTime time.Time   // zero is now
	New     bool        // fail with file_exists if there is something
	Lazy    bool        // do not wait for the disk
}

// FS is one root of a sandbox's files. Paths are relative with slashes, as [Clean] returns them; names
// that FS itself listed will do, too. Errors are *sandbox.Error with a code of the api's table. All
// methods are safe for concurrent use.
type FS interface {
	Stat(ctx context.Context, path string) (Info, error)
	// ReadDir lists at most limit entries of one directory, those whose names come after the given one,
	// sorted by name. Fewer than limit means that there are no more. It takes memory for limit entries,
	// however many there are.
	ReadDir(ctx context.Context, path, after string, limit int) ([]Info, error)
	// Open opens a regular file for reading.
	Open(ctx context.Context, path string) (Reader, error)
	// Write replaces or creates a regular file at once with what it reads, making missing directories.
	// When reading fails, nothing has changed. It says whether the file is new.
	Write(ctx context.Context, path string, from io.Reader, opts WriteOptions) (info Info, created bool, err error)
	Mkdir(ctx context.Context, path string) error // with parents; nil if it is there
	Symlink(ctx context.Context, target, path string) error
	// Remove removes a file, a link or, if asked to, a directory with everything in it.
	Remove(ctx context.Context, path string, recursive bool) error
	// Rename moves a file or directory, making missing directories; it replaces a file only if asked to.
	Rename(ctx context.Context, from, to string, replace bool) error
	Close() error
}

// Reader reads one open file.
type Reader interface {
	io.ReadSeekCloser
	io.ReaderAt
	Info() Info
}
