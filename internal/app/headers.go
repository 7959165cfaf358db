package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template"
)

// serviceHeaders holds the headers of the services that this server serves to sandboxes.
type serviceHeaders struct {
	s  *System
	of sync.Map // sandbox id → *egress.Headers
}

// headersEvery is the interval at which secrets that were changed or deleted reach the headers of services. A turn
// reads them when it starts.
const headersEvery = 5 * time.Second

// attach returns the headers of the services of a sandbox, or nil if its template has none. After an error they
// have no values. release ends their refresh.
func (v *serviceHeaders) attach(ctx context.Context, sandboxID string, t template.Template) (h *egress.Headers, release func(), err error) {
	if !t.HasHeaders() {
		return nil, func() {}, nil
	}
	h = new(egress.Headers)
	h.Set(t.ServiceHeaders(nil))
	v.of.Store(sandboxID, h)
	release = func() { v.of.CompareAndDelete(sandboxID, h) }
	sb, err := v.s.store.Sandbox(ctx, sandboxID)
	if err == nil {
		err = v.refresh(ctx, sb)
	}
	return h, release, err
}

// refresh sets the headers of the sandbox's services from the secrets as they are now. After an error they stay.
func (v *serviceHeaders) refresh(ctx context.Context, sb sandbox.Sandbox) error {
	h, ok := v.of.Load(sb.ID)
	if !ok {
		return nil
	}
	all, err := v.s.templates.ServiceHeaders(ctx, sb.Owner.Tenant, sb.Spec.Template)
	if err == nil || fault.CodeOf(err) == api.CodeSecretUnreadable {
		if h.(*egress.Headers).Set(all) && v.s.gateway != nil {
			err = errors.Join(err, v.s.gateway.Refresh(ctx, string(sb.Instance)))
		}
	}
	return err
}

// run refreshes the headers of all services until the context ends.
func (v *serviceHeaders) run(ctx context.Context) {
	tick := time.NewTicker(headersEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		v.of.Range(func(id, _ any) bool {
			sb, err := v.s.store.Sandbox(ctx, id.(string))
			if err == nil {
				err = v.refresh(ctx, sb)
			}
			if err != nil && ctx.Err() == nil && !errors.Is(err, fault.ErrNotFound) {
				v.s.log.Warn("read the headers of a sandbox's services; those of before stay", "sandbox_id", id, "error", err)
			}
			return ctx.Err() == nil
		})
	}
}
