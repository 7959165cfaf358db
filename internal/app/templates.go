package app

import (
	"context"
	"strings"

	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/template"
)

var _ engine.Templates = (*template.Registry)(nil)

// loadTemplates returns the registry of the configured and added templates, with warnings about the configuration. It
// adds the secrets of the templates to the redactor.
func loadTemplates(cfg *config.Loaded, added []template.Template, red *telemetry.Redactor) (*template.Registry, []string, error) {
	registry, report := template.FromConfig(cfg, Drivers())
	if err := report.Err(); err != nil {
		return nil, nil, err
	}
	for _, t := range added {
		if err := registry.Add(t); err != nil {
			return nil, nil, err
		}
	}
	for _, secret := range registry.Secrets() {
		red.Add(secret)
	}
	var said []string
	for _, w := range report.Warnings {
		said = append(said, w.String())
	}
	return registry, said, nil
}

// maxNamedSandboxes is the number of sandbox ids in a warning.
const maxNamedSandboxes = 10

// warnOfTemplates logs a warning for sandboxes whose tenant may no longer use their template. Such sandboxes still work,
// with the template's environment, mounts and services.
func (s *System) warnOfTemplates(ctx context.Context) error {
	uses, err := s.store.Overview().TemplateUses(ctx)
	if err != nil {
		return err
	}
	for _, u := range uses {
		if s.templates.Allows(u.Tenant, u.Template) {
			continue
		}
		if _, err := s.templates.Lookup(u.Template); err != nil {
			continue // the template does not exist
		}
		ids, err := s.store.Overview().SandboxesOf(ctx, u.Tenant, u.Template, maxNamedSandboxes)
		if err != nil {
			return err
		}
		s.log.Warn("sandboxes have a template that their tenant may not use; they keep it, and no others are made of it. Delete them, or add the tenant to the template's tenants",
			"tenant", u.Tenant, "template", u.Template, "sandboxes", u.Sandboxes, "first", strings.Join(ids, " "))
	}
	return nil
}
