package engine

import (
	"context"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// IfFree calls do under the sandbox's lease. If another holder has the lease, it returns done = false at once. The
// sandbox need not have an instance. Its record is not changed. The context of do ends when the sandbox's Want
// changes, so that the change need not wait for do.
func (e *Engine) IfFree(ctx context.Context, id string, do func(context.Context, sandbox.Sandbox) error) (done bool, err error) {
	defer e.working()()
	asked := time.Now()
	grant, err := e.opts.Store.Lease(ctx, store.LeaseSandbox, id, e.opts.Holder)
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
