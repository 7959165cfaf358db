// Package ops has the routes of the server itself: health, metrics, templates and maintenance.
package ops

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/template"
)

// Options are the settings and dependencies of the routes.
type Options struct {
	Engine      access.Engine
	Store       *store.DB
	Templates   *template.Registry
	Metrics     *telemetry.Metrics
	Redactor    *telemetry.Redactor
	Log         *slog.Logger
	Version     string
	Draining    *atomic.Bool
	OrphanGrace time.Duration

	// Checks of readiness; nil: they are left out.
	Saving   func(ctx context.Context) api.Check   // the object store, which workspaces are saved to
	Messages func(ctx context.Context) []api.Check // the stores of messages
	Disk     func(ctx context.Context) api.Check   // the space in the data directory
	Secrets  func(ctx context.Context) api.Check   // the secret that encrypts values in the database
}

type handlers struct {
	*rest.Spec
	Options
}

// Add adds the routes.
func Add(s *rest.Spec, o Options) {
	a := &handlers{Spec: s, Options: o}
	a.addOps()
	a.addDown()
	a.addSweep()
	a.addHosts()
	a.addTemplates()
}
