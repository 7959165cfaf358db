package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/berthdev/berth/api"
)

// A StartOption changes how a sandbox is started.
type StartOption func(url.Values)

// AllowMassDelete lets a start bring in what other sandboxes saved to the same workspace even if that deletes
// more than half of its files.
func AllowMassDelete() StartOption { return func(q url.Values) { q.Set("allow_mass_delete", "true") } }

// Start makes the sandbox run and returns once it does.
func (s Sandboxes) Start(ctx context.Context, ref string, opts ...StartOption) (api.Sandbox, error) {
	return s.turn(ctx, ref, "start", opts...)
}

// Stop ends everything that runs in the sandbox and keeps its files. The next use starts it again.
func (s Sandboxes) Stop(ctx context.Context, ref string) (api.Sandbox, error) {
	return s.turn(ctx, ref, "stop")
}

// Restart stops the sandbox and starts it again.
func (s Sandboxes) Restart(ctx context.Context, ref string, opts ...StartOption) (api.Sandbox, error) {
	return s.turn(ctx, ref, "restart", opts...)
}

// Freeze holds everything that runs in the sandbox where it is. The next use thaws it.
func (s Sandboxes) Freeze(ctx context.Context, ref string) (api.Sandbox, error) {
	return s.turn(ctx, ref, "freeze")
}

// Thaw lets a frozen sandbox run on.
func (s Sandboxes) Thaw(ctx context.Context, ref string) (api.Sandbox, error) {
	return s.turn(ctx, ref, "thaw")
}

func (s Sandboxes) turn(ctx context.Context, ref, verb string, opts ...StartOption) (sandbox api.Sandbox, err error) {
	q := url.Values{}
	for _, opt := range opts {
		opt(q)
	}
	_, err = s.c.do(ctx, call{op: verb + " sandbox", method: http.MethodPost, path: path{sandboxesPath, ref, verb}, query: q}, &sandbox)
	return sandbox, err
}
