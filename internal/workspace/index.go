package workspace

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/blob"
)

// Index is what a tree was when it was last the same as a version: the base of the next comparison. It
// also remembers what tells whether a file has changed since, so that an unchanged one is not read.
// It can be lost: everything is then read again, and nothing is deleted.
type Index struct {
	Manifest          // the version; its entries are those of the tree
	HeadTag  blob.Tag // of HEAD when it was read or written
	Digest   [32]byte // of the manifest as stored
	Stamps   []Stamp  // of each entry; zero where it is not known
	Scanned  int64    // when the scan began that the stamps are from, by this machine's clock

	in string // the file that has it, as it is
}

// clean reports whether the file that was seen is the one of the entry, without reading it. A file that
// changed at about the time of the scan may have changed again since, unseen by any clock: it is read.
func (x *Index) clean(i int, seen *Seen) bool {
	e, stamp := &x.Entries[i], x.Stamps[i]
	return e.Kind == seen.Kind && e.Size == seen.Size && e.ModTime == seen.ModTime && e.Mode == seen.Mode &&
		stamp == seen.Stamp && stamp.Inode != 0 && stamp.ChangeTime < x.Scanned-clockGrain
}

// find is the entry of a path, nil if there is none.
func (m *Manifest) find(path string) *Entry {
	i, ok := sort.Find(len(m.Entries), func(i int) int { return strings.Compare(path, m.Entries[i].Path) })
	if !ok {
		return nil
	}
	return &m.Entries[i]
}

// clockGrain is more than the finest step of the clocks that file systems stamp files with.
const clockGrain = int64(20 * time.Millisecond)

const indexMagic = "berth index 2\n"

// encode writes the index: a header, the entries, and a checksum over all of it.
func (x *Index) encode() []byte {
	b := make([]byte, 0, 256+len(x.Entries)*140)
	b = append(b, indexMagic...)
	for _, text := range []string{x.ID, x.Lineage, x.Parent, string(x.Layout), string(x.HeadTag)} {
		b = appendString(b, text)
	}
	b = append(b, x.Digest[:]...)
	for _, n := range []int64{x.Sequence, x.At.UnixNano(), x.Scanned, int64(len(x.Packs)), int64(len(x.Entries))} {
		b = binary.AppendVarint(b, n)
	}
	for _, p := range x.Packs {
		b = binary.AppendVarint(appendString(b, p.Key), p.Size)
	}
	for i := range x.Entries {
		e, stamp := &x.Entries[i], x.Stamps[i]
		b = append(appendString(b, e.Path), byte(e.Kind))
		b = binary.AppendUvarint(b, uint64(e.Mode))
		b = binary.AppendVarint(b, e.ModTime)
		b = binary.AppendVarint(b, stamp.ChangeTime)
		b = binary.AppendUvarint(b, stamp.Inode)
		switch e.Kind {
		case Link:
			b = appendString(b, e.Target)
		case File:
			b = binary.AppendVarint(b, e.Size)
			b = append(append(b, e.Sum.SHA256[:]...), e.Sum.MD5[:]...)
			b = binary.AppendVarint(b, int64(e.At.Pack))
			b = binary.AppendVarint(b, e.At.Offset)
		}
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

var errBadIndex = errors.New("the index is broken")

// decodeIndex reads what encode wrote. Whatever is wrong is errBadIndex: the index is then as good as lost.
func decodeIndex(b []byte) (*Index, error) {
	if len(b) < len(indexMagic)+4 || string(b[:len(indexMagic)]) != indexMagic {
		return nil, errBadIndex
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, errBadIndex
	}
	r := &indexReader{b: body[len(indexMagic):], all: string(body[len(indexMagic):])}
	x := &Index{}
	x.ID, x.Lineage, x.Parent, x.Layout, x.HeadTag = r.text(), r.text(), r.text(), Layout(r.text()), blob.Tag(r.text())
	copy(x.Digest[:], r.bytes(32))
	x.Sequence = r.int()
	x.At = time.Unix(0, r.int()).UTC()
	x.Scanned = r.int()
	packs, entries := r.count(), r.count()
	for range packs {
		p := Pack{Key: r.text(), Size: r.int()}
		r.failed = r.failed || p.Size < 0 || checkKey(p.Key) != nil
		x.Packs = append(x.Packs, p)
	}
	x.Entries, x.Stamps = make([]Entry, entries), make([]Stamp, entries)
	for i := range x.Entries {
		r.entry(&x.Entries[i], &x.Stamps[i])
	}
	if r.failed || len(r.b) > 0 || checkEntries(x.Entries, x.Packs) != nil {
		return nil, errBadIndex
	}
	return x, nil
}

// indexReader takes the fields of an index one by one; after the first that is not there, it has failed.
type indexReader struct {
	b      []byte
	all    string // the same bytes: names share them instead of being copied
	failed bool
}

func (r *indexReader) int() int64 {
	n, size := binary.Varint(r.b)
	return int64(r.took(uint64(n), size))
}

func (r *indexReader) uint() uint64 {
	n, size := binary.Uvarint(r.b)
	return r.took(n, size)
}

func (r *indexReader) took(n uint64, size int) uint64 {
	if size <= 0 || r.failed {
		r.failed = true
		return 0
	}
	r.b = r.b[size:]
	return n
}

// count is a number of things, of which each takes a byte at least.
func (r *indexReader) count() int {
	n := r.int()
	if n < 0 || n > int64(len(r.b)) {
		r.failed = true
		return 0
	}
	return int(n)
}

func (r *indexReader) bytes(n int) []byte {
	if n < 0 || n > len(r.b) || r.failed {
		r.failed = true
		return nil
	}
	got := r.b[:n]
	r.b = r.b[n:]
	return got
}

func (r *indexReader) text() string {
	n := r.uint()
	if n > uint64(len(r.b)) || r.failed {
		r.failed = true
		return ""
	}
	from := len(r.all) - len(r.b)
	r.b = r.b[n:]
	return r.all[from : from+int(n)]
}

func (r *indexReader) entry(e *Entry, stamp *Stamp) {
	e.Path = r.text()
	if kind := r.bytes(1); kind != nil {
		e.Kind = Kind(kind[0])
	}
	e.Mode, e.ModTime = uint32(r.uint()), r.int()
	stamp.ChangeTime, stamp.Inode = r.int(), r.uint()
	switch e.Kind {
	case Link:
		e.Target = r.text()
	case File:
		e.Size = r.int()
		copy(e.Sum.SHA256[:], r.bytes(32))
		copy(e.Sum.MD5[:], r.bytes(16))
		e.At.Pack = int(r.int())
		e.At.Offset = r.int()
	}
}

// LoadIndex reads an index file. One that is not there, or cannot be read as one, is nil: nothing is
// known of the tree. It may be where others write, so nothing but a file of a bounded size is read.
func LoadIndex(path string) (*Index, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO):
		return nil, nil
	case err != nil:
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxManifest {
		return nil, err
	}
	b := make([]byte, info.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, err
	}
	x, err := decodeIndex(b)
	if err != nil {
		return nil, nil //nolint:nilerr // a broken cache is no cache
	}
	x.in = path
	return x, nil
}

// Save writes the index file, whole or not at all; one that was read from there only gets the time of now.
// It need not be synced: what is lost is read again.
func (x *Index) Save(path string) error {
	if x.in == path && unix.UtimesNanoAt(unix.AT_FDCWD, path, nil, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp-")
	if err != nil {
		return err
	}
	_, err = f.Write(x.encode())
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
