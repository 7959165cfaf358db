package workspace

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/berthdev/berth/internal/blob"
)

// plainSending is how many objects are sent or copied at once in the plain layout.
const plainSending = 16

// asObject reports whether a file becomes an object of its own under its path. Names that no key can have
// go into packs, in the plain layout too.
func (k *packer) asObject(path string) bool {
	return k.Layout == Plain && blob.CheckKey(k.Prefix+plainKey(k.next.ID, path)) == nil
}

// copying is an object to be copied. That waits until it is known that there is a new version at all.
type copying struct{ from, to string }

// copyFrom takes a file over from the base by having its object copied.
func (k *packer) copyFrom(e *Entry) (at Place, ok bool) {
	if e.Size > 0 && !k.base.alone(e) {
		return Place{}, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	to := plainKey(k.next.ID, e.Path)
	if e.Size == 0 {
		k.copies = append(k.copies, copying{"", to})
	} else {
		k.copies = append(k.copies, copying{k.base.Packs[e.At.Pack].Key, to})
	}
	k.packs = append(k.packs, Pack{to, e.Size})
	return Place{len(k.packs) - 1, 0}, true
}

// alone reports whether a file has an object to itself.
func (m *Manifest) alone(e *Entry) bool { return e.At.Offset == 0 && m.Packs[e.At.Pack].Size == e.Size }

// copyAll has everything copied that is taken over.
func (k *packer) copyAll() error {
	for _, c := range k.copies {
		if err := k.send(func() error { return k.copyOne(c) }); err != nil {
			return err
		}
	}
	return nil
}

func (k *packer) copyOne(c copying) error {
	if c.from == "" {
		return k.putObject(c.to, nil)
	}
	if err := k.Store.Copy(k.ctx, k.Prefix+c.from, k.Prefix+c.to); err != nil {
		return fmt.Errorf("copy %s to %s: %w", c.from, c.to, err)
	}
	return nil
}

func (k *packer) putObject(key string, data []byte) error {
	if _, err := k.Store.Put(k.ctx, k.Prefix+key, bytes.NewReader(data), int64(len(data)), blob.PutOptions{}); err != nil {
		return fmt.Errorf("store %s: %w", key, err)
	}
	return nil
}

// copySame takes a file over from the base that was read and found to be the same.
func (k *packer) copySame(e *Entry) (Place, bool) {
	was := k.base.find(e.Path)
	if was == nil || !was.content(e) {
		return Place{}, false
	}
	return k.copyFrom(was)
}

// uncopy undoes copySame for a file that changed while it was read.
func (k *packer) uncopy(path string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	to := plainKey(k.next.ID, path)
	k.copies = slices.DeleteFunc(k.copies, func(c copying) bool { return c.to == to })
}

// sizeOf is the size of a file, less than nothing if there is none.
func (m *Manifest) sizeOf(path string) int64 {
	if e := m.find(path); e != nil && e.Kind == File {
		return e.Size
	}
	return -1
}

// storeObject stores the small file that was read last under its path: by a copy of the object that the
// base has for it if its bytes are the same, which our own checksum says.
func (r *reader) storeObject(e *Entry) (sent bool, err error) {
	if at, ok := r.copySame(e); ok {
		e.At = at
		return false, nil
	}
	key, data := plainKey(r.next.ID, e.Path), slices.Clone(r.buf)
	e.At = r.own(key, e.Size)
	return true, r.send(func() error { return r.putObject(key, data) })
}
