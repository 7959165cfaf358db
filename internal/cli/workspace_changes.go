package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/workspace"
)

// changes are those of the directory since base; without a base everything in it is one.
func (t *worktree) changes(ctx context.Context, base *workspace.Index) ([]workspace.Change, error) {
	if base == nil {
		base = new(workspace.Index)
	}
	here, err := t.manifest(ctx, base)
	if err != nil {
		return nil, err
	}
	return workspace.Diff(&base.Manifest, here).Changes, nil
}

// manifest is the directory as it is. Only files are read that may have changed since base.
func (t *worktree) manifest(ctx context.Context, base *workspace.Index) (*workspace.Manifest, error) {
	scan, err := workspace.Scan(ctx, t.dir, workspace.ScanOptions{Ignore: t.ignore})
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(t.path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	m := new(workspace.Manifest)
	for i := range scan.Entries {
		e, err := entryOf(ctx, root, base, &scan.Entries[i])
		switch {
		case errors.Is(err, fs.ErrNotExist): // gone meanwhile
		case err != nil:
			return nil, err
		default:
			m.Entries = append(m.Entries, e)
		}
	}
	return m, nil
}

// entryOf is what was seen with its checksum, from the base where it is surely the same.
func entryOf(ctx context.Context, root *os.Root, base *workspace.Index, seen *workspace.Seen) (e workspace.Entry, err error) {
	at, ok := slices.BinarySearchFunc(base.Entries, seen.Path, func(e workspace.Entry, path string) int { return cmp.Compare(e.Path, path) })
	if ok && untouched(base, at, seen) {
		return base.Entries[at], nil
	}
	e = workspace.Entry{Path: seen.Path, Kind: seen.Kind, Mode: seen.Mode, Size: seen.Size, ModTime: seen.ModTime, Target: seen.Target}
	if e.Kind == workspace.File && len(base.Entries) > 0 { // compared with nothing, it is new whatever is in it
		e.Sum.SHA256, err = sumOf(ctx, root, e.Path)
	}
	return e, err
}

// untouched reports whether a file is surely what it was: nothing about it has changed, and it was not
// changed just when it was last looked at.
func untouched(base *workspace.Index, at int, seen *workspace.Seen) bool {
	e, stamp := &base.Entries[at], base.Stamps[at]
	return e.Kind == seen.Kind && e.Size == seen.Size && e.ModTime == seen.ModTime && e.Mode == seen.Mode && e.Target == seen.Target &&
		stamp == seen.Stamp && stamp.Inode != 0 && stamp.ChangeTime < base.Scanned-int64(time.Second)
}

// sumOf reads a file for its checksum, and nothing that came in its place.
func sumOf(ctx context.Context, root *os.Root, path string) (sum [sha256.Size]byte, err error) {
	file, err := root.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return sum, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() || ctx.Err() != nil {
		return sum, errors.Join(err, context.Cause(ctx))
	}
	h := sha256.New()
	_, err = io.Copy(h, file)
	return [sha256.Size]byte(h.Sum(nil)), err
}

// fewOf names the first of some changes, and counts the rest.
func fewOf(changes []workspace.Change) string {
	const most = 3
	var names []string
	for _, c := range changes[:min(most, len(changes))] {
		names = append(names, c.Path+" ("+string(c.Kind)+")")
	}
	text := strings.Join(names, ", ")
	if rest := len(changes) - most; rest > 0 {
		text += " and " + plural(rest, "more", "more")
	}
	return text
}
