package tool

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
)

// Limits of one walk.
const (
	maxEntries = 250_000 // files and folders
	maxDepth   = 64      // levels of folders
	walkPage   = 5_000   // entries of a folder that are in memory at once
)

// skippedFolders lists the names of folders that a walk skips unless it starts below them. They hold most of the files, and
// agents seldom search them.
var skippedFolders = []string{".git", ".hg", ".jj", ".svn", "node_modules", files.Reserved}

const skippedText = "Folders named .git, .hg, .jj, .svn, node_modules and .berth are passed by unless path leads into them."

// errEnough is the error of a visitor that stops a walk. The walk then ends without an error.
var errEnough = errors.New("enough")

// walk visits the files below a folder in the order of their paths. It does not follow links. It stops at limits and
// records them.
type walk struct {
	fs      files.FS
	left    int      // entries that may still be read
	limited []string // the limits that were reached, in words
	unread  int      // files and folders that could not be opened
	deep    bool     // some folders are nested deeper than maxDepth
}

func newWalk(fs files.FS) *walk { return &walk{fs: fs, left: maxEntries} }

// run calls visit for every entry that is not a folder. At the tool's timeout it ends without an error, as with
// errEnough.
func (w *walk) run(ctx context.Context, dir string, visit func(files.Info) error) error {
	return w.ended(ctx, w.folder(ctx, dir, maxDepth, visit))
}

// ended records why a walk did not visit all files. It returns nil for the errors that only end a walk early.
func (w *walk) ended(ctx context.Context, err error) error {
	if overtime(ctx) {
		w.because("the time was over before all of it was looked through")
		err = nil
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	if w.deep {
		w.because("folders nested deeper than %d were left out", maxDepth)
	}
	if w.unread > 0 {
		w.because("%d files or folders could not be read", w.unread)
	}
	return err
}

func (w *walk) folder(ctx context.Context, dir string, depth int, visit func(files.Info) error) error {
	for after := ""; ; {
		size := min(walkPage, w.left)
		if size == 0 {
			w.because("only the first %d files and folders were looked at", maxEntries)
			return errEnough
		}
		entries, err := w.fs.ReadDir(ctx, dir, after, size)
		if err != nil {
			return err
		}
		w.left -= len(entries)
		for _, e := range entries {
			if err := w.entry(ctx, e, depth, visit); err != nil {
				return err
			}
		}
		if len(entries) < size {
			return nil
		}
		after = path.Base(entries[len(entries)-1].Path)
	}
}

func (w *walk) entry(ctx context.Context, e files.Info, depth int, visit func(files.Info) error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !e.Mode.IsDir():
		return w.pass(visit(e))
	case slices.Contains(skippedFolders, path.Base(e.Path)):
		return nil
	case depth == 1 || len(e.Path) > files.MaxPath:
		w.deep = true
		return nil
	}
	return w.pass(w.folder(ctx, e.Path, depth-1, visit))
}

// pass ignores the errors of files that vanished, changed, or cannot be read by the sandbox's user.
func (w *walk) pass(err error) error {
	switch fault.CodeOf(err) {
	case api.CodeFileDenied:
		w.unread++
		return nil
	case api.CodeFileNotFound, api.CodeNotADirectory, api.CodeIsADirectory, api.CodePathOutside, api.CodeInvalidPath, api.CodeSpecialFile:
		return nil
	}
	return err
}

func (w *walk) because(format string, args ...any) {
	w.limited = append(w.limited, fmt.Sprintf(format, args...))
}

// below returns a path relative to the folder dir above it.
func below(dir, name string) string {
	if dir == "" {
		return name
	}
	return strings.TrimPrefix(name, dir+"/")
}
