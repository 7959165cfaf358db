package egress

import (
	"errors"
	"sync"
)

var (
	errFull   = errors.New("too many connections at once")
	errClosed = errors.New("closed")
)

// gate limits how many requests are served at once. After close it admits no request.
type gate struct {
	max int

	mu     sync.Mutex
	shut   bool
	active int
	done   sync.WaitGroup
}

func (g *gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.shut:
		return errClosed
	case g.active >= g.max:
		return errFull
	}
	g.active++
	g.done.Add(1)
	return nil
}

func (g *gate) leave() {
	g.mu.Lock()
	g.active--
	g.mu.Unlock()
	g.done.Done()
}

// close waits for all requests that were admitted.
func (g *gate) close() {
	g.mu.Lock()
	g.shut = true
	g.mu.Unlock()
	g.done.Wait()
}
