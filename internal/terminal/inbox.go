package terminal

import (
	"context"
	"sync"
)

// inbox holds input of the client until the process reads it, up to maxTyped bytes.
type inbox struct {
	mu   sync.Mutex
	data []byte
	news chan struct{} // has a token when there may be data
}

func newInbox() *inbox { return &inbox{news: make(chan struct{}, 1)} }

// put adds input. It returns false if there is no room for it.
func (b *inbox) put(p []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.data)+len(p) > maxTyped {
		return false
	}
	b.data = append(b.data, p...)
	select {
	case b.news <- struct{}{}:
	default:
	}
	return true
}

// take waits for input and returns all of it.
func (b *inbox) take(ctx context.Context) ([]byte, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-b.news:
		}
		b.mu.Lock()
		data := b.data
		b.data = nil
		b.mu.Unlock()
		if len(data) > 0 {
			return data, nil
		}
	}
}
