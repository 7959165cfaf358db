package workspace

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/fault"
)

// A pack that is mostly zeros is stored as a sparse object: a table of data extents, followed by the bytes of these
// extents. Offsets, sizes and checksums in the manifest refer to the whole content, so that only the code that
// reads and writes the object differs. The key of such an object has a mark and contains the stored size.

const (
	sparseMark  = "-sparse-"
	sparseMagic = "berth sparse 1\n\x00"
	sparseBlock = 4 << 10
	// sparseLeast is the minimum number of zeros for which a sparse object is worthwhile.
	sparseLeast = 64 << 10
	maxExtents  = 64 << 10
)

// extent is a range of a file that contains data.
type extent struct{ from, to int64 }

// sparseKey returns the key of a sparse pack from its normal key and its stored size.
func sparseKey(key string, stored int64) string {
	return key + sparseMark + strconv.FormatInt(stored, 16)
}

func isSparse(key string) bool { return strings.Contains(key, sparseMark) }

// stored returns the size of a pack's object in the store.
func (p *Pack) stored() int64 {
	_, text, ok := strings.Cut(p.Key, sparseMark)
	if !ok {
		return p.Size
	}
	n, err := strconv.ParseInt(text, 16, 64)
	if err != nil {
		return p.Size
	}
	return n
}

// worthwhile reports whether content of this size should be stored as a sparse object.
func worthwhile(extents []extent, size int64) bool {
	zeros := size - dataIn(extents)
	return zeros >= sparseLeast && (zeros >= size/2 || zeros >= 64<<20)
}

func dataIn(extents []extent) (n int64) {
	for _, x := range extents {
		n += x.to - x.from
	}
	return n
}

// fileExtents lists the data extents of a file, and sets the file offset to 0.
func fileExtents(fd int, size int64) (extents []extent, err error) {
	for at := int64(0); at < size; {
		from, err := unix.Seek(fd, at, unix.SEEK_DATA)
		if err == unix.ENXIO {
			break // no data follows
		}
		if err != nil {
			return nil, err
		}
		to, err := unix.Seek(fd, from, unix.SEEK_HOLE)
		if err != nil {
			return nil, err
		}
		if from >= size {
			break
		}
		to = min(to, size)
		if len(extents) == maxExtents-1 {
			to = size
		}
		extents = append(extents, extent{from, to})
		at = to
	}
	_, err = unix.Seek(fd, 0, io.SeekStart)
	return extents, err
}

// dataExtents lists the ranges of data that are not zero, rounded to blocks.
func dataExtents(data []byte) (extents []extent) {
	for at := 0; at < len(data); at += sparseBlock {
		to := min(at+sparseBlock, len(data))
		if isZero(data[at:to]) {
			continue
		}
		if n := len(extents); n > 0 && extents[n-1].to == int64(at) {
			extents[n-1].to = int64(to)
		} else {
			extents = append(extents, extent{int64(at), int64(to)})
		}
	}
	return extents
}

// sparseHead returns the head of a sparse object: magic, content size and table of extents.
func sparseHead(extents []extent, size int64) []byte {
	head := append([]byte(nil), sparseMagic...)
	head = binary.BigEndian.AppendUint64(head, uint64(size))
	head = binary.BigEndian.AppendUint32(head, uint32(len(extents)))
	for _, x := range extents {
		head = binary.BigEndian.AppendUint64(head, uint64(x.from))
		head = binary.BigEndian.AppendUint64(head, uint64(x.to))
	}
	return head
}

// sparseBytes encodes data as a sparse object.
func sparseBytes(data []byte, extents []extent) []byte {
	out := sparseHead(extents, int64(len(data)))
	for _, x := range extents {
		out = append(out, data[x.from:x.to]...)
	}
	return out
}

// holeWriter writes only the data extents. It returns an error if a hole contains data, because then the file
// changed.
type holeWriter struct {
	to      io.Writer
	extents []extent
	at      int64
}

func (w *holeWriter) Write(p []byte) (n int, err error) {
	for n < len(p) {
		for len(w.extents) > 0 && w.extents[0].to <= w.at {
			w.extents = w.extents[1:]
		}
		rest := int64(len(p) - n)
		switch {
		case len(w.extents) == 0 || w.at+rest <= w.extents[0].from:
		case w.at < w.extents[0].from:
			rest = w.extents[0].from - w.at
		default:
			rest = min(rest, w.extents[0].to-w.at)
			if _, err := w.to.Write(p[n : n+int(rest)]); err != nil {
				return n, err
			}
			n, w.at = n+int(rest), w.at+rest
			continue
		}
		if !isZero(p[n : n+int(rest)]) {
			return n, errShrunk
		}
		n, w.at = n+int(rest), w.at+rest
	}
	return n, nil
}

