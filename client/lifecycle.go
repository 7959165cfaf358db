package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/berthdev/berth/api"
)

// A StartOption configures the start of a sandbox.
type StartOption func(url.Values)

// AllowMassDelete lets a start merge versions that other sandboxes saved to the same workspace, even if that deletes
// more than half of its files.
func AllowMassDelete() StartOption { return func(q url.Values) { q.Set("allow_mass_delete", "true") } }

// Start starts the sandbox and returns once it runs.
func (s Sandboxes) Start(ctx context.Context, ref string, opts ...StartOption) (api.Sandbox, error) {
	return s.changeState(ctx, ref, "start", opts...)
}

// Stop ends all processes in the sandbox and keeps its files. The next use starts it again.
func (s Sandboxes) Stop(ctx context.Context, ref string) (api.Sandbox, error) {
	return s.changeState(ctx, ref, "stop")
}

// Restart stops the sandbox and starts it again.
func (s Sandboxes) Restart(ctx context.Context, ref string, opts ...StartOption) (api.Sandbox, error) {
	return s.changeState(ctx, ref, "restart", opts...)
}

// Freeze suspends all processes in the sandbox. The next use thaws it.
func (s Sandboxes) Freeze(ctx context.Context, ref string) (api.Sandbox, error) {
	return s.changeState(ctx, ref, "freeze")
}

// Thaw continues the processes of a frozen sandbox.
func (s Sandboxes) Thaw(ctx context.Context, ref string) (api.Sandbox, error) {
	return s.changeState(ctx, ref, "thaw")
}

func (s Sandboxes) changeState(ctx context.Context, ref, verb string, opts ...StartOption) (sandbox api.Sandbox, err error) {
	q := url.Values{}
	for _, opt := range opts {
		opt(q)
	}
	_, err = s.c.do(ctx, call{op: verb + " sandbox", method: http.MethodPost, path: path{sandboxesPath, ref, verb}, query: q}, &sandbox)
	return sandbox, err
}
