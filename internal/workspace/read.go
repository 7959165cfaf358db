package workspace

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/blob"
)

// largeReaders is how many large files are read at once: most of the time they wait for the store.
const largeReaders = 4

// readAll reads every file that may have changed, the large ones beside the small ones.
func (p *push) readAll(dirty []int) error {
	var bytes int64
	var large, small []int
	for _, i := range dirty {
		size := p.next.Entries[i].Size
		if bytes += size; size >= largeFile {
			large = append(large, i)
		} else {
			small = append(small, i)
		}
	}
	p.Progress.expect(len(dirty), bytes)
	var uploaded, moved atomic.Int64
	free := sync.Pool{New: func() any { return &reader{packer: p.pack, buf: make([]byte, 0, largeFile)} }}
	one := func(root, i int) error {
		r := free.Get().(*reader)
		defer free.Put(r)
		r.root = root
		sent, err := r.file(&p.next.Entries[i], &p.stamps[i])
		if err != nil {
			return err
		}
		p.Progress.finished(p.next.Entries[i].Size, &r.told)
		if sent {
			uploaded.Add(1)
			moved.Add(p.next.Entries[i].Size)
		}
		return nil
	}
	g, ctx := errgroup.WithContext(p.pack.ctx)
	g.Go(func() error {
		return inParallel(ctx, p.tree, len(large), largeReaders, func(root, n int) error { return one(root, large[n]) })
	})
	g.Go(func() error {
		return inParallel(ctx, p.tree, len(small), readers(), func(root, n int) error { return one(root, small[n]) })
	})
	err := g.Wait()
	p.stats.FilesRead, p.stats.FilesUploaded, p.stats.BytesTransferred = len(dirty), int(uploaded.Load()), moved.Load()
	return err
}

// reader reads files, one after the other.
type reader struct {
	*packer
	root int
	buf  []byte
	told int64 // of a large file's bytes, as progress
}

// readTries is how often a file is read that changes meanwhile. After that it is saved as it was read,
// and read again at the next push; one that only became longer is saved as far as it was read at once.
const (
	readTries   = 3
	shrinkTries = 10 // of a file that becomes shorter each time; then it is left as it was
)

// file reads one file, stores its bytes unless they are stored already, and fills in its entry. A file
// that is gone, or became something else, is left out.
func (r *reader) file(e *Entry, stamp *Stamp) (sent bool, err error) {
	for try := 1; ; try++ {
		if try > 1 {
			r.uncopy(e.Path)
		}
		f, st, err := openFile(r.root, e.Path)
		if err != nil {
			return false, r.leftOut(e, err)
		}
		r.Repo.at("opened")
		e.Size, e.Mode, e.ModTime = st.Size, st.Mode&0o777, st.Mtim.Nano()
		*stamp = Stamp{st.Ctim.Nano(), st.Ino}
		if st.Size >= largeFile {
			sent, err = r.stream(f, e)
		} else {
			err = r.whole(f, e)
		}
		still, grown := moved(f, &st)
		_ = f.Close()
		if err != nil && !errors.Is(err, errShrunk) {
			return false, r.unreadable(e, err)
		}
		switch {
		case err == nil && !still && !grown && try < readTries:
			continue
		case err != nil && try < shrinkTries:
			continue
		case err != nil:
			return false, r.leftOut(e, fmt.Errorf("it becomes shorter whenever it is read: %w", unix.EAGAIN))
		}
		if !still {
			*stamp = Stamp{}
		}
		if st.Size < largeFile {
			return r.store(e)
		}
		return sent, nil
	}
}

// leftOut leaves a file out of the version that could not be opened. One that is there has the place that
// it had in the base.
func (r *reader) leftOut(e *Entry, err error) error {
	switch {
	case gone(err), errors.Is(err, errNotRegular):
	case unreadable(err):
		r.mu.Lock()
		r.scan.skip(e.Path, err)
		r.scan.unread = append(r.scan.unread, e.Path)
		r.mu.Unlock()
	default:
		return err
	}
	*e = Entry{Path: e.Path}
	return nil
}

// unreadable is leftOut for a file that broke while it was read.
func (r *reader) unreadable(e *Entry, err error) error {
	if ofTree(err) && unreadable(err) {
		return r.leftOut(e, err)
	}
	return err
}

// moved reports whether a file is still what it was when it was opened, and whether it only became longer.
func moved(f *file, was *unix.Stat_t) (still, grown bool) {
	var is unix.Stat_t
	if unix.Fstat(f.fd, &is) != nil {
		return false, false
	}
	return is.Size == was.Size && is.Mtim == was.Mtim && is.Ctim == was.Ctim, is.Size > was.Size
}

