// Package projects has the routes of projects, their sandboxes and tools.
package projects

import (
	"time"

	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/execs"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/project"
	"github.com/berthdev/berth/internal/tool"
)

// Options are the settings and dependencies of the routes.
type Options struct {
	Projects       *project.Service
	Tools          *tool.Set
	RequestTimeout time.Duration
	Version        string
	Terminals      execs.Terminals
}

type handlers struct {
	*rest.Spec
	*access.Sandboxes
	Options
}

// Add adds the routes.
func Add(s *rest.Spec, box *access.Sandboxes, o Options) {
	a := &handlers{Spec: s, Sandboxes: box, Options: o}
	a.addProjects()
}
