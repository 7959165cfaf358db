// Package sandboxfiles has the routes of the files in a sandbox.
package sandboxfiles

import (
	"time"

	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/rest"
)

// Options are the settings and dependencies of the routes.
type Options struct {
	TransferTimeout time.Duration // how long a transfer may make no progress
}

type handlers struct {
	*rest.Spec
	*access.Sandboxes
	Options
}

// Add adds the routes.
func Add(s *rest.Spec, box *access.Sandboxes, op access.OperationFunc, o Options) {
	a := &handlers{Spec: s, Sandboxes: box, Options: o}
	a.addFiles(op)
}
