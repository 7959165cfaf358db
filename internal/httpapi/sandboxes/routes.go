// Package sandboxes has the routes of sandboxes, their lifecycle and their versions.
package sandboxes

import (
	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/rest"
)

// Options are the settings and dependencies of the routes.
type Options struct {
	Saves   bool                         // workspaces are saved
	Traffic func(id string) *api.Traffic // nil: traffic is not counted
}

type handlers struct {
	*rest.Spec
	*access.Sandboxes
	Options
}

// Add adds the routes.
func Add(s *rest.Spec, box *access.Sandboxes, op access.OperationFunc, o Options) {
	a := &handlers{Spec: s, Sandboxes: box, Options: o}
	a.addSandboxes(op)
	a.addLifecycle(op)
	a.addVersions(op)
}
