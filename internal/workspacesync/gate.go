package workspacesync

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/fault"
)

// Gate is a store that refuses writes until a test showed whether the store supports conditional writes. The result
// decides how versions are committed. Reads are always allowed. [Gate.Prove] runs the test, and [Gate.Run] repeats
// it until it succeeds.
type Gate struct {
	blob.Store
	accept func() error

	mu          sync.Mutex
	proven      bool
	conditional bool
	why         error // error of the last test; nil before the first
}

// NewGate returns a closed gate for a store. Accept is called for a store without conditional writes; its error
// keeps the gate closed. A nil accept allows such a store.
func NewGate(store blob.Store, accept func() error) *Gate { return &Gate{Store: store, accept: accept} }

// Time limits and interval of the test.
const (
	ProveAtStart = 2 * time.Second // limit at the start of a server, which must not wait longer for its store
	proveFor     = 5 * time.Second
	proveOften   = 3 * time.Second
)

// Prove tests the store within the time limit and opens the gate if it succeeds.
func (g *Gate) Prove(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	conditional, err := blob.Probe(ctx, g.Store)
	if err == nil && !conditional && g.accept != nil {
		err = g.accept()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.why = err; err == nil {
		g.proven, g.conditional = true, conditional
	}
	return err
}

// Run repeats the test until it succeeds or the context ends, and calls done after success.
func (g *Gate) Run(ctx context.Context, done func()) {
	tick := time.NewTicker(proveOften)
	defer tick.Stop()
	for g.Closed() != nil {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if g.Prove(ctx, proveFor) == nil {
			done()
		}
	}
}

// Closed returns the reason why writes are refused, or nil.
func (g *Gate) Closed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.proven:
		return nil
	case g.why == nil:
		return fault.Errorf("write to the object store", api.CodeBlobUnreachable, "it was not tried yet")
	}
	return fault.Errorf("write to the object store", api.CodeBlobUnreachable, "it has not answered since the server started: %w", g.why)
}

// Conditional reports whether the test has shown that the store supports conditional writes.
func (g *Gate) Conditional() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conditional
}

// Put writes an object if the gate is open.
func (g *Gate) Put(ctx context.Context, key string, r io.Reader, size int64, o blob.PutOptions) (blob.Tag, error) {
	if err := g.Closed(); err != nil {
		return "", err
	}
	return g.Store.Put(ctx, key, r, size, o)
}

// Copy copies an object if the gate is open.
func (g *Gate) Copy(ctx context.Context, from, to string) error {
	if err := g.Closed(); err != nil {
		return err
	}
	return g.Store.Copy(ctx, from, to)
}

// Unwrap returns the store behind the gate.
func (g *Gate) Unwrap() blob.Store { return g.Store }
