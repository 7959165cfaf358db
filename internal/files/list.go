package files

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"path"
	"slices"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// ListOptions configure a list.
type ListOptions struct {
	Path    string // a directory, as Clean returns it
	Depth   int    // levels; zero means one
	Hidden  bool   // include names that begin with a dot, and their contents
	Pattern string // as in path.Match: with a slash for the path below Path, without for the name
	Limit   int    // maximum number; zero means 1,000
	Cursor  string // Next of the previous page
}

// Page is one page of a list.
type Page struct {
	Items []Info
	Next  string // cursor of the next page; empty on the last
}

// maxScan is the maximum number of entries that are read for one page. A page that reaches it has fewer items than
// requested, or none.
const maxScan = 100_000

// List lists the contents of a directory: each directory before its contents, names in byte order. Directories that
// cannot be read are listed without contents; entries nested too deep for a path are left out.
func List(ctx context.Context, fsys FS, o ListOptions) (Page, error) {
	if o.Limit <= 0 {
		o.Limit = 1000
	}
	if _, err := path.Match(o.Pattern, ""); err != nil {
		return Page{}, fault.Errorf("list folder", api.CodeInvalidRequest, "the pattern %q is not valid", clip(o.Pattern))
	}
	after, err := parseCursor(o)
	if err != nil {
		return Page{}, err
	}
	l := &lister{ctx: ctx, fs: fsys, ListOptions: o, left: maxScan}
	if err := l.walk(o.Path, after, max(o.Depth, 1)); err != nil {
		return Page{}, err
	}
	return l.page(), nil
}

// lister walks a tree for one page. It reads one item more than requested, to know whether there is a next page.
type lister struct {
	ListOptions
	ctx  context.Context
	fs   FS
	out  []Info
	last string // the last entry read
	left int    // entries that may still be read
}

func (l *lister) full() bool { return len(l.out) > l.Limit || l.left <= 0 }

func (l *lister) page() Page {
	switch {
	case len(l.out) > l.Limit:
		l.out = l.out[:l.Limit]
		return Page{l.out, cursorAt(l.ListOptions, l.out[l.Limit-1].Path)}
	case l.left <= 0:
		return Page{l.out, cursorAt(l.ListOptions, l.last)}
	}
	return Page{l.out, ""}
}

// walk lists one directory, starting after the entry whose path below dir is after.
func (l *lister) walk(dir string, after []string, depth int) error {
	from := ""
	if len(after) > 0 {
		from = after[0]
		if err := l.resume(join(dir, from), after[1:], depth); err != nil {
			return err
		}
	}
	for !l.full() {
		size := min(l.Limit+1, 1000, l.left)
		entries, err := l.fs.ReadDir(l.ctx, dir, from, size)
		if err != nil {
			return err
		}
		l.left -= len(entries)
		for _, e := range entries {
			if err := l.visit(e, depth); err != nil || len(l.out) > l.Limit {
				return err
			}
		}
		if len(entries) < size {
			return nil
		}
		from = path.Base(entries[len(entries)-1].Path)
	}
	return nil
}

// resume continues below the last entry of the previous page.
func (l *lister) resume(name string, after []string, depth int) error {
	if depth == 1 || l.hides(name) {
		return nil
	}
	info, err := l.fs.Stat(l.ctx, name)
	if err != nil || !info.Mode.IsDir() {
		return passable(err)
	}
	return passable(l.walk(name, after, depth-1))
}

func (l *lister) visit(e Info, depth int) error {
	if l.hides(e.Path) {
		return nil
	}
	l.last = e.Path
	if l.matches(e.Path) {
		l.out = append(l.out, e)
	}
	if depth == 1 || !e.Mode.IsDir() || len(e.Path) > MaxPath || l.full() {
		return nil
	}
	return passable(l.walk(e.Path, nil, depth-1))
}

func (l *lister) hides(name string) bool {
	return !l.Hidden && strings.HasPrefix(path.Base(name), ".")
}

func (l *lister) matches(name string) bool {
	switch {
	case l.Pattern == "":
		return true
	case !strings.Contains(l.Pattern, "/"):
		name = path.Base(name)
	default:
		name = below(l.Path, name)
	}
	ok, _ := path.Match(l.Pattern, name) // the pattern was checked before
	return ok
}

// below returns a path relative to a directory above it.
func below(dir, name string) string {
	if dir == "" {
		return name
	}
	return strings.TrimPrefix(name, dir+"/")
}

// passable ignores errors of a directory that vanished, changed or was closed since it was listed.
func passable(err error) error {
	if err == nil || slices.Contains([]api.Code{
		api.CodeFileNotFound, api.CodeNotADirectory, api.CodePathOutside, api.CodeFileDenied, api.CodeInvalidPath,
	}, fault.CodeOf(err)) {
		return nil
	}
	return err
}

// cursorAt returns a cursor for the position after an entry. Its checksum detects a cursor that was truncated or
// belongs to another directory. A forged cursor does no harm: its path is resolved below the root like any other.
func cursorAt(o ListOptions, entry string) string {
	rest := below(o.Path, entry)
	raw := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(o.Path+"\x00"+rest)))
	return base64.RawURLEncoding.EncodeToString(append(raw, rest...))
}

func parseCursor(o ListOptions) (after []string, err error) {
	if o.Cursor == "" {
		return nil, nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(o.Cursor)
	if err != nil || len(raw) < 5 || cursorAt(ListOptions{Path: o.Path}, join(o.Path, string(raw[4:]))) != o.Cursor {
		return nil, badCursor()
	}
	after = strings.Split(string(raw[4:]), "/")
	if slices.ContainsFunc(after, func(s string) bool { return s == "" || s == "." || s == ".." || strings.Contains(s, "\x00") }) {
		return nil, badCursor()
	}
	return after, nil
}

func badCursor() error {
	return fault.Errorf("list folder", api.CodeInvalidCursor, "the cursor does not belong to this list, or was changed")
}
