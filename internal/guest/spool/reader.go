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
	size  int64    // how long it was when it was last read
	pos   int64    // where its next frame begins, in the file
	at    int64    // and in the output

	root, id  string        // of a spool that is followed; empty: it is only read
	patience  time.Duration // how long the writer waits for us
	mark      *mark         // where the writer sees how far we are
	announced bool

	exit *os.File // where the end is to be found, or nil
	buf  []byte   // for what is found there
}

// read returns nil when the end was yielded or nobody listens any more.
func (r *reader) read(ctx context.Context, yield func(Frame, error) bool) error {
	news := watch(r.dir)
	defer news.Close()
	for {
		all := news.Other() || r.file == nil
		var end int64
		var exit *wire.Exit
		if all {
			// The end is looked for first: what is written before it is then there to be read.
			var err error
			if end, exit, err = r.readEnd(); err != nil {
				return err
			}
		}
		if exit == nil && r.root != "" && r.mark == nil && !r.announced {
			r.announced = true
			r.announce()
			continue // what was there before may be gone
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

// catchUp yields all there is, or, if nothing else happened, what the segment at hand has more.
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

// advance yields what the segment at hand has more.
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

// frames reads the next whole frames of the segment, in one go. Who gets them may keep them.
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

// move goes on to the next segment, and tells whether there may be more to read. The writer makes that when
// the one at hand is complete, and removes the oldest first: while the one at hand has its name, a next one
// that is not there is yet to come.
func (r *reader) move() (more bool, err error) {
	if r.file == nil {
		return r.find()
	}
	if r.at > r.start && r.size >= minSegment { // else it is not complete
		if moved, err := r.open(r.at); moved || err != nil {
			return moved, err
		}
	}
	// The segment at hand may have been written on since it was read to its end.
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

// find goes to the segment that has the next byte, if that is not the one at hand.
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

// missing is what it means that there is no segment: no output yet, unless some was seen before.
func (r *reader) missing(err error) error {
	if err == nil && r.file != nil {
		return ErrTrimmed
	}
	return err
}

// open opens the segment that starts at an offset, if there is one.
func (r *reader) open(start int64) (bool, error) {
	f, err := openFile(r.dir + "/" + segmentName(start))
	if f == nil || err != nil {
		return false, err
	}
	closeFile(r.file)
	r.file, r.start, r.size, r.pos, r.at = f, start, 0, 0, start
	return true, nil
}

// trimmed tells whether what comes at an offset, at which no segment starts, is gone.
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

// segments lists what there is now. That may be nothing, or another spool, if this one was removed, and then
// the end at hand is not its end.
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

// none names a missing spool.
func none(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNone
	}
	return err
}
