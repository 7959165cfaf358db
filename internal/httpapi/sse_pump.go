package httpapi

import (
	"context"
	"iter"
	"sync"
)

// piece is a part of a sequence on its way, or the error in its place.
type piece[T any] struct {
	value T
	err   error
}

// pump reads a sequence ahead of who takes it, so that waiting for it can be given up, and what comes while
// others are sent is taken at once. It does not read far: who is slow keeps the sequence waiting, and little
// in memory.
type pump[T any] struct {
	news chan struct{} // there is something to take
	room chan struct{} // something was taken
	size func(T) int

	mu     sync.Mutex
	pieces []piece[T]
	taken  []piece[T] // what was taken last, whose place is used again
	bytes  int
	over   bool
}

const (
	pumpSize   = sendSize // about how many bytes are read ahead
	pieceBytes = 128      // what a piece takes besides its own bytes
	fewPieces  = 32       // whose place is kept for the next ones
)

// newPump starts reading; it stops when ctx ends. The size of a value is that of what it points to.
func newPump[T any](ctx context.Context, seq iter.Seq2[T, error], size func(T) int) *pump[T] {
	p := &pump[T]{news: make(chan struct{}, 1), room: make(chan struct{}, 1), size: size}
	go func() {
		defer p.close()
		for value, err := range seq {
			if !p.put(ctx, piece[T]{value, err}) || err != nil {
				return
			}
		}
	}()
	return p
}

// put adds a piece, once there is room for it.
func (p *pump[T]) put(ctx context.Context, next piece[T]) bool {
	for ctx.Err() == nil {
		if p.add(next) {
			return true
		}
		select {
		case <-p.room:
		case <-ctx.Done():
		}
	}
	return false
}

func (p *pump[T]) add(next piece[T]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes >= pumpSize {
		return false
	}
	p.pieces = append(p.pieces, next)
	p.bytes += pieceBytes + p.size(next.value)
	if len(p.pieces) == 1 { // otherwise it was told already
		signal(p.news)
	}
	return true
}

func (p *pump[T]) close() {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	signal(p.news)
}

// peek looks at the first piece that is there, after news, and takes nothing.
func (p *pump[T]) peek() (first piece[T], any bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	signal(p.news)
	if len(p.pieces) == 0 {
		return first, false
	}
	return p.pieces[0], true
}

// take takes all pieces that are there, after news. They are the caller's until it takes the next.
func (p *pump[T]) take() (pieces []piece[T], over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cap(p.taken) > fewPieces {
		p.taken = nil
	}
	p.pieces, p.taken, p.bytes = p.taken[:0], p.pieces, 0
	signal(p.room)
	return p.taken, p.over
}

// signal leaves word for one who waits now or later.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
