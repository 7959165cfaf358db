package workspace

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/berthdev/berth/internal/blob"
)

// Exported is the result of an export.
type Exported struct {
	Version string    `json:"version"`
	Files   int       `json:"files"`
	Bytes   int64     `json:"bytes"`
	Skipped []Skipped `json:"skipped,omitempty"` // entries that the target cannot hold
}

// Export writes a version into another store in the plain layout. An empty id means the newest version. Every file
// becomes an object {prefix}{version}/{path}, and the state file is written last. Files whose names are not valid
// keys are skipped and listed in the result.
func (r *Repo) Export(ctx context.Context, id string, to blob.Store, prefix string) (*Exported, error) {
	v, m, err := r.Version(ctx, id)
	if err != nil {
		return nil, err
	}
	done := &Exported{Version: v.ID}
	out := &Manifest{At: m.At, Entries: make([]Entry, 0, len(m.Entries))}
	for _, e := range m.Entries {
		if e.Kind == File {
			if err := blob.CheckKey(prefix + plainKey(v.ID, e.Path)); err != nil {
				done.Skipped = append(done.Skipped, Skipped{e.Path, err.Error()})
				continue
			}
		}
		out.Entries = append(out.Entries, e)
	}
	put := func(key string, from io.Reader, size int64) error {
		if _, err := to.Put(ctx, prefix+key, from, size, blob.PutOptions{}); err != nil {
			return fmt.Errorf("store %s: %w", key, err)
		}
		return nil
	}
	var g errgroup.Group
	g.SetLimit(plainSending)
	err = r.contents(ctx, m, out.Entries, func(e *Entry, data io.Reader) error {
		done.Files, done.Bytes = done.Files+1, done.Bytes+e.Size
		small, ok := data.(*bytes.Reader)
		if !ok {
			return put(plainKey(v.ID, e.Path), data, e.Size)
		}
		text := make([]byte, e.Size)
		_, _ = io.ReadFull(small, text)
		g.Go(func() error { return put(plainKey(v.ID, e.Path), bytes.NewReader(text), e.Size) })
		return nil
	})
	if wait := g.Wait(); err == nil {
		err = wait
	}
	if err != nil {
		return nil, err
	}
	text := out.encode(nil, nil)
	return done, put(v.ID+"/"+StateFile, bytes.NewReader(text), int64(len(text)))
}

// contents calls do with each file of a list and a reader of its bytes. A small file comes as a bytes.Reader and is
// already verified. A large file is verified at its end: the last Read fails if the bytes do not match.
func (r *Repo) contents(ctx context.Context, m *Manifest, entries []Entry, do func(*Entry, io.Reader) error) error {
	w := newWindows(r, m.Packs, entries)
	for i := range entries {
		e := &entries[i]
		if e.Kind != File {
			continue
		}
		if err := w.content(ctx, e, do); err != nil {
			return err
		}
	}
	return nil
}

// newWindows returns a reader for files of a version. Their total size is added to the expected progress.
func newWindows(r *Repo, packs []Pack, entries []Entry) *windows {
	r.Progress.expect((&Manifest{Entries: entries}).size())
	return &windows{Repo: r, packs: packs}
}

// windows caches parts of packs, because the next files are usually near the last one.
type windows struct {
	*Repo
	packs    []Pack
	kept     []window // least recently used first
	reported int64    // progress reported for the current large file, in bytes
}

type window struct {
	pack int
	from int64
	data []byte
}

const (
	windowSize  = 4 << 20
	windowsKept = 12
)

func (w *windows) content(ctx context.Context, e *Entry, do func(*Entry, io.Reader) error) error {
	err := w.read(ctx, e, do)
	if err == nil {
		w.Progress.finished(e.Size, &w.reported)
	}
	return err
}

func (w *windows) read(ctx context.Context, e *Entry, do func(*Entry, io.Reader) error) error {
	switch {
	case e.Size == 0:
		return do(e, bytes.NewReader(nil))
	case e.Size >= largeFile:
		return w.large(ctx, e, do)
	}
	data, err := w.small(ctx, e)
	if err != nil {
		return err
	}
	if err := e.verifyData(data); err != nil {
		return err
	}
	return do(e, bytes.NewReader(data))
}

// small returns the bytes of a small file. They are not verified.
func (w *windows) small(ctx context.Context, e *Entry) ([]byte, error) {
	from, to := e.At.Offset, e.At.Offset+e.Size
	for i, k := range slices.Backward(w.kept) {
		if k.pack == e.At.Pack && k.from <= from && to <= k.from+int64(len(k.data)) {
			w.kept = append(slices.Delete(w.kept, i, i+1), k)
			return k.data[from-k.from : to-k.from], nil
		}
	}
	pack := w.packs[e.At.Pack]
	length := min(max(e.Size, windowSize), pack.Size-from)
	o, err := w.getPack(ctx, pack.Key, blob.GetOptions{Offset: from, Length: length})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", pack.Key, err)
	}
	defer o.Body.Close()
	data := make([]byte, length)
	n, err := io.ReadFull(o.Body, data)
	if int64(n) < e.Size {
		return nil, fmt.Errorf("read the bytes of %s: %w", e.Path, err)
	}
	if len(w.kept) == windowsKept {
		w.kept = slices.Delete(w.kept, 0, 1)
	}
	w.kept = append(w.kept, window{e.At.Pack, from, data[:n]})
	return data[:e.Size], nil
}

func (w *windows) large(ctx context.Context, e *Entry, do func(*Entry, io.Reader) error) error {
	pack := w.packs[e.At.Pack]
	o, err := w.getPack(ctx, pack.Key, blob.GetOptions{Offset: e.At.Offset, Length: e.Size})
	if err != nil {
		return fmt.Errorf("read %s: %w", pack.Key, err)
	}
	defer o.Body.Close()
	return do(e, &summing{r: &flow{o.Body, w.Progress, e.Size, &w.reported}, left: e.Size, e: e, sums: newSummer(e.Sum.SHA256 == none.SHA256)})
}

// summing reads a file's bytes and returns an error at the end if they do not match the entry.
type summing struct {
	r    io.Reader
	left int64
	e    *Entry
	sums *summer
}

func (s *summing) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n, err := s.r.Read(p[:min(int64(len(p)), s.left)])
	s.sums.add(p[:n])
	if s.left -= int64(n); s.left == 0 {
		if err := s.e.verifySum(s.sums.sum()); err != nil {
			return 0, err
		}
		return n, nil
	}
	if err == io.EOF {
		err = fmt.Errorf("read the bytes of %s: %w", s.e.Path, io.ErrUnexpectedEOF)
	}
	return n, err
}
