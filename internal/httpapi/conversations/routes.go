// Package conversations has the routes of conversations, threads, messages and turns.
package conversations

import (
	"context"
	"time"

	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/middleware"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/telemetry"
)

// Options are the settings and dependencies of the routes.
type Options struct {
	Claims          *middleware.Claims
	Ending          context.Context // ends when the server drains
	Room            func() error    // returns an error if there is no disk space for a turn; nil: no check
	Redactor        *telemetry.Redactor
	ThreadsOff      bool // routes of threads answer with runtime_disabled
	RequestTimeout  time.Duration
	TransferTimeout time.Duration
}

type handlers struct {
	*rest.Spec
	*access.Sandboxes
	Options
}

// Add adds the routes.
func Add(s *rest.Spec, box *access.Sandboxes, o Options) {
	a := &handlers{Spec: s, Sandboxes: box, Options: o}
	a.addConversations()
	a.addThreads()
}

// AddDefault adds the deprecated route that prompts a sandbox's default conversation.
func AddDefault(s *rest.Spec, box *access.Sandboxes, op access.OperationFunc, o Options) {
	a := &handlers{Spec: s, Sandboxes: box, Options: o}
	a.addClaude(op)
}