func unmoved(f *file, was *unix.Stat_t) bool {
	still, _ := moved(f, was)
	return still
}

var errShrunk = errors.New("the file became shorter while it was read")

// whole reads a small file into memory.
func (r *reader) whole(f *file, e *Entry) error {
	r.buf = r.buf[:e.Size]
	if _, err := io.ReadFull(f, r.buf); err != nil {
		return short(err)
	}
	e.Sum = sumOf(r.buf)
	return nil
}

func short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errShrunk
	}
	return treeError{err}
}

// treeError is an error of the tree, and not of the store.
type treeError struct{ error }

func (e treeError) Unwrap() error { return e.error }

// store stores the small file that was read last, unless its bytes are stored already.
func (r *reader) store(e *Entry) (sent bool, err error) {
	if r.asObject(e.Path) {
		return r.storeObject(e)
	}
	if e.Size == 0 {
		return false, nil
	}
	if at, ok := r.find(&e.Sum.SHA256); ok {
		e.At = at
		return false, nil
	}
	e.At, err = r.add(r.buf, &e.Sum.SHA256)
	return true, err
}

// stream reads a large file. One that may be stored already is read once for its checksum first, and so is
// one that the store takes by its checksum.
func (r *reader) stream(f *file, e *Entry) (sent bool, err error) {
	key, known, find := newPackKey(), r.maybeKnown, func() (Place, bool) { return r.find(&e.Sum.SHA256) }
	checked := r.checkable(e)
	if r.asObject(e.Path) {
		key = plainKey(r.next.ID, e.Path)
		known = func(size int64) bool { return r.base.sizeOf(e.Path) == size }
		find = func() (Place, bool) { return r.copySame(e) }
	}
	if checked || known(e.Size) {
		crc := crc32.New(castagnoli)
		if err := hashed(e, r.flow(f, e), crc); err != nil {
			return false, err
		}
		if at, ok := find(); ok {
			e.At = at
			return false, nil
		}
		if checked && r.sendChecked(f, e, crc.Sum32()) {
			return true, nil
		}
		if _, err := unix.Seek(f.fd, 0, io.SeekStart); err != nil {
			return false, treeError{err}
		}
	}
	// This thread is the tree's owner, who has no business in the store: another one sends.
	pr, pw := io.Pipe()
	var g errgroup.Group
	g.Go(func() (err error) {
		e.At, err = r.large(key, pr, e.Size)
		_ = pr.CloseWithError(cmp.Or(err, io.ErrClosedPipe))
		return err
	})
	readErr := hashed(e, r.flow(f, e), pw)
	_ = pw.CloseWithError(readErr)
	if err = g.Wait(); readErr != nil && (err == nil || ofTree(readErr)) {
		err = readErr
	}
	if err == nil {
		r.learn(e)
	}
	return true, err
}

func (r *reader) flow(f io.Reader, e *Entry) io.Reader { return &flow{f, r.Progress, e.Size, &r.told} }

// checkable reports whether a file may be stored by its checksum. In the plain layout there is one key to
// store it under, so that what is still on its way could come after what was sent instead.
func (r *reader) checkable(e *Entry) bool {
	store, ok := blob.As[blob.Checked](r.Store)
	return ok && e.Size <= store.CheckedMost() && !r.asObject(e.Path)
}

// sendChecked stores a file by its checksum, on a thread that is not the tree's owner's.
func (r *reader) sendChecked(f *file, e *Entry, crc uint32) (ok bool) {
	var g sync.WaitGroup
	g.Go(func() { ok = r.checked(f, e, crc) })
	g.Wait()
	if ok {
		r.learn(e)
	}
	return ok
}

// ofTree reports whether an error is the file's own, and not one that the store sent back.
func ofTree(err error) bool {
	var own treeError
	return errors.Is(err, errShrunk) || errors.As(err, &own)
}

// learn remembers where a large file is.
func (k *packer) learn(e *Entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known != nil && !k.asObject(e.Path) {
		k.known[e.Sum.SHA256], k.sizes[e.Size] = e.At, true
	}
}

// hashed copies exactly the file's size and computes both checksums on the way.
func hashed(e *Entry, from io.Reader, to io.Writer) error {
	sums := newSummerOf(e.Size)
	defer sums.close()
	buf := make([]byte, min(1<<20, e.Size))
	for left := e.Size; left > 0; {
		n, err := io.ReadFull(from, buf[:min(int64(len(buf)), left)])
		if err != nil {
			return short(err)
		}
		sums.add(buf[:n])
		if _, err := to.Write(buf[:n]); err != nil {
			return err
		}
		left -= int64(n)
	}
	e.Sum = sums.sum()
	return nil
}
