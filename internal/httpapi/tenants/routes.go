// Package tenants has the routes of a tenant's accounts, API keys, agents and secrets.
package tenants

import (
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/template"
)

// Options are the settings and dependencies of the routes.
type Options struct {
	Sessions *exchange.Sessions
	Redactor *telemetry.Redactor
	// Templates name the secrets that their sandboxes get.
	Templates *template.Registry
	// Slack connects Slack workspaces; nil: this server has no threads.
	Slack Slack
}

type handlers struct {
	*rest.Spec
	*access.Sandboxes
	Options
}

// Add adds the routes.
func Add(s *rest.Spec, box *access.Sandboxes, o Options) {
	a := &handlers{Spec: s, Sandboxes: box, Options: o}
	a.addKeys()
	a.addAccounts()
	a.addAgents()
	a.addSecrets()
	a.addSlack()
}
