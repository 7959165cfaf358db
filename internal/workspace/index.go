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

// Index is the last synced version of a tree, which is the base of the next comparison. It also holds stamps of all
// files, so that unchanged files are not read. If it is lost, the next sync reads everything and deletes nothing.
type Index struct {
	Manifest          // the version; its entries are the entries of the tree
	HeadTag  blob.Tag // tag of HEAD when it was read or written
	Digest   [32]byte // SHA-256 of the stored manifest
	Stamps   []Stamp  // stamp of each entry; zero if unknown
	Scanned  int64    // start of the scan that made the stamps, in nanoseconds of this machine's clock

	loadedFrom string // path of the index file that this index was loaded from; empty for others
}

// clean reports whether a scanned file is unchanged since entry i was recorded. It compares only metadata. It returns
// false for a file that changed at about the time of the last scan, because the file may have changed again with the
// same timestamp.
func (x *Index) clean(i int, seen *Seen) bool {
	e, stamp := &x.Entries[i], x.Stamps[i]
	return e.Kind == seen.Kind && e.Size == seen.Size && e.ModTime == seen.ModTime && e.Mode == seen.Mode &&
		stamp == seen.Stamp && stamp.Inode != 0 && stamp.ChangeTime < x.Scanned-clockGrain
}

// find returns the entry with the path, or nil.
func (m *Manifest) find(path string) *Entry {
	i, ok := sort.Find(len(m.Entries), func(i int) int { return strings.Compare(path, m.Entries[i].Path) })
	if !ok {
		return nil
	}
	return &m.Entries[i]
}

// clockGrain is larger than the resolution of file timestamps on any file system.
const clockGrain = int64(20 * time.Millisecond)

const indexMagic = "berth index 2\n"

// encode encodes the index: a header, the entries, and a checksum.
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

// decodeIndex decodes an index from encode. Every error is errBadIndex; the caller then treats the index as lost.
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

// indexReader reads the fields of an index. After the first missing field, failed is true and all reads return zero
// values.
type indexReader struct {
	b      []byte
	all    string // the same bytes as a string, so that paths share its memory
	failed bool
}

func (r *indexReader) int() int64 {
	n, size := binary.Varint(r.b)
	return int64(r.advance(uint64(n), size))
}

func (r *indexReader) uint() uint64 {
	n, size := binary.Uvarint(r.b)
	return r.advance(n, size)
}

func (r *indexReader) advance(n uint64, size int) uint64 {
	if size <= 0 || r.failed {
		r.failed = true
		return 0
	}
	r.b = r.b[size:]
	return n
}

// count reads the number of items in a list. It fails if the number exceeds the remaining bytes, because each item
// has at least one byte.
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

// LoadIndex reads an index file. It returns nil if the file is missing or broken. Other processes may be able to
// replace the file, so only a regular file of limited size is read.
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
		return nil, nil //nolint:nilerr // a broken cache counts as missing
	}
	x.loadedFrom = path
	return x, nil
}

// Save writes the index file atomically. An unchanged index that was loaded from the same path only sets the file's
// time. The file is not synced to disk, because a lost index can be rebuilt.
func (x *Index) Save(path string) error {
	if x.loadedFrom == path && unix.UtimesNanoAt(unix.AT_FDCWD, path, nil, unix.AT_SYMLINK_NOFOLLOW) == nil {
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
