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
	of sync.Map // sandbox id → *egress.Headers
}

// headersEvery is the interval at which secrets that were changed or deleted reach the headers of services. A turn
// reads them when it starts.
const headersEvery = 5 * time.Second

// attachHeaders returns the headers of the services of a sandbox, or nil if its template has none. After an error they
// have no values. release ends their refresh.
func (s *System) attachHeaders(ctx context.Context, sandboxID string, t template.Template) (h *egress.Headers, release func(), err error) {
	if !t.HasHeaders() {
		return nil, func() {}, nil
	}
	h = new(egress.Headers)
	h.Set(t.ServiceHeaders(nil))
	s.headers.of.Store(sandboxID, h)
	release = func() { s.headers.of.CompareAndDelete(sandboxID, h) }
	sb, err := s.store.Sandbox(ctx, sandboxID)
	if err == nil {
		err = s.refreshHeaders(ctx, sb)
	}
	return h, release, err
}

// refreshHeaders sets the headers of the sandbox's services from the secrets as they are now. After an error they stay.
func (s *System) refreshHeaders(ctx context.Context, sb sandbox.Sandbox) error {
	h, ok := s.headers.of.Load(sb.ID)
	if !ok {
		return nil
	}
	all, err := s.templates.ServiceHeaders(ctx, sb.Owner.Tenant, sb.Spec.Template)
	if err == nil || fault.CodeOf(err) == api.CodeSecretUnreadable {
		if h.(*egress.Headers).Set(all) && s.gateway != nil {
			return s.gateway.Refresh(ctx, sb.Instance)
		}
	}
	return err
}

// runHeaders refreshes the headers of all services until the context ends.
func (s *System) runHeaders(ctx context.Context) {
	tick := time.NewTicker(headersEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.headers.of.Range(func(id, _ any) bool {
			sb, err := s.store.Sandbox(ctx, id.(string))
			if err == nil {
				err = s.refreshHeaders(ctx, sb)
			}
			if err != nil && ctx.Err() == nil && !errors.Is(err, fault.ErrNotFound) {
				s.log.Warn("read the headers of a sandbox's services; those of before stay", "sandbox_id", id, "error", err)
			}
			return ctx.Err() == nil
		})
	}
}
