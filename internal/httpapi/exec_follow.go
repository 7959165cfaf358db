package httpapi

import (
	"context"
	"errors"
	"iter"

	"github.com/berthdev/berth/internal/guest"
)

// output reads what a process wrote, as Handle.Output does.
type output func(ctx context.Context, process string, after int64) iter.Seq2[guest.Chunk, error]

// piece is a chunk of output, and how many bytes before it are gone.
type piece struct {
	guest.Chunk
	dropped int64
}

// start is the offset of the piece's first byte.
func (p piece) start() int64 { return p.Next - int64(len(p.Data)) }

// followed is the output of a process from an offset on, or from the oldest there is (fromOldest).
type followed struct {
	id      string
	after   int64
	resumed bool // what is gone before the first piece is reported with it; otherwise it is an error
}

// maxTrims bounds how often output may be trimmed under a reader that gets nothing.
const maxTrims = 100

// read yields the output to its end. A reader that stood still for too long, so that some output is gone, goes
// on with the oldest there is.
func (f followed) read(ctx context.Context, from output) iter.Seq2[piece, error] {
	return func(yield func(piece, error) bool) {
		next, lost := f.after, false // where the next piece should begin, and whether it may not
		for trims := 0; ; {
			at := next
			if lost {
				at = fromOldest
			}
			trimmed := false
			for chunk, err := range from(ctx, f.id, at) {
				if errors.Is(err, guest.ErrTrimmed) && (f.resumed || next != f.after) && trims < maxTrims {
					trimmed = true
					break
				}
				p := piece{Chunk: chunk}
				if err == nil {
					if lost && next >= 0 {
						p.dropped = max(p.start()-next, 0)
					}
					next, lost, trims = p.Next, false, 0
				}
				if !yield(p, err) || err != nil {
					return
				}
			}
			if !trimmed || ctx.Err() != nil {
				return
			}
			lost = true
			trims++
		}
	}
}
