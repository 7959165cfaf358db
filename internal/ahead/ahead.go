// Package ahead reads sequences ahead of those who take them: waiting can be given up, and what comes while
// others are dealt with is taken at once.
package ahead

import (
	"context"
	"iter"
	"sync"
)

// Piece is a part of a sequence on its way, or the error in its place.
type Piece[T any] struct {
	Value T
	Err   error
}

// Reader reads a sequence. It does not read far: who is slow keeps the sequence waiting, and little in memory.
type Reader[T any] struct {
	News <-chan struct{} // there is something to take

	news chan struct{}
	room chan struct{} // something was taken
	left chan struct{} // closed when the sequence was left
	size func(T) int

	mu     sync.Mutex
	pieces []Piece[T]
	taken  []Piece[T] // what was taken last, whose place is used again
	bytes  int
	over   bool
}

const (
	// Size is about how many bytes are read ahead.
	Size       = 64 << 10
	pieceBytes = 128 // what a piece takes besides its own bytes
	fewPieces  = 32  // whose place is kept for the next ones
)

// Read starts reading; it stops when ctx ends, or behind an error. The size of a value is that of what it points to.
func Read[T any](ctx context.Context, seq iter.Seq2[T, error], size func(T) int) *Reader[T] {
	news := make(chan struct{}, 1)
	r := &Reader[T]{News: news, news: news, room: make(chan struct{}, 1), left: make(chan struct{}), size: size}
	go func() {
		defer close(r.left)
		defer r.end()
		for value, err := range seq {
			if !r.put(ctx, Piece[T]{value, err}) || err != nil {
				return
			}
		}
	}()
	return r
}

// Wait waits until the sequence was left.
func (r *Reader[T]) Wait() { <-r.left }

// put adds a piece, once there is room for it.
func (r *Reader[T]) put(ctx context.Context, next Piece[T]) bool {
	for ctx.Err() == nil {
		if r.add(next) {
			return true
		}
		select {
		case <-r.room:
		case <-ctx.Done():
		}
	}
	return false
}

func (r *Reader[T]) add(next Piece[T]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes >= Size {
		return false
	}
	r.pieces = append(r.pieces, next)
	r.bytes += pieceBytes + r.size(next.Value)
	if len(r.pieces) == 1 { // otherwise it was told already
		signal(r.news)
	}
	return true
}

func (r *Reader[T]) end() {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	signal(r.news)
}

// Peek looks at the first piece that is there, after news, and takes nothing.
func (r *Reader[T]) Peek() (first Piece[T], any bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	signal(r.news)
	if len(r.pieces) == 0 {
		return first, false
	}
	return r.pieces[0], true
}

// Take takes all pieces that are there, after news. They are the caller's until it takes the next.
func (r *Reader[T]) Take() (pieces []Piece[T], over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cap(r.taken) > fewPieces {
		r.taken = nil
	}
	r.pieces, r.taken, r.bytes = r.taken[:0], r.pieces, 0
	signal(r.room)
	return r.taken, r.over
}

// signal leaves word for one who waits now or later.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
