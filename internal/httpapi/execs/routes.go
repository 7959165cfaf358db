// Package execs has the routes of commands and terminals in a sandbox.
package execs

import (
	"context"
	"time"

	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/middleware"
	"github.com/berthdev/berth/internal/httpapi/rest"
)

// Options are the settings and dependencies of the routes.
type Options struct {
	Claims         *middleware.Claims
	Ending         context.Context // ends when the server drains
	ExecTimeout    time.Duration   // time limit of a command whose request waits for it
	RequestTimeout time.Duration
	Terminals      Terminals
}

type handlers struct {
	*rest.Spec
	*access.Sandboxes
	Options
}

// Add adds the routes.
func Add(s *rest.Spec, box *access.Sandboxes, op access.OperationFunc, o Options) {
	a := &handlers{Spec: s, Sandboxes: box, Options: o}
	a.addExec(op)
}
