package workspace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/blob"
)

// largeReaders is the number of large files that are read concurrently. Their readers mostly wait for the store.
const largeReaders = 4

// readAll reads all files that may have changed. Large and small files are read concurrently.
func (p *push) readAll(dirty []int) error {
	var all, inPacks int64
	var large, small []int
	for _, i := range dirty {
		size := p.next.Entries[i].Size
		if all += size; size >= largeFile {
			large = append(large, i)
		} else {
			small = append(small, i)
			inPacks += size
		}
	}
	p.Progress.expect(len(dirty), all)
	var uploaded, moved atomic.Int64
	p.pack.room = min(inPacks, packSize+largeFile) // most saves are of a few small files
	free := sync.Pool{New: func() any { return &reader{packer: p.pack} }}
	one := func(root, i int) error {
		r := free.Get().(*reader)
		defer free.Put(r)
		r.root = root
		sent, err := r.readFile(&p.next.Entries[i], &p.stamps[i])
		if err != nil {
			return err
		}
		p.Progress.finished(p.next.Entries[i].Size, &r.reported)
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
		return inParallel(ctx, p.tree, len(small), readerCount(), func(root, n int) error { return one(root, small[n]) })
	})
	err := g.Wait()
	p.stats.FilesRead, p.stats.FilesUploaded, p.stats.BytesTransferred = len(dirty), int(uploaded.Load()), moved.Load()
	return err
}

// reader reads one file at a time.
type reader struct {
	*packer
	root     int
	buf      []byte
	reported int64 // progress reported for the current large file, in bytes

	again bool // the file changed and is being read again
}

// Attempts to read a file that changes during each read. After readTries the bytes of the last read are saved, and
// the next push reads the file again. A file that only grew is saved at once with the size it had when it was
// opened.
const (
	readTries   = 3
	shrinkTries = 10 // attempts for a file that becomes shorter during each read; then the entry of the base is kept
)

