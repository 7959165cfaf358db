package app

import (
	"context"

	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/template"
)

// headersOf returns the headers of the services of a sandbox, or nil if its template has none. After an error they have
// no values.
func (s *System) headersOf(ctx context.Context, sandboxID string, t template.Template) (*egress.Headers, error) {
	if !t.HasHeaders() {
		return nil, nil
	}
	h := new(egress.Headers)
	h.Set(t.ServiceHeaders(nil))
	sb, err := s.store.Sandbox(ctx, sandboxID)
	if err == nil {
		h.Set(s.templates.ServiceHeaders(sb.Owner.Tenant, t.Name))
	}
	return h, err
}
