package workspace

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/berthdev/berth/internal/blob"
)

const (
	packSize  = 8 << 20 // a pack is uploaded when it reaches this size
	largeFile = 4 << 20 // files of at least this size get a separate object
	sending   = 4       // number of concurrent uploads of packs; it bounds the memory
)

// packer collects small files into packs. It uploads full packs while the next files are read.
type packer struct {
	*push
	ctx    context.Context // cancelled by the first failure, which becomes its cause
	cancel context.CancelCauseFunc
	sends  errgroup.Group

	mu     sync.Mutex
	packs  []Pack                  // packs of the next version
	taken  map[int]int             // index of a pack in base.Packs → its index in packs
	known  map[[32]byte]PackOffset // location of stored bytes by SHA-256; a negative Pack is -1 - index in base.Packs
	sizes  map[int64]bool          // sizes of the base's files and of large files of this push
	copies []copying
	buffer *bytes.Buffer
	at     int   // index in packs of the pack that is being filled
	stored int64 // bytes that the next version adds to the store
	room   int64 // capacity of a new buffer
	free   sync.Pool
}

func newPacker(ctx context.Context, p *push) *packer {
	ctx, cancel := context.WithCancelCause(ctx)
	k := &packer{push: p, ctx: ctx, cancel: cancel, taken: map[int]int{}}
	k.sends.SetLimit(sending)
	if p.Layout == Plain {
		k.sends.SetLimit(plainSending)
	}
	k.free.New = func() any { return bytes.NewBuffer(make([]byte, 0, k.room)) }
	return k
}

// stop cancels running uploads and waits for them.
func (k *packer) stop() {
	k.cancel(context.Canceled)
	_ = k.sends.Wait()
}

// reuse returns the location of a base file in the next version. If ok is false, the stored bytes cannot be used and
// the file must be read and uploaded.
func (k *packer) reuse(e *Entry) (at PackOffset, ok bool) {
	switch {
	case k.asObject(e.Path):
		return k.copyFrom(e)
	case e.Size == 0:
		return PackOffset{}, true
	case checkPackKey(k.base.Packs[e.At.Pack].Key) != nil:
		return PackOffset{}, false // the object belongs to a version that may be pruned
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.fromLocked(e.At), true
}

func (k *packer) fromLocked(at PackOffset) PackOffset {
	i, ok := k.taken[at.Pack]
	if !ok {
		i = len(k.packs)
		k.packs = append(k.packs, k.base.Packs[at.Pack])
		k.taken[at.Pack] = i
	}
	return PackOffset{i, at.Offset}
}

// loadKnownLocked fills known and sizes with the files of the base at its first call.
func (k *packer) loadKnownLocked() {
	if k.known != nil {
		return
	}
	k.known, k.sizes = make(map[[32]byte]PackOffset, len(k.base.Entries)), map[int64]bool{}
	for i := range k.base.Entries {
		if e := &k.base.Entries[i]; e.Kind == File && e.Size > 0 && checkPackKey(k.base.Packs[e.At.Pack].Key) == nil {
			k.known[e.Sum.SHA256] = PackOffset{-1 - e.At.Pack, e.At.Offset}
			k.sizes[e.Size] = true
		}
	}
}

// find returns the location of bytes that the base or this push has already stored.
func (k *packer) find(sum *[32]byte) (PackOffset, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.loadKnownLocked()
	at, ok := k.known[*sum]
	if ok && at.Pack < 0 { // the bytes are in a pack of the base
		at = k.fromLocked(PackOffset{-1 - at.Pack, at.Offset})
		k.known[*sum] = at
	}
	return at, ok
}

// maybeKnown reports whether a stored file has this size. Only then its bytes may already be stored.
func (k *packer) maybeKnown(size int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.loadKnownLocked()
	return k.sizes[size]
}

// add adds the bytes of a small file to the current pack.
func (k *packer) add(data []byte, sum *[32]byte) (PackOffset, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.buffer == nil {
		k.buffer = k.free.Get().(*bytes.Buffer)
		k.at = len(k.packs)
		k.packs = append(k.packs, Pack{Key: newPackKey()})
	}
	at := PackOffset{k.at, int64(k.buffer.Len())}
	k.buffer.Write(data)
	if k.known != nil {
		k.known[*sum] = at
	}
	if k.buffer.Len() < packSize {
		return at, nil
	}
	return at, k.sendLocked()
}

// sendLocked uploads the current pack concurrently. It blocks while the maximum number of uploads is running.
func (k *packer) sendLocked() error {
	b, data := k.buffer, k.buffer.Bytes()
	pack := &k.packs[k.at]
	pack.Size, k.buffer = int64(b.Len()), nil
	if extents := dataExtents(data); worthwhile(extents, pack.Size) {
		data = sparseBytes(data, extents)
		pack.Key = sparseKey(pack.Key, int64(len(data)))
	}
	key := pack.Key
	if err := k.countLocked(pack); err != nil {
		return err
	}
	return k.send(func() error {
		if _, err := k.put(k.ctx, key, data, blob.PutOptions{}); err != nil {
			return fmt.Errorf("store %s: %w", key, err)
		}
		b.Reset()
		k.free.Put(b)
		return nil
	})
}

// send runs an upload concurrently. The first failure cancels the push.
func (k *packer) send(do func() error) error {
	if k.ctx.Err() != nil {
		return context.Cause(k.ctx)
	}
	k.sends.Go(func() error {
		err := do()
		if err != nil {
			k.cancel(err)
		}
		return err
	})
	return nil
}

// flush uploads the last pack.
func (k *packer) flush() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.buffer == nil {
		return nil
	}
	return k.sendLocked()
}

