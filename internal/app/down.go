package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
)

// Down stops every sandbox of this machine. No server needs to run. If no server has used the data directory, there are
// no sandboxes, and Down changes nothing.
func Down(ctx context.Context, cfg *config.Loaded) (done api.Down, err error) {
	if !dataDirUsed(cfg) {
		return done, nil
	}
	red := new(telemetry.Redactor)
	registry, _, err := loadTemplates(cfg, nil, red)
	if err != nil {
		return done, err
	}
	s := &System{stopOnly: true, cfg: cfg, templates: registry, metrics: telemetry.NewMetrics(""), log: telemetry.NewLogger(os.Stderr, cfg.LogFormat, slog.LevelWarn, red)}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.openEngine(ctx); err != nil {
		return done, err
	}
	done.Stopped, done.Failed, err = s.engine.Down(ctx, "berth down")
	s.endGateways(ctx)
	return done, err
}

// machineEngine is the engine of a server for the HTTP API. Down also ends the processes that only sandboxes need.
type machineEngine struct {
	*engine.Engine
	s *System
}

// Down implements access.Engine.
func (e machineEngine) Down(ctx context.Context, actor string) (stopped, failed int, err error) {
	stopped, failed, err = e.Engine.Down(ctx, actor)
	e.s.endGateways(ctx)
	return stopped, failed, err
}

// dataDirUsed reports whether a server has used the data directory. It looks for the SQLite database or, with
// PostgreSQL, for the file with the host's name.
func dataDirUsed(cfg *config.Loaded) bool {
	name := store.SQLiteFile
	if cfg.DatabaseURL != "" {
		name = auth.HostFile
	}
	_, err := os.Stat(filepath.Join(cfg.DataDir, name))
	return !errors.Is(err, fs.ErrNotExist)
}
