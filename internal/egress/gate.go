package egress

import (
	"errors"
	"sync"
)

var (
	errFull   = errors.New("too many connections at once")
	errClosed = errors.New("closed")
)

// gate counts those who are inside and, once shut, waits until the last one has left.
type gate struct {
	max int

	mu     sync.Mutex
	shut   bool
	inside int
	left   sync.WaitGroup
}

func (g *gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.shut:
		return errClosed
	case g.inside >= g.max:
		return errFull
	}
	g.inside++
	g.left.Add(1)
	return nil
}

func (g *gate) leave() {
	g.mu.Lock()
	g.inside--
	g.mu.Unlock()
	g.left.Done()
}

func (g *gate) close() {
	g.mu.Lock()
	g.shut = true
	g.mu.Unlock()
	g.left.Wait()
}
