package workspace

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/berthdev/berth/internal/blob"
)

// plainSending is the number of concurrent uploads or copies in the plain layout.
const plainSending = 16

// asObject reports whether a file is stored as a separate object under its path. Files whose paths are not valid
// keys go into packs, even in the plain layout.
func (k *packer) asObject(path string) bool {
	return k.Layout == Plain && blob.CheckKey(k.Prefix+plainKey(k.next.ID, path)) == nil
}

// copying is a planned copy of an object. An empty from creates an empty object. Copies run only if there is a new
// version.
type copying struct{ from, to string }

// copyFrom plans to copy the object of a base file into the next version. It returns false if the file shares its
// object with others.
func (k *packer) copyFrom(e *Entry) (at PackOffset, ok bool) {
	if e.Size > 0 && !k.base.hasOwnObject(e) {
		return PackOffset{}, false
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
	return PackOffset{len(k.packs) - 1, 0}, true
}

// hasOwnObject reports whether a file is the whole content of its object.
func (m *Manifest) hasOwnObject(e *Entry) bool {
	return e.At.Offset == 0 && m.Packs[e.At.Pack].Size == e.Size
}

// copyAll starts all planned copies.
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

// copySame plans a copy for a file that was read and has the same bytes as in the base.
func (k *packer) copySame(e *Entry) (PackOffset, bool) {
	was := k.base.find(e.Path)
	if was == nil || !was.content(e) {
		return PackOffset{}, false
	}
	return k.copyFrom(was)
}

// dropCopy removes the planned copy of a file that changed while it was read.
func (k *packer) dropCopy(path string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	to := plainKey(k.next.ID, path)
	k.copies = slices.DeleteFunc(k.copies, func(c copying) bool { return c.to == to })
}

// sizeOf returns the size of the file at a path, or -1 if there is none.
func (m *Manifest) sizeOf(path string) int64 {
	if e := m.find(path); e != nil && e.Kind == File {
		return e.Size
	}
	return -1
}

// storeObject stores the small file in r.buf as an object under its path. It copies the base's object instead if
// the bytes are equal. It reports whether the file is uploaded.
func (r *reader) storeObject(e *Entry) (sent bool, err error) {
	if at, ok := r.copySame(e); ok {
		e.At = at
		return false, nil
	}
	key, data := plainKey(r.next.ID, e.Path), slices.Clone(r.buf)
	r.mu.Lock()
	err = r.countLocked(&Pack{Key: key, Size: e.Size})
	r.mu.Unlock()
	if err != nil {
		return false, err
	}
	e.At = r.addObject(key, e.Size)
	return true, r.send(func() error { return r.putObject(key, data) })
}
