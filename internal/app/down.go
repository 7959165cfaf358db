package app

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/telemetry"
)

// Down stops every sandbox of this machine without a server, holding the data directory meanwhile.
func Down(ctx context.Context, cfg *config.Loaded) (done api.Down, err error) {
	red := new(telemetry.Redactor)
	registry, _, err := templates(cfg, red)
	if err != nil {
		return done, err
	}
	s := &System{leaving: true, cfg: cfg, templates: registry, log: telemetry.NewLogger(os.Stderr, cfg.LogFormat, slog.LevelWarn, red)}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.openEngine(ctx, telemetry.NewMetrics("")); err != nil {
		return done, err
	}
	done.Stopped, done.Failed, err = s.Engine.Down(ctx, "berth down")
	return done, err
}
