package engine

import (
	"context"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// IfFree does something to what belongs to a sandbox under its lease, with or without an instance, if no one else
// holds the lease. It never waits for it: done is false then. The record is not changed. The context of do ends when
// something else is wanted of the sandbox, which then need not wait.
func (e *Engine) IfFree(ctx context.Context, id string, do func(context.Context, sandbox.Sandbox) error) (done bool, err error) {
	defer e.working()()
	asked := time.Now()
	grant, err := e.Store.Lease(ctx, store.LeaseSandbox, id, e.Holder)
	if err != nil || !grant.OK {
		return false, err
	}
	ctx, stop := e.renew(about(ctx, grant.Sandbox), grant.Lease, asked)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unwatch := e.watchWish(ctx, id, func(s sandbox.Sandbox) {
		if s.Want != grant.Sandbox.Want {
			cancel(sandbox.ErrOvertaken)
		}
	})
	defer unwatch()
	return true, do(ctx, grant.Sandbox)
}
