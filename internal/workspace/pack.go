package workspace

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/blob"
)

const (
	packSize  = 8 << 20 // a pack is sent when it has this much
	largeFile = 4 << 20 // a file of this size has an object of its own
	sending   = 4       // packs on their way at once, which bounds what is held in memory
)

// packer puts small files together and sends them off while the next are read.
type packer struct {
	*push
	ctx    context.Context
	cancel context.CancelFunc
	sends  errgroup.Group

	mu     sync.Mutex
	packs  []Pack             // of the next version
	taken  map[int]int        // pack of the base → pack of the next version
	known  map[[32]byte]Place // where bytes are already, by their checksum
	buffer *bytes.Buffer
	at     int // index in packs of the one that is being filled
	free   sync.Pool
}

func newPacker(ctx context.Context, p *push) *packer {
	ctx, cancel := context.WithCancel(ctx)
	k := &packer{push: p, ctx: ctx, cancel: cancel, taken: map[int]int{}}
	k.sends.SetLimit(sending)
	k.free.New = func() any { return bytes.NewBuffer(make([]byte, 0, packSize+largeFile)) }
	return k
}

// from is the place that a clean file of the base has in the next version.
func (k *packer) from(e *Entry) Place {
	if e.Size == 0 {
		return Place{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.fromLocked(e.At)
}

func (k *packer) fromLocked(at Place) Place {
	i, ok := k.taken[at.Pack]
	if !ok {
		i = len(k.packs)
		k.packs = append(k.packs, k.base.Packs[at.Pack])
		k.taken[at.Pack] = i
	}
	return Place{i, at.Offset}
}

// find looks for bytes that are stored already, in the base or by this push.
func (k *packer) find(sum *[32]byte) (Place, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		k.known = make(map[[32]byte]Place, len(k.base.Entries))
		for i := range k.base.Entries {
			if e := &k.base.Entries[i]; e.Kind == File && e.Size > 0 {
				k.known[e.Sum.SHA256] = Place{-1 - e.At.Pack, e.At.Offset}
			}
		}
	}
	at, ok := k.known[*sum]
	if ok && at.Pack < 0 { // a pack of the base
		at = k.fromLocked(Place{-1 - at.Pack, at.Offset})
		k.known[*sum] = at
	}
	return at, ok
}

// add puts the bytes of a small file into the pack that is being filled.
func (k *packer) add(data []byte, sum *[32]byte) (Place, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.buffer == nil {
		k.buffer = k.free.Get().(*bytes.Buffer)
		k.at = len(k.packs)
		k.packs = append(k.packs, Pack{Key: newPackKey()})
	}
	at := Place{k.at, int64(k.buffer.Len())}
	k.buffer.Write(data)
	k.known[*sum] = at
	if k.buffer.Len() < packSize {
		return at, nil
	}
	return at, k.sendLocked()
}

// sendLocked sends the pack that is being filled. It waits while enough others are on their way.
func (k *packer) sendLocked() error {
	b, key := k.buffer, k.packs[k.at].Key
	k.packs[k.at].Size, k.buffer = int64(b.Len()), nil
	if err := k.ctx.Err(); err != nil {
		return context.Cause(k.ctx)
	}
	k.sends.Go(func() error {
		_, err := k.put(k.ctx, key, b.Bytes(), blob.PutOptions{})
		if err != nil {
			k.cancel()
			return fmt.Errorf("store %s: %w", key, err)
		}
		b.Reset()
		k.free.Put(b)
		return nil
	})
	return nil
}

// flush sends what is left.
func (k *packer) flush() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.buffer == nil {
		return nil
	}
	return k.sendLocked()
}

// wait waits until everything is stored.
func (k *packer) wait() error { return k.sends.Wait() }

