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
	packSize  = 8 << 20 // a pack is sent when it has this much
	largeFile = 4 << 20 // a file of this size has an object of its own
	sending   = 4       // packs on their way at once, which bounds what is held in memory
)

// packer puts small files together and sends them off while the next are read.
type packer struct {
	*push
	ctx    context.Context // ends with the first failure, which is its cause
	cancel context.CancelCauseFunc
	sends  errgroup.Group

	mu     sync.Mutex
	packs  []Pack             // of the next version
	taken  map[int]int        // pack of the base → pack of the next version
	known  map[[32]byte]Place // where bytes are already, by their checksum
	sizes  map[int64]bool     // of the files that are known
	copies []copying
	buffer *bytes.Buffer
	at     int // index in packs of the one that is being filled
	free   sync.Pool
}

func newPacker(ctx context.Context, p *push) *packer {
	ctx, cancel := context.WithCancelCause(ctx)
	k := &packer{push: p, ctx: ctx, cancel: cancel, taken: map[int]int{}}
	k.sends.SetLimit(sending)
	if p.Layout == Plain {
		k.sends.SetLimit(plainSending)
	}
	k.free.New = func() any { return bytes.NewBuffer(make([]byte, 0, packSize+largeFile)) }
	return k
}

// stop ends what is still under way, and waits until it has.
func (k *packer) stop() {
	k.cancel(context.Canceled)
	_ = k.sends.Wait()
}

// from is the place that a file of the base has in the next version. It is not ok where its bytes cannot
// be used: then the file is read and sent.
func (k *packer) from(e *Entry) (at Place, ok bool) {
	switch {
	case k.asObject(e.Path):
		return k.copyFrom(e)
	case e.Size == 0:
		return Place{}, true
	case checkPackKey(k.base.Packs[e.At.Pack].Key) != nil:
		return Place{}, false // it goes with a version that may be pruned
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.fromLocked(e.At), true
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

// know lists what the base has.
func (k *packer) knowLocked() {
	if k.known != nil {
		return
	}
	k.known, k.sizes = make(map[[32]byte]Place, len(k.base.Entries)), map[int64]bool{}
	for i := range k.base.Entries {
		if e := &k.base.Entries[i]; e.Kind == File && e.Size > 0 && checkPackKey(k.base.Packs[e.At.Pack].Key) == nil {
			k.known[e.Sum.SHA256] = Place{-1 - e.At.Pack, e.At.Offset}
			k.sizes[e.Size] = true
		}
	}
}

// find looks for bytes that are stored already, in the base or by this push.
func (k *packer) find(sum *[32]byte) (Place, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.knowLocked()
	at, ok := k.known[*sum]
	if ok && at.Pack < 0 { // a pack of the base
		at = k.fromLocked(Place{-1 - at.Pack, at.Offset})
		k.known[*sum] = at
	}
	return at, ok
}

// maybeKnown reports whether a file of that size is stored already.
func (k *packer) maybeKnown(size int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.knowLocked()
	return k.sizes[size]
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
	if k.known != nil {
		k.known[*sum] = at
	}
	if k.buffer.Len() < packSize {
		return at, nil
	}
	return at, k.sendLocked()
}

// sendLocked sends the pack that is being filled. It waits while enough others are on their way.
func (k *packer) sendLocked() error {
	b, key := k.buffer, k.packs[k.at].Key
	k.packs[k.at].Size, k.buffer = int64(b.Len()), nil
	return k.send(func() error {
		if _, err := k.put(k.ctx, key, b.Bytes(), blob.PutOptions{}); err != nil {
			return fmt.Errorf("store %s: %w", key, err)
		}
		b.Reset()
		k.free.Put(b)
		return nil
	})
}

// send does something at the store beside everything else. The first that fails ends the push.
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
func (k *packer) large(key string, from io.Reader, size int64) (Place, error) {
	if _, err := k.Store.Put(k.ctx, k.Prefix+key, from, size, blob.PutOptions{}); err != nil {
		return Place{}, fmt.Errorf("store %s: %w", key, err)
	}
	return k.own(key, size), nil
}

// checked stores a file whose checksums are known as an object of its own, where the store has a way for it.
// Not ok means that nothing is known of what became of it, and that another key is to be used.
func (k *packer) checked(f *file, e *Entry, crc uint32) (ok bool) {
	store, can := blob.As[blob.Checked](k.Store)
	if !can {
		return false
	}
	if c, is := k.Store.(*counted); is {
		c.n.Add(1)
	}
	key := newPackKey()
	if store.PutChecked(k.ctx, k.Prefix+key, f, e.Size, blob.Sums{SHA256: e.Sum.SHA256, CRC32C: crc}) != nil {
		return false
	}
	e.At = k.own(key, e.Size)
	return true
}

// own is the place of a file that has an object to itself.
func (k *packer) own(key string, size int64) Place {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.packs = append(k.packs, Pack{Key: key, Size: size})
	return Place{len(k.packs) - 1, 0}
}

// newPackKey is a key that no other has.
func newPackKey() string { return packsFolder + newID() }

func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return hex.EncodeToString(id[:])
}
