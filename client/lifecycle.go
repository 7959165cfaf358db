package client

import (
	"context"
	"net/http"

	"github.com/berthdev/berth/api"
)

// Start makes the sandbox run and returns once it does.
func (s Sandboxes) Start(ctx context.Context, ref string) (api.Sandbox, error) {
	return s.turn(ctx, ref, "start")
}

// Stop ends everything that runs in the sandbox and keeps its files. The next use starts it again.
func (s Sandboxes) Stop(ctx context.Context, ref string) (api.Sandbox, error) {
	return s.turn(ctx, ref, "stop")
}

// Restart stops the sandbox and starts it again.
func (s Sandboxes) Restart(ctx context.Context, ref string) (api.Sandbox, error) {
	return s.turn(ctx, ref, "restart")
}

// Freeze holds everything that runs in the sandbox where it is. The next use thaws it.
func (s Sandboxes) Freeze(ctx context.Context, ref string) (api.Sandbox, error) {
	return s.turn(ctx, ref, "freeze")
}

// Thaw lets a frozen sandbox run on.
func (s Sandboxes) Thaw(ctx context.Context, ref string) (api.Sandbox, error) {
	return s.turn(ctx, ref, "thaw")
}

func (s Sandboxes) turn(ctx context.Context, ref, verb string) (sandbox api.Sandbox, err error) {
	_, err = s.c.do(ctx, call{op: verb + " sandbox", method: http.MethodPost, path: path{sandboxesPath, ref, verb}}, &sandbox)
	return sandbox, err
}
