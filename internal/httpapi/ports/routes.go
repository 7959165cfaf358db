// Package ports has the routes that forward requests and connections to the ports of a sandbox, and [Origins],
// which serves ports at hosts for themselves.
package ports

import (
	"context"
	"time"

	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/middleware"
	"github.com/berthdev/berth/internal/httpapi/rest"
)

// Options are the settings and dependencies of the routes.
type Options struct {
	AdvertiseURL string
	Hosts        middleware.Hosts // the names of the server
	Ending       context.Context  // ends when the server drains
	// TransferTimeout is the maximum time without progress of a body.
	TransferTimeout time.Duration
	Origins         *Origins
}

type handlers struct {
	*rest.Spec
	*access.Sandboxes
	Options
}

// Add adds the routes.
func Add(s *rest.Spec, box *access.Sandboxes, op access.OperationFunc, o Options) {
	a := &handlers{Spec: s, Sandboxes: box, Options: o}
	a.addURLs(op)
	a.addForward(op)
	a.addPorts(op)
	a.addList(op)
}
