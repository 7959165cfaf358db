package app

import (
	"context"
	"log/slog"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/driver/local"
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
	return []api.Check{check}
}