// getPack reads the content of a pack, or a range of the content. It handles sparse packs.
func (r *Repo) getPack(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	if !isSparse(key) {
		return r.Store.Get(ctx, r.Prefix+key, o)
	}
	whole, err := r.Store.Get(ctx, r.Prefix+key, blob.GetOptions{})
	if err != nil {
		return nil, err
	}
	b := &sparseBody{body: whole.Body}
	if err := b.readHead(whole.Size); err != nil {
		whole.Body.Close()
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	end := b.size
	if o.Length > 0 {
		end = o.Offset + o.Length
	}
	if o.Offset < 0 || o.Offset > b.size || end > b.size {
		whole.Body.Close()
		return nil, fmt.Errorf("read %s: %w", key, blob.ErrRange)
	}
	skip := b.begin(o.Offset, end)
	if skip > 0 {
		whole.Body.Close()
		part, err := r.Store.Get(ctx, r.Prefix+key, blob.GetOptions{Offset: b.head + skip})
		if err != nil && skip < whole.Size-b.head {
			return nil, err
		}
		b.body = io.NopCloser(bytes.NewReader(nil))
		if err == nil {
			b.body = part.Body
		}
	}
	return &blob.Object{Body: b, Size: b.size, Tag: whole.Tag, At: whole.At}, nil
}

// sparseBody reads the content of a sparse object, with its zeros.
type sparseBody struct {
	body    io.ReadCloser
	head    int64 // size of the head in bytes
	size    int64 // size of the content
	extents []extent
	at, end int64
}

// readHead reads and checks the head. The object may be damaged or may not be a pack.
func (b *sparseBody) readHead(stored int64) error {
	damaged := func() error {
		return fault.Errorf("read pack", api.CodeBadManifest, "the table of a sparse pack is damaged")
	}
	fixed := make([]byte, len(sparseMagic)+12)
	if _, err := io.ReadFull(b.body, fixed); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(fixed[len(fixed)-4:])
	size := binary.BigEndian.Uint64(fixed[len(sparseMagic):])
	if !bytes.HasPrefix(fixed, []byte(sparseMagic)) || n > maxExtents || size > uint64(maxSize) {
		return damaged()
	}
	table := make([]byte, 16*int(n))
	if _, err := io.ReadFull(b.body, table); err != nil {
		return err
	}
	b.size, b.head = int64(size), int64(len(fixed)+len(table))
	last := int64(0)
	for ; len(table) > 0; table = table[16:] {
		from, to := binary.BigEndian.Uint64(table), binary.BigEndian.Uint64(table[8:])
		if from > size || to > size || from >= to || int64(from) < last {
			return damaged()
		}
		last = int64(to)
		b.extents = append(b.extents, extent{int64(from), int64(to)})
	}
	if b.head+dataIn(b.extents) != stored {
		return damaged()
	}
	return nil
}

// begin sets the range to read. It returns the number of stored data bytes before the range.
func (b *sparseBody) begin(from, end int64) (skip int64) {
	b.at, b.end = from, end
	i := sort.Search(len(b.extents), func(i int) bool { return b.extents[i].to > from })
	skip = dataIn(b.extents[:i])
	b.extents = b.extents[i:]
	if len(b.extents) > 0 && b.extents[0].from < from {
		skip += from - b.extents[0].from
	}
	return skip
}

func (b *sparseBody) Read(p []byte) (int, error) {
	if b.at >= b.end {
		return 0, io.EOF
	}
	for len(b.extents) > 0 && b.extents[0].to <= b.at {
		b.extents = b.extents[1:]
	}
	p = p[:min(int64(len(p)), b.end-b.at)]
	if len(b.extents) > 0 && b.extents[0].from <= b.at {
		n, err := b.body.Read(p[:min(int64(len(p)), b.extents[0].to-b.at)])
		b.at += int64(n)
		if err == io.EOF && n > 0 {
			err = nil
		} else if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return n, err
	}
	if len(b.extents) > 0 {
		p = p[:min(int64(len(p)), b.extents[0].from-b.at)]
	}
	clear(p)
	b.at += int64(len(p))
	return len(p), nil
}

// Close implements io.Closer.
func (b *sparseBody) Close() error { return b.body.Close() }
