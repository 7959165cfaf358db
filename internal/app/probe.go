package app

import (
	"context"
	"log/slog"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/blob/open"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/sandbox"
)

// Probe tries what local sandboxes need on this machine, without a server. Nothing of it stays.
func Probe(ctx context.Context, cfg *config.Loaded) []api.Check {
	s := &System{cfg: cfg, log: slog.New(slog.DiscardHandler)}
	report, err := local.Probe(ctx, s.localOptions())
	check := api.Check{Name: "local sandboxes", Status: "ok", Detail: strings.Join(append([]string{"tier " + string(report.Tier)}, report.Notes...), "; ")}
	switch {
	case err != nil:
		check.Status, check.Detail, check.Fix = "failed", err.Error(), "See the words above; the data directory must be writable."
	case report.Tier == local.TierNone:
		check.Status, check.Detail, check.Fix = "failed", report.Problem, report.Remedy
	case report.Tier == local.TierUser:
		check.Status = "warning"
		check.Fix = "Run the server as root for limits of CPU, memory and processes, and for a root user inside."
	}
	return append([]api.Check{check}, probeStore(ctx, cfg)...)
}

// probeStore tries an object store that is elsewhere; a directory was looked at already.
func probeStore(ctx context.Context, cfg *config.Loaded) []api.Check {
	address := storeAddress(cfg)
	if !strings.HasPrefix(address, "s3://") {
		return nil
	}
	check := api.Check{Name: "object store", Status: "ok"}
	store, err := open.Store(ctx, address)
	conditional := false
	if err == nil {
		check.Detail = store.String() + ", answers"
		conditional, err = blob.Probe(ctx, store)
	}
	switch {
	case err != nil:
		check.Status, check.Detail, check.Fix = "failed", err.Error(), sandbox.CodeOf(err).Info().Hint
	case !conditional:
		check.Status, check.Detail = "warning", store.String()+" does not do conditional writes"
		check.Fix = "It works with one server and nothing else that writes there; a store that does them is better."
	}
	return []api.Check{check}
}
