package spool

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/berthdev/berth/internal/guest/wire"
)

// Read yields the frames of the spool in dir after an offset, waits for more while the process runs, and ends with the
// frame that has the Exit. For an offset within a frame, Read first yields the rest of the frame. A negative offset
// means the oldest one in the spool.
func Read(ctx context.Context, dir string, after int64) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		r := reader{dir: dir, next: after}
		defer r.close()
		if err := r.read(ctx, yield); err != nil {
			yield(Frame{}, err)
		}
	}
}

// reader is the state of one Read or Follow.
type reader struct {
	dir  string
	next int64 // the offset of the next byte to yield

	file  *os.File // the current segment, or nil
	start int64    // the output offset at which the segment starts
	size  int64    // the size of the segment file at the last read
	pos   int64    // the position of the next frame in the segment file
	at    int64    // the output offset of the next frame

	root, id  string        // the directory and id of a spool that Follow reads; empty for Read
	patience  time.Duration // the longest time the writer waits without progress of this reader
	mark      *mark         // the file with this reader's offset, for the writer
	announced bool          // announce was called

	exit *os.File // the exit file, or nil
	buf  []byte   // for the content of the exit file
}

// read returns nil when the end was yielded or the caller has stopped.
func (r *reader) read(ctx context.Context, yield func(Frame, error) bool) error {
	news := watch(r.dir)
	defer news.Close()
	for {
		all := news.Other() || r.file == nil
		var end int64
		var exit *wire.Exit
		if all {
			// The end is read before the frames: if it is there, all output is there too.
			var err error
			if end, exit, err = r.readEnd(); err != nil {
				return err
			}
		}
		if exit == nil && r.root != "" && r.mark == nil && !r.announced {
			r.announced = true
			r.announce()
			continue // the writer may have removed segments before it saw the mark: read again
		}
		before := r.next
		stopped, err := r.catchUp(ctx, all, yield)
		if stopped || err != nil {
			return err
		}
		if exit != nil {
			return r.finish(end, exit, yield)
		}
		if r.next > before {
			news.Expect()
		}
		r.mark.move(r.next, 1)
		if err := news.Wait(ctx); err != nil {
			return err
		}
	}
}

// finish yields the last frame. It returns an error if the yielded output does not stop exactly at end.
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

// catchUp yields the new frames of the current segment and, if all is set, of the segments after it.
func (r *reader) catchUp(ctx context.Context, all bool, yield func(Frame, error) bool) (stopped bool, err error) {
	for more := true; more; {
		stopped, err := r.advance(ctx, yield)
		if stopped || err != nil || !all {
			return stopped, err
		}
		if more, err = r.move(); err != nil {
			return false, err
		}
	}
	return false, nil
}

// advance yields the new frames of the current segment.
func (r *reader) advance(ctx context.Context, yield func(Frame, error) bool) (stopped bool, err error) {
	for r.file != nil {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		frames, err := r.frames()
		if err != nil || len(frames) == 0 {
			return false, err
		}
		for _, f := range frames {
			if f.Next <= r.next {
				continue
			}
			f.Data = f.Data[int64(len(f.Data))-(f.Next-r.next):]
			r.next = f.Next
			if !yield(f, nil) {
				return true, nil
			}
			r.mark.move(r.next, markStep)
		}
		if r.pos == r.size {
			break
		}
	}
	return false, nil
}

// frames reads the next complete frames of the segment with one read. The buffer is not used again.
func (r *reader) frames() ([]Frame, error) {
	size, _, err := lengthOf(r.file)
	if err != nil {
		return nil, err
	}
	r.size = size
	buf := make([]byte, max(0, min(size-r.pos, header+MaxFrame)))
	n, err := readAt(r.file, buf, r.pos)
	if err != nil {
		return nil, err
	}
	frames, used, err := parse(buf[:n], r.at)
	r.pos += int64(used)
	if len(frames) > 0 {
		r.at = frames[len(frames)-1].Next
	}
	return frames, err
}

// parse returns the complete frames in b and the number of bytes that they use. The first frame starts at the output
// offset at.
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

// move opens the next segment and reports whether there may be more to read. The writer makes a segment only when the
// one before it is complete, and removes the oldest first. So while the current segment still has its name, a missing
// next segment has not been made yet.
func (r *reader) move() (more bool, err error) {
	if r.file == nil {
		return r.find()
	}
	if r.at > r.start && r.size >= minSegment { // else it is not complete
		if moved, err := r.open(r.at); moved || err != nil {
			return moved, err
		}
	}
	// The writer may have appended to the current segment after it was read to its end.
	size, linked, err := lengthOf(r.file)
	switch {
	case err != nil || size > r.size:
		return true, err
	case linked:
		return false, nil
	case r.at > r.start:
		return false, r.trimmed(r.at)
	}
	return r.find()
}

// find opens the segment with the byte at r.next, unless it is the current one.
func (r *reader) find() (moved bool, err error) {
	starts, err := r.segments()
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
	if moved, err := r.open(starts[i]); moved || err != nil {
		return moved, err
	}
	return false, r.trimmed(starts[i])
}

// missing returns the error of a spool without segments: err if it is set, or ErrTrimmed if this reader has read a
// segment before. Otherwise the process has no output yet, which is not an error.
func (r *reader) missing(err error) error {
	if err == nil && r.file != nil {
		return ErrTrimmed
	}
	return err
}

// open makes the segment that starts at an offset the current one. It returns false if there is no such segment.
func (r *reader) open(start int64) (bool, error) {
	f, err := openFile(r.dir + "/" + segmentName(start))
	if f == nil || err != nil {
		return false, err
	}
	closeFile(r.file)
	r.file, r.start, r.size, r.pos, r.at = f, start, 0, 0, start
	return true, nil
}

// trimmed returns ErrTrimmed if all segments start after the offset at.
func (r *reader) trimmed(at int64) error {
	starts, err := r.segments()
	if err != nil {
		return err
	}
	if len(starts) > 0 && starts[0] > at {
		return ErrTrimmed
	}
	return nil
}

// segments lists the segments that exist now. It closes the exit file: this spool may have been removed and another
// made under its name, with another exit file.
func (r *reader) segments() ([]int64, error) {
	r.forgetEnd()
	return segments(r.dir)
}

func (r *reader) close() {
	closeFile(r.file)
	r.file = nil
	r.forgetEnd()
	r.mark.close()
	r.mark = nil
}

// segments lists the start offsets of a spool's segments, in ascending order.
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

// none returns ErrNone for the error of a missing file, and any other error as it is.
func none(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNone
	}
	return err
}
