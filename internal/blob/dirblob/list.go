package dirblob

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/blob"
)

// List yields objects ordered by key; see [blob.Store]. It keeps only a batch of a folder's names in memory, and
// reads the folder again for each batch.
func (s *Store) List(ctx context.Context, prefix string, o blob.ListOptions) iter.Seq2[blob.Entry, error] {
	return func(yield func(blob.Entry, error) bool) {
		l := &lister{Store: s, ctx: ctx, prefix: prefix, ListOptions: o, yield: yield}
		err := l.start()
		if err != nil && err != errEnough {
			yield(blob.Entry{}, s.explain("list objects", prefix, err))
		}
	}
}

// lister is the state of one List call.
type lister struct {
	*Store
	ctx    context.Context
	prefix string
	blob.ListOptions
	yield func(blob.Entry, error) bool
}

// errEnough ends the list when the caller stops the iteration.
var errEnough = errors.New("enough")

// start lists the folder that contains all keys with the prefix.
func (l *lister) start() error {
	base := l.prefix[:strings.LastIndexByte(l.prefix, '/')+1]
	if base != "" && !isKey(base[:len(base)-1]) {
		return nil // base is no valid key, so nothing can be below it
	}
	dir, err := l.folderAt(folderOf(base))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.close()
	return l.walk(dir, base)
}

// walk yields the entries of one folder. The keys of all its entries begin with base.
func (l *lister) walk(dir folder, base string) error {
	var last *entry
	for {
		entries, more, err := l.read(dir, base, last)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := l.ctx.Err(); err != nil {
				return err
			}
			if err := l.visit(dir, base, e); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
		last = &entries[len(entries)-1]
	}
}

// read returns the next batch of a folder's wanted entries in order, starting after last.
func (l *lister) read(dir folder, base string, last *entry) (batch []entry, more bool, err error) {
	for names, err := range dir.names() {
		if err != nil {
			return nil, false, err
		}
		for _, name := range names {
			if e, ok := entryOf(name); ok && (last == nil || e.text > last.text) && l.wants(base+e.text, e.end) {
				batch = append(batch, e)
			}
		}
		if len(batch) >= 2*l.batch {
			batch, more = l.cut(batch), true
		}
	}
	if len(batch) > l.batch {
		more = true
	}
	return l.cut(batch), more, l.ctx.Err()
}

// cut sorts the entries and returns the first l.batch of them.
func (l *lister) cut(batch []entry) []entry {
	slices.SortFunc(batch, func(a, b entry) int { return strings.Compare(a.text, b.text) })
	return batch[:min(len(batch), l.batch)]
}

// wants reports whether an entry, or an entry below it, may be yielded.
func (l *lister) wants(full, end string) bool {
	if end == objectEnd {
		return full > l.After && strings.HasPrefix(full, l.prefix)
	}
	switch {
	case !strings.HasPrefix(full, l.prefix) && !strings.HasPrefix(l.prefix, full):
		return false
	case l.folds(full, end):
		return full > l.After
	}
	return full > l.After || strings.HasPrefix(l.After, full)
}

// folds reports whether a folder is yielded as one entry instead of its contents.
func (l *lister) folds(full, end string) bool {
	return l.Folders && end == folderEnd && len(full) > len(l.prefix)
}

func (l *lister) visit(dir folder, base string, e entry) error {
	full := base + e.text
	if e.end == objectEnd {
		return l.object(dir, full, e)
	}
	sub, err := dir.sub(e.file())
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer sub.close()
	if !l.folds(full, e.end) {
		return l.walk(sub, full)
	}
	if some, err := l.holdsSome(sub, full); err != nil || !some {
		return err
	}
	return l.emit(blob.Entry{Key: full, Folder: true})
}

func (l *lister) object(dir folder, full string, e entry) error {
	if !isKey(full) {
		return nil
	}
	var st unix.Stat_t
	err := unix.Fstatat(dir.descriptor(), e.file(), &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return damaged("%s: %w", full, errNotPlain)
	}
	return l.emit(blob.Entry{Key: full, Size: st.Size, Tag: tagOf(&st), At: writtenAt(&st)})
}

func (l *lister) emit(e blob.Entry) error {
	if !l.yield(e, nil) {
		return errEnough
	}
	return nil
}

// holdsSome reports whether a folder contains an object at any depth. An empty folder is not listed.
func (l *lister) holdsSome(dir folder, full string) (bool, error) {
	for names, err := range dir.names() {
		if err != nil {
			return false, err
		}
		for _, name := range names {
			e, ok := entryOf(name)
			if !ok {
				continue
			}
			if e.end == objectEnd && isKey(full+e.text) {
				return true, nil
			}
			if some, err := l.someBelow(dir, full, e); some || err != nil {
				return some, err
			}
		}
	}
	return false, l.ctx.Err()
}

func (l *lister) someBelow(dir folder, full string, e entry) (bool, error) {
	if e.end == objectEnd {
		return false, nil
	}
	sub, err := dir.sub(e.file())
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer sub.close()
	return l.holdsSome(sub, full+e.text)
}