// wait waits until all uploads are done.
func (k *packer) wait() error { return k.sends.Wait() }

// countLocked adds the stored size of a pack to the new data of the version. It returns an error above the limit.
func (k *packer) countLocked(p *Pack) error {
	k.stored += p.stored()
	if most := k.Limits.stored(); k.stored > most {
		return tooLarge("the version would add more than %d bytes to the store%s", most, k.largest())
	}
	return nil
}

// storeLarge uploads a file as a separate object while the file is read. A sparse object has fewer bytes than the file.
func (k *packer) storeLarge(key string, from io.Reader, size int64) (PackOffset, error) {
	pack := Pack{Key: key, Size: size}
	k.mu.Lock()
	err := k.countLocked(&pack)
	k.mu.Unlock()
	if err != nil {
		return PackOffset{}, err
	}
	if _, err := k.Store.Put(k.ctx, k.Prefix+key, from, pack.stored(), blob.PutOptions{}); err != nil {
		return PackOffset{}, fmt.Errorf("store %s: %w", key, err)
	}
	return k.addObject(key, size), nil
}

// storeChecked stores a file with known checksums as a separate object, if the store supports it. If it returns false,
// the object may or may not exist, and the caller must use another key.
func (k *packer) storeChecked(f *file, e *Entry, crc uint32) (ok bool) {
	store, can := blob.As[blob.Checked](k.Store)
	if !can {
		return false
	}
	if c, is := k.Store.(*counted); is {
		c.n.Add(1)
	}
	key := newPackKey()
	k.mu.Lock()
	full := k.countLocked(&Pack{Key: key, Size: e.Size})
	k.mu.Unlock()
	if full != nil {
		return false // the caller's next attempt reports the error
	}
	if store.PutChecked(k.ctx, k.Prefix+key, f, e.Size, blob.Sums{SHA256: e.Sum.SHA256, CRC32C: crc}) != nil {
		return false
	}
	e.At = k.addObject(key, e.Size)
	return true
}

// addObject adds a separate object to the packs and returns the location of the file in it.
func (k *packer) addObject(key string, size int64) PackOffset {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.packs = append(k.packs, Pack{Key: key, Size: size})
	return PackOffset{len(k.packs) - 1, 0}
}

// newPackKey returns a new unique key for a pack.
func newPackKey() string { return packsFolder + newID() }

func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return hex.EncodeToString(id[:])
}