// readFile reads one file, stores its bytes unless they are already stored, and fills its entry. It clears the entry of
// a file that vanished or changed its type, so that the version does not contain it.
func (r *reader) readFile(e *Entry, stamp *Stamp) (sent bool, err error) {
	for try := 1; ; try++ {
		if r.again = try > 1; r.again {
			r.dropCopy(e.Path)
		}
		f, st, err := openFile(r.root, e.Path)
		if err != nil {
			return false, r.leaveOut(e, err)
		}
		r.Repo.at("opened")
		e.Size, e.Mode, e.ModTime = st.Size, st.Mode&0o777, st.Mtim.Nano()
		*stamp = Stamp{st.Ctim.Nano(), st.Ino}
		if st.Size >= largeFile {
			sent, err = r.readLarge(f, e)
		} else {
			err = r.readSmall(f, e)
		}
		still, grown := moved(f, &st)
		_ = f.Close()
		if err != nil && !errors.Is(err, errShrunk) {
			return false, r.skipUnreadable(e, err)
		}
		switch {
		case err == nil && !still && !grown && try < readTries:
			continue
		case err != nil && try < shrinkTries:
			continue
		case err != nil:
			return false, r.leaveOut(e, fmt.Errorf("it becomes shorter whenever it is read: %w", unix.EAGAIN))
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

// leaveOut clears the entry of a file that could not be opened. If the file still exists, the version keeps the
// entry of the base.
func (r *reader) leaveOut(e *Entry, err error) error {
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

// skipUnreadable is leaveOut for a file whose read failed. It returns errors of the store unchanged.
func (r *reader) skipUnreadable(e *Entry, err error) error {
	if isTreeError(err) && unreadable(err) {
		return r.leaveOut(e, err)
	}
	return err
}

// moved compares a file with its status when it was opened. Still reports that nothing changed, grown that the file
// is larger.
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

// readSmall reads a small file into memory.
func (r *reader) readSmall(f *file, e *Entry) error {
	r.buf = slices.Grow(r.buf[:0], int(e.Size))[:e.Size]
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

// treeError is an error of reading the tree. It distinguishes such errors from errors of the store.
type treeError struct{ error }

func (e treeError) Unwrap() error { return e.error }

// store stores the small file in r.buf, unless its bytes are already stored.
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

// readLarge reads a large file and uploads it. If the bytes may already be stored, or the store accepts checksums, it
// first reads the file once to compute its checksum.
func (r *reader) readLarge(f *file, e *Entry) (sent bool, err error) {
	key, known, find := newPackKey(), r.maybeKnown, func() (PackOffset, bool) { return r.find(&e.Sum.SHA256) }
	checked := r.checkable(e)
	extents := r.holes(f, e)
	if extents != nil {
		checked = false
	}
	if r.asObject(e.Path) {
		key = plainKey(r.next.ID, e.Path)
		known = func(size int64) bool { return r.base.sizeOf(e.Path) == size }
		find = func() (PackOffset, bool) { return r.copySame(e) }
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
	// This thread has the user id of the tree's owner, who has no access to the store. Another thread uploads.
	pr, pw := io.Pipe()
	from, to := io.Reader(pr), io.Writer(pw)
	if extents != nil {
		head := sparseHead(extents, e.Size)
		key = sparseKey(key, int64(len(head))+dataIn(extents))
		from, to = io.MultiReader(bytes.NewReader(head), pr), &holeWriter{to: pw, extents: extents}
	}
	var g errgroup.Group
	g.Go(func() (err error) {
		e.At, err = r.storeLarge(key, from, e.Size)
		_ = pr.CloseWithError(cmp.Or(err, io.ErrClosedPipe))
		return err
	})
	readErr := hashed(e, r.flow(f, e), to)
	_ = pw.CloseWithError(readErr)
	if err = g.Wait(); readErr != nil && (err == nil || isTreeError(readErr)) {
		err = readErr
	}
	if err == nil {
		r.addKnown(e)
	}
	return true, err
}

// holes lists the data extents of a file if leaving out its holes saves enough. It returns nil for a file that is
// stored whole, for example one that changed during an earlier read.
func (r *reader) holes(f *file, e *Entry) []extent {
	if r.again || r.asObject(e.Path) {
		return nil
	}
	extents, err := fileExtents(f.fd, e.Size)
	if err != nil || !worthwhile(extents, e.Size) {
		return nil
	}
	return append([]extent{}, extents...)
}

func (r *reader) flow(f io.Reader, e *Entry) io.Reader {
	return &flow{f, r.Progress, e.Size, &r.reported}
}

// checkable reports whether a file may be uploaded with its checksum. In the plain layout it may not: each path has
// only one key there, and a delayed upload could overwrite a later one.
func (r *reader) checkable(e *Entry) bool {
	store, ok := blob.As[blob.Checked](r.Store)
	return ok && e.Size <= store.CheckedMost() && !r.asObject(e.Path)
}

// sendChecked uploads a file with its checksum, on a thread without the user id of the tree's owner.
func (r *reader) sendChecked(f *file, e *Entry, crc uint32) (ok bool) {
	var g sync.WaitGroup
	g.Go(func() { ok = r.storeChecked(f, e, crc) })
	g.Wait()
	if ok {
		r.addKnown(e)
	}
	return ok
}

// isTreeError reports whether an error came from reading the file and not from the store.
func isTreeError(err error) bool {
	var own treeError
	return errors.Is(err, errShrunk) || errors.As(err, &own)
}

// addKnown records the location of a large file, so that equal files of this push are not uploaded again.
func (k *packer) addKnown(e *Entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known != nil && !k.asObject(e.Path) {
		k.known[e.Sum.SHA256], k.sizes[e.Size] = e.At, true
	}
}

// hashed copies exactly e.Size bytes and sets both checksums of the entry.
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
