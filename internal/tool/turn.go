package tool

import (
	"context"
	"sync"
)

// turns are the edits under way in this process, by what they edit: a path and the tag of what it held, so
// that edits of different sandboxes do not meet.
var turns = struct {
	sync.Mutex
	of map[string]*waiting
}{of: map[string]*waiting{}}

// waiting are those who want to edit the same.
type waiting struct {
	lock  chan struct{}
	count int
}

// turn waits for one's turn at something.
func turn(ctx context.Context, key string) (done func(), err error) {
	turns.Lock()
	w := turns.of[key]
	if w == nil {
		w = &waiting{lock: make(chan struct{}, 1)}
		turns.of[key] = w
	}
	w.count++
	turns.Unlock()
	select {
	case w.lock <- struct{}{}:
		return func() { <-w.lock; w.leave(key) }, nil
	case <-ctx.Done():
		w.leave(key)
		return nil, ctx.Err()
	}
}

func (w *waiting) leave(key string) {
	turns.Lock()
	defer turns.Unlock()
	if w.count--; w.count == 0 {
		delete(turns.of, key)
	}
}