// large stores a file as an object of its own, while it is read.
func (k *packer) large(from io.Reader, size int64) (Place, error) {
	key := newPackKey()
	if _, err := k.Store.Put(k.ctx, k.Prefix+key, from, size, blob.PutOptions{}); err != nil {
		return Place{}, fmt.Errorf("store %s: %w", key, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.packs = append(k.packs, Pack{Key: key, Size: size})
	return Place{len(k.packs) - 1, 0}, nil
}

func newPackKey() string {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return packsFolder + hex.EncodeToString(id[:])
}

// readAll reads every file that may have changed.
func (p *push) readAll(ctx context.Context, dirty []int) error {
	var bytes int64
	for _, i := range dirty {
		bytes += p.next.Entries[i].Size
	}
	p.Progress.expect(len(dirty), bytes)
	var at, uploaded, moved atomic.Int64
	var g errgroup.Group
	for range min(max(runtime.GOMAXPROCS(0), 2), len(dirty)) {
		g.Go(func() error {
			return p.tree.Run(func(root int) error {
				r := &reader{packer: p.pack, root: root, buf: make([]byte, 0, largeFile)}
				for n := int(at.Add(1)) - 1; n < len(dirty); n = int(at.Add(1)) - 1 {
					if err := ctx.Err(); err != nil {
						return err
					}
					i := dirty[n]
					sent, err := r.file(&p.next.Entries[i], &p.stamps[i])
					if err != nil {
						return err
					}
					p.Progress.did(1, p.next.Entries[i].Size)
					if sent {
						uploaded.Add(1)
						moved.Add(p.next.Entries[i].Size)
					}
				}
				return nil
			})
		})
	}
	err := g.Wait()
	p.stats.FilesRead, p.stats.FilesUploaded, p.stats.BytesTransferred = len(dirty), int(uploaded.Load()), moved.Load()
	return err
}

// reader reads files, one after the other.
type reader struct {
	*packer
	root int
	buf  []byte
}

// readTries is how often a file is read that changes meanwhile. After that it is saved as it was read,
// and read again at the next push.
const readTries = 3

// file reads one file, stores its bytes unless they are stored already, and fills in its entry. A file
// that is gone, or became something else, is left out.
func (r *reader) file(e *Entry, stamp *Stamp) (sent bool, err error) {
	for try := 1; ; try++ {
		f, st, err := openFile(r.root, e.Path)
		if err != nil {
			return false, r.leftOut(e, err)
		}
		e.Size, e.Mode, e.ModTime = st.Size, st.Mode&0o777, st.Mtim.Nano()
		*stamp = Stamp{st.Ctim.Nano(), st.Ino}
		if st.Size >= largeFile {
			sent, err = r.stream(f, e)
		} else {
			sent, err = r.whole(f, e)
		}
		same := err == nil && unmoved(f, &st)
		_ = f.Close()
		switch {
		case err == nil && same:
			return sent, nil
		case err != nil && !errors.Is(err, errShrunk):
			return false, err
		case try == readTries && err == nil:
			*stamp = Stamp{}
			return sent, nil
		case try == 10*readTries:
			return false, fmt.Errorf("%s changes faster than it can be read: %w", e.Path, err)
		}
	}
}

// leftOut leaves a file out of the version that could not be opened.
func (r *reader) leftOut(e *Entry, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, errNotRegular):
		r.mu.Lock()
		r.scan.skip(e.Path, err)
		r.mu.Unlock()
	default:
		return err
	}
	*e = Entry{Path: e.Path}
	return nil
}

func unmoved(f *os.File, was *unix.Stat_t) bool {
	var is unix.Stat_t
	return unix.Fstat(int(f.Fd()), &is) == nil && is.Size == was.Size && is.Mtim == was.Mtim && is.Ctim == was.Ctim
}

var errShrunk = errors.New("the file became shorter while it was read")

// whole reads a small file into memory.
func (r *reader) whole(f *os.File, e *Entry) (sent bool, err error) {
	r.buf = r.buf[:e.Size]
	if _, err := io.ReadFull(f, r.buf); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errShrunk
		}
		return false, err
	}
	e.Sum = Sum{sha256.Sum256(r.buf), md5.Sum(r.buf)}
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

// stream reads a large file. One that may be stored already is read once for its checksum first.
func (r *reader) stream(f *os.File, e *Entry) (sent bool, err error) {
	if r.maybeKnown(e) {
		if err := hashed(e, f, io.Discard); err != nil {
			return false, err
		}
		if at, ok := r.find(&e.Sum.SHA256); ok {
			e.At = at
			return false, nil
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return false, err
		}
	}
	// This thread is the tree's owner, who has no business in the store: another one sends.
	pr, pw := io.Pipe()
	var g errgroup.Group
	g.Go(func() (err error) {
		e.At, err = r.large(pr, e.Size)
		_ = pr.CloseWithError(cmp.Or(err, io.ErrClosedPipe))
		return err
	})
	readErr := hashed(e, f, pw)
	_ = pw.CloseWithError(readErr)
	if err = g.Wait(); errors.Is(readErr, errShrunk) || err == nil {
		err = readErr
	}
	if err == nil {
		r.mu.Lock()
		r.known[e.Sum.SHA256] = e.At
		r.mu.Unlock()
	}
	return true, err
}

// maybeKnown reports whether the base has a file of that size.
func (r *reader) maybeKnown(e *Entry) bool {
	_, _ = r.find(&[32]byte{}) // makes known
	for i := range r.base.Entries {
		if b := &r.base.Entries[i]; b.Kind == File && b.Size == e.Size {
			return true
		}
	}
	return false
}

// hashed copies exactly the file's size and computes both checksums on the way, beside each other.
func hashed(e *Entry, from io.Reader, to io.Writer) error {
	sha, md := sha256.New(), md5.New()
	buf := make([]byte, 1<<20)
	for left := e.Size; left > 0; {
		n, err := io.ReadFull(from, buf[:min(int64(len(buf)), left)])
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = errShrunk
			}
			return err
		}
		var g errgroup.Group
		g.Go(func() error { sha.Write(buf[:n]); return nil })
		md.Write(buf[:n])
		_ = g.Wait()
		if _, err := to.Write(buf[:n]); err != nil {
			return err
		}
		left -= int64(n)
	}
	sha.Sum(e.Sum.SHA256[:0])
	md.Sum(e.Sum.MD5[:0])
	return nil
}
