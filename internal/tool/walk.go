package tool

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/sandbox"
)

// How far one walk goes.
const (
	maxEntries = 250_000
	maxDepth   = 64
	walkPage   = 5_000 // entries of a folder that are held at once
)

// passedBy are folders that are not looked into unless a path leads there: nobody looks for anything in
// them, and they hold most of the files.
var passedBy = []string{".git", ".hg", ".jj", ".svn", "node_modules", files.Reserved}

const passedByText = "Folders named .git, .hg, .jj, .svn, node_modules and .berth are passed by unless path leads into them."

// errEnough ends a walk whose visitor has seen enough.
var errEnough = errors.New("enough")

// walk is a way through the files below a folder, in the order of their paths, folders and links left out
// but for their names. It ends early rather than late and tells why.
type walk struct {
	fs      files.FS
	left    int // entries that may be looked at
	limited []string
	unread  int  // files and folders that could not be opened
	deep    bool // something is nested deeper than it goes
}

func newWalk(fs files.FS) *walk { return &walk{fs: fs, left: maxEntries} }

// run visits all that is not a folder. When the time is over it ends as it does with errEnough.
func (w *walk) run(ctx context.Context, dir string, visit func(files.Info) error) error {
	return w.ended(ctx, w.folder(ctx, dir, maxDepth, visit))
}

// ended notes what kept a walk from seeing everything; that is no error.
func (w *walk) ended(ctx context.Context, err error) error {
	if overtime(ctx) {
		w.because("the time was over before all of it was looked through")
		err = nil
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	if w.deep {
		w.because("what is nested deeper than %d folders was left out", maxDepth)
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
	case slices.Contains(passedBy, path.Base(e.Path)):
		return nil
	case depth == 1 || len(e.Path) > files.MaxPath:
		w.deep = true
		return nil
	}
	return w.pass(w.folder(ctx, e.Path, depth-1, visit))
}

// pass goes on past what vanished, was changed or is closed to the sandbox's user.
func (w *walk) pass(err error) error {
	switch sandbox.CodeOf(err) {
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

// below is a path relative to a folder above it.
func below(dir, name string) string {
	if dir == "" {
		return name
	}
	return strings.TrimPrefix(name, dir+"/")
}
