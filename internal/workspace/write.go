package workspace

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/blob"
)

const (
	rangeGap  = 128 << 10 // ranges of a pack that are this near are read as one
	rangeMost = 16 << 20  // of several files; a large file is read in one go
	streams   = 8         // ranges that are read at once
)

// item is one file to write, in as many places as it has to be.
type item struct {
	e     *Entry
	steps []*Step
}

// span is a range of a pack and the files in it, by offset.
type span struct {
	pack     int
	from, to int64
	items    []item
}

// writer writes what a version has and the tree has not.
type writer struct {
	*pull
	stamps       []Stamp
	files, moved atomic.Int64
}

func newWriter(p *pull) *writer { return &writer{pull: p, stamps: make([]Stamp, len(p.there.Entries))} }

// all writes links and files, several ranges at once, each file only once its bytes are what the version
// says.
func (w *writer) all(ctx context.Context) error {
	items, err := w.easy()
	if err != nil {
		return err
	}
	var bytes int64
	for i := range items {
		bytes += items[i].e.Size
	}
	w.Progress.expect(len(items), bytes)
	spans := w.spans(items)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(streams)
	for i := range spans {
		g.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return w.span(ctx, &spans[i])
		})
	}
	err = g.Wait()
	w.stats.FilesDownloaded += int(w.files.Load())
	w.stats.BytesTransferred += w.moved.Load()
	return err
}

// easy does what needs no bytes and returns what does.
func (w *writer) easy() (items []item, err error) {
	byPlace := map[Place]int{}
	err = w.tree.Run(func(root int) error {
		for i := range w.steps {
			s := &w.steps[i]
			if s.Act == Keep {
				w.stats.FilesSkipped++
			}
			if s.Act != Down && s.Act != Both || s.There.Kind == Folder {
				continue
			}
			switch {
			case s.There.Kind == Link:
				if err := makeLink(root, s.There, w.target(s), w.fresh(s)); err != nil {
					return err
				}
				w.stats.FilesDownloaded++
			case s.Act == Down && s.Here != nil && s.Here.content(s.There):
				if err := setFile(root, s.There); err != nil {
					return err
				}
			case s.There.Size == 0:
				if err := w.write(root, s, bytes.NewReader(nil)); err != nil {
					return err
				}
			default:
				n, ok := byPlace[s.There.At]
				if !ok || s.There.Size >= largeFile {
					n = len(items)
					byPlace[s.There.At] = n
					items = append(items, item{e: s.There})
				}
				items[n].steps = append(items[n].steps, s)
			}
		}
		return nil
	})
	return items, err
}

// target is where a step's file goes: its path, or beside the one that was changed here.
func (w *writer) target(s *Step) string {
	if s.Act == Both {
		return conflictName(s.Path, w.version.ID)
	}
	return s.Path
}

func (w *writer) fresh(s *Step) bool { return s.Act == Down && s.Here == nil }

// write writes one file of the version.
func (w *writer) write(root int, s *Step, from io.ReadSeeker) error {
	stamp, err := writeFile(root, s.There, w.target(s), w.fresh(s), from)
	if errors.Is(err, unix.EEXIST) { // it came into being meanwhile
		if _, err = from.Seek(0, io.SeekStart); err == nil {
			stamp, err = writeFile(root, s.There, w.target(s), false, from)
		}
	}
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) { // a folder in which something new is
		s.Act = Both
		if _, err = from.Seek(0, io.SeekStart); err == nil {
			_, err = writeFile(root, s.There, w.target(s), false, from)
		}
	}
	if err != nil {
		return err
	}
	if s.Act == Down {
		w.stamps[s.there] = stamp
	}
	w.files.Add(1)
	return nil
}

// spans groups what is to be read by pack, in ranges worth a request each.
func (w *writer) spans(items []item) (spans []span) {
	slices.SortFunc(items, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.e.At.Pack, b.e.At.Pack), cmp.Compare(a.e.At.Offset, b.e.At.Offset))
	})
	for _, it := range items {
		from, to := it.e.At.Offset, it.e.At.Offset+it.e.Size
		if n := len(spans) - 1; n >= 0 {
			last := &spans[n]
			if last.pack == it.e.At.Pack && from >= last.to && from-last.to <= rangeGap && to-last.from <= rangeMost {
				last.to, last.items = to, append(last.items, it)
				continue
			}
		}
		spans = append(spans, span{it.e.At.Pack, from, to, []item{it}})
	}
	return spans
}

// span reads one range and writes the files in it. The store is asked as ourselves, the files are written
// as their owner.
func (w *writer) span(ctx context.Context, s *span) error {
	pack := w.there.Packs[s.pack]
	o, err := w.Store.Get(ctx, w.Prefix+pack.Key, blob.GetOptions{Offset: s.from, Length: s.to - s.from})
	if err != nil {
		return fmt.Errorf("read %s: %w", pack.Key, err)
	}
	defer o.Body.Close()
	return w.tree.Run(func(root int) error { return w.items(root, s, pack, o.Body) })
}

func (w *writer) items(root int, s *span, pack Pack, body io.Reader) error {
	at := s.from
	for _, it := range s.items {
		if _, err := io.CopyN(io.Discard, body, it.e.At.Offset-at); err != nil {
			return fmt.Errorf("read %s: %w", pack.Key, err)
		}
		if err := w.item(root, it, body); err != nil {
			return err
		}
		at = it.e.At.Offset + it.e.Size
		w.moved.Add(it.e.Size)
		w.Progress.did(1, it.e.Size)
	}
	return nil
}

// item takes the bytes of one file and writes it wherever it has to be.
func (w *writer) item(root int, it item, body io.Reader) error {
	if it.e.Size >= largeFile {
		return w.large(root, it, body)
	}
	data := make([]byte, it.e.Size)
	if _, err := io.ReadFull(body, data); err != nil {
		return fmt.Errorf("read the bytes of %s: %w", it.e.Path, err)
	}
	if verified && sha256.Sum256(data) != it.e.Sum.SHA256 {
		return altered(it.e)
	}
	for _, s := range it.steps {
		if err := w.write(root, s, bytes.NewReader(data)); err != nil {
			return err
		}
	}
	return nil
}

// large writes a file while it comes. What is not what the version says never gets its name.
func (w *writer) large(root int, it item, body io.Reader) error {
	s := it.steps[0]
	stamp, err := writeFile(root, s.There, w.target(s), false, &summing{r: io.LimitReader(body, it.e.Size), e: it.e, sha: sha256.New()})
	if err != nil {
		return err
	}
	if s.Act == Down {
		w.stamps[s.there] = stamp
	}
	w.files.Add(1)
	return nil
}
