package app

import (
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/template"
)

var _ engine.Templates = (*template.Registry)(nil)

// templates makes the registry that the configuration asks for, keeps the secrets in it out of logs
// and answers, and says what may not be meant.
func templates(cfg *config.Loaded, red *telemetry.Redactor) (*template.Registry, []string, error) {
	registry, report := template.FromConfig(cfg, Drivers())
	for _, secret := range registry.Secrets() {
		red.Add(secret)
	}
	var said []string
	for _, w := range report.Warnings {
		said = append(said, w.String())
	}
	return registry, said, report.Err()
}
