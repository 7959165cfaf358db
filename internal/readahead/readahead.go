// Package readahead reads a sequence in a goroutine, ahead of its consumer. The consumer can wait for the sequence
// together with other events, and can take all pieces that arrived while it was busy at once.
package readahead

import (
	"context"
	"iter"
	"sync"
)

// Piece is a value of a sequence, or its error.
type Piece[T any] struct {
	Value T
	Err   error
}

// Reader reads a sequence. It reads at most about Size bytes ahead; then the sequence waits for the consumer.
type Reader[T any] struct {
	News <-chan struct{} // receives a token when there may be pieces to take or the sequence has ended

	news chan struct{}
	room chan struct{} // receives a token after Take
	left chan struct{} // closed when the reading has ended
	size func(T) int

	mu     sync.Mutex
	pieces []Piece[T]
	taken  []Piece[T] // the result of the last Take; the next Take reuses its memory
	bytes  int        // the size of pieces
	over   bool       // the sequence has ended
}

const (
	// Size is the approximate number of bytes that are read ahead.
	Size       = 64 << 10
	pieceBytes = 128 // the memory of a piece without its value's data
	fewPieces  = 32  // the capacity up to which the memory of taken is reused
)

// Read starts to read seq. It stops when ctx ends or after an error. size returns the bytes that a value refers to.
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

// Wait waits until the reading has ended.
func (r *Reader[T]) Wait() { <-r.left }

// put waits for room and adds a piece. It returns false if ctx ends first.
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
	if len(r.pieces) == 1 { // the first piece has signalled news for the others
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

// Peek returns the first piece without taking it. It signals News again.
func (r *Reader[T]) Peek() (first Piece[T], any bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	signal(r.news)
	if len(r.pieces) == 0 {
		return first, false
	}
	return r.pieces[0], true
}

// Take takes all pieces that have arrived. They are valid until the next Take. over reports whether the sequence has
// ended.
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

// signal sends a token without waiting. If the channel holds a token already, that one is enough.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
