package spool

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"

	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// Read yields the frames of the spool in dir that lie behind an offset, waits for more while there is no
// end, and ends with the frame that carries the Exit. An offset within a frame yields the rest of it; a
// negative one stands for the oldest there is.
func Read(ctx context.Context, dir string, after int64) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		r := reader{dir: dir, next: after}
		defer r.close()
		if err := r.read(ctx, yield); err != nil {
			yield(Frame{}, err)
		}
	}
}

// reader is one walk along a spool.
type reader struct {
	dir  string
	next int64 // the offset of the next byte to yield

	file  *os.File // the segment at hand, or nil
	start int64    // its offset
	pos   int64    // where its next frame begins, in the file
	at    int64    // and in the output
}

// read returns nil when the end was yielded or nobody listens any more.
func (r *reader) read(ctx context.Context, yield func(Frame, error) bool) error {
	news := watch(r.dir)
	defer news.Close()
	for {
		// The end is looked for first: what is written before it is then there to be read.
		end, exit, err := readEnd(r.dir)
		if err != nil {
			return err
		}
		before := r.next
		stopped, err := r.catchUp(ctx, yield)
		if stopped || err != nil {
			return err
		}
		if exit != nil {
			return r.finish(end, exit, yield)
		}
		if r.next > before {
			news.Expect()
		}
		if err := news.Wait(ctx); err != nil {
			return err
		}
	}
}

// finish yields the end, if all that comes before it was there.
func (r *reader) finish(end int64, exit *wire.Exit, yield func(Frame, error) bool) error {
	r.next = max(r.next, 0)
	switch {
	case r.next > end:
		return ErrBeyond
	case r.next < end:
		return ErrDamaged
	}
	yield(Frame{Next: end, Exit: exit}, nil)
	return nil
}

// catchUp yields all there is.
func (r *reader) catchUp(ctx context.Context, yield func(Frame, error) bool) (stopped bool, err error) {
	for {
		found, stopped, err := r.advance(ctx, yield)
		if stopped || err != nil {
			return stopped, err
		}
		if moved, err := r.move(); err != nil || !moved && !found {
			return false, err
		}
	}
}

// advance yields what the segment at hand has more.
func (r *reader) advance(ctx context.Context, yield func(Frame, error) bool) (found, stopped bool, err error) {
	for r.file != nil {
		if err := ctx.Err(); err != nil {
			return found, false, err
		}
		frames, err := r.frames()
		if err != nil || len(frames) == 0 {
			return found, false, err
		}
		found = true
		for _, f := range frames {
			if f.Next <= r.next {
				continue
			}
			f.Data = f.Data[int64(len(f.Data))-(f.Next-r.next):]
			r.next = f.Next
			if !yield(f, nil) {
				return true, true, nil
			}
		}
	}
	return found, false, nil
}

// frames reads the next whole frames of the segment, in one go.
func (r *reader) frames() ([]Frame, error) {
	info, err := r.file.Stat()
	if err != nil {
		return nil, err
	}
	buf := make([]byte, max(0, min(info.Size()-r.pos, header+MaxFrame)))
	n, err := r.file.ReadAt(buf, r.pos)
	if err != nil && err != io.EOF {
		return nil, err
	}
	frames, used, err := parse(buf[:n], r.at)
	r.pos += int64(used)
	if len(frames) > 0 {
		r.at = frames[len(frames)-1].Next
	}
	return frames, err
}

// parse finds the whole frames in b, the first of which starts at an offset.
func parse(b []byte, at int64) (frames []Frame, used int, err error) {
	for len(b)-used >= header {
		h := b[used:]
		n := int(h[1])<<16 | int(h[2])<<8 | int(h[3])
		if h[0] < 1 || h[0] > 2 || n < 1 || n > MaxFrame {
			return frames, used, ErrDamaged
		}
		if len(h) < header+n {
			break
		}
		at += int64(n)
		used += header + n
		frames = append(frames, Frame{Stream: h[0], Data: h[header : header+n : header+n], Next: at})
	}
	return frames, used, nil
}

// move goes to the segment that has the next byte, if that is not the one at hand. It looks whenever that
// is read to its end: the writer makes the next segment only when the one before is complete.
func (r *reader) move() (moved bool, err error) {
	if r.file != nil && r.at > r.start {
		return r.open(r.at)
	}
	starts, err := segments(r.dir)
	if err != nil || len(starts) == 0 {
		return false, r.missing(err)
	}
	if r.next < 0 {
		r.next = starts[0]
	}
	if r.next < starts[0] {
		return false, ErrTrimmed
	}
	i, exact := slices.BinarySearch(starts, r.next)
	if !exact {
		i--
	}
	if r.file != nil && starts[i] == r.start {
		return false, nil
	}
	return r.open(starts[i])
}

// missing is what it means that there is no segment: no output yet, unless some was seen before.
func (r *reader) missing(err error) error {
	if err == nil && r.file != nil {
		return ErrTrimmed
	}
	return err
}

// open opens the segment that starts at an offset. That it is not there means that it is yet to come, or
// that it is gone already, which the newer ones tell.
func (r *reader) open(start int64) (bool, error) {
	file, err := os.OpenFile(r.dir+"/"+segmentName(start), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		// The segment at hand may have been written on since it was read to its end.
		if more, err := r.unread(); more || err != nil {
			return more, err
		}
		return false, r.trimmed(start)
	}
	if err != nil {
		return false, err
	}
	r.close()
	r.file, r.start, r.pos, r.at = file, start, 0, start
	return true, nil
}

// unread tells whether the segment at hand has another whole frame.
func (r *reader) unread() (bool, error) {
	if r.file == nil {
		return false, nil
	}
	var h [header]byte
	if n, err := r.file.ReadAt(h[:], r.pos); n < header {
		return false, ignoreEOF(err)
	}
	info, err := r.file.Stat()
	if err != nil {
		return false, err
	}
	n := int64(h[1])<<16 | int64(h[2])<<8 | int64(h[3])
	return info.Size() >= r.pos+header+n, nil
}

func ignoreEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// trimmed tells whether what comes at an offset, at which no segment starts, is gone.
func (r *reader) trimmed(at int64) error {
	starts, err := segments(r.dir)
	if err != nil {
		return err
	}
	if len(starts) > 0 && starts[0] > at {
		return ErrTrimmed
	}
	return nil
}

func (r *reader) close() {
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}

// segments are the starts of a spool's segments, in order.
func segments(dir string) ([]int64, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, none(err)
	}
	defer d.Close()
	names, err := d.Readdirnames(maxNames)
	if err != nil && err != io.EOF {
		return nil, none(err)
	}
	var starts []int64
	for _, name := range names {
		if start, ok := segmentStart(name); ok {
			starts = append(starts, start)
		}
	}
	slices.Sort(starts)
	return starts, nil
}

// maxNames is far more than a spool has segments.
const maxNames = 1 << 16

// readEnd is how the process ended; exit is nil while it has not.
func readEnd(dir string) (end int64, exit *wire.Exit, err error) {
	f, err := os.OpenFile(dir+"/"+exitFile, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		// The helper died between making the directory and the file, or is about to make it.
		_, err := os.Stat(dir)
		return 0, nil, none(err)
	}
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxExit+1))
	if err != nil || len(b) == 0 {
		return 0, nil, err
	}
	if len(b) > maxExit {
		return 0, nil, ErrDamaged
	}
	end, x, err := decodeEnd(b)
	return end, &x, err
}

// none names a missing spool.
func none(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNone
	}
	return err
}
