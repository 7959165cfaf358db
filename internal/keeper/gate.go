package keeper

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/sandbox"
)

// Gate is a store that nothing is written to before it was tried: whether it keeps the promise of
// conditional writes decides how versions are committed. Reads pass. [Gate.Prove] tries it, and
// [Gate.Run] tries again until it succeeds.
type Gate struct {
	blob.Store
	// Accept looks at a store that does not do conditional writes; its error keeps the gate closed. Nil
	// accepts.
	Accept func() error

	mu          sync.Mutex
	proven      bool
	conditional bool
	why         error // why it is not proven
}

// Bounds of trying a store.
const (
	ProveAtStart = 2 * time.Second // a server that starts does not wait longer for its store
	proveFor     = 5 * time.Second
	proveOften   = 3 * time.Second
)

// Prove tries the store for at most so long and opens the gate if it answers.
func (g *Gate) Prove(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	conditional, err := blob.Probe(ctx, g.Store)
	if err == nil && !conditional && g.Accept != nil {
		err = g.Accept()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.why = err; err == nil {
		g.proven, g.conditional = true, conditional
	}
	return err
}

// Run tries the store until it is proven or the context ends, and calls done once it is.
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

// Closed says why nothing can be written yet, nil if it can.
func (g *Gate) Closed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.proven:
		return nil
	case g.why == nil:
		return sandbox.Errorf("write to the object store", api.CodeBlobUnreachable, "it was not tried yet")
	}
	return sandbox.Errorf("write to the object store", api.CodeBlobUnreachable, "it has not answered since the server started: %w", g.why)
}

// Conditional reports whether the store is known to keep the promise of conditional writes.
func (g *Gate) Conditional() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conditional
}

// Put writes an object once the store is proven.
func (g *Gate) Put(ctx context.Context, key string, r io.Reader, size int64, o blob.PutOptions) (blob.Tag, error) {
	if err := g.Closed(); err != nil {
		return "", err
	}
	return g.Store.Put(ctx, key, r, size, o)
}

// Copy copies an object once the store is proven.
func (g *Gate) Copy(ctx context.Context, from, to string) error {
	if err := g.Closed(); err != nil {
		return err
	}
	return g.Store.Copy(ctx, from, to)
}

// Unwrap is the store behind the gate.
func (g *Gate) Unwrap() blob.Store { return g.Store }
