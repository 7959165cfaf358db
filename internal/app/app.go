// Package app puts a server together: a configuration becomes a [System]. The binary, its offline verbs
// and the end-to-end tests all build the same one.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/httpapi"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
)

// Options is what a System is made of.
type Options struct {
	Config  *config.Loaded
	Version string    // what the server says it is
	Out     io.Writer // what people at the terminal should read
	Log     io.Writer // nil: standard error
}

// System is a server that is ready to serve.
type System struct {
	Engine *engine.Engine
	Store  *store.DB
	Server *httpapi.Server

	Options
	cfg   *config.Loaded
	log   *slog.Logger
	first auth.First
}

// New opens everything that the configuration names and takes the address to listen on.
func New(ctx context.Context, o Options) (*System, error) {
	o.Version = cmp.Or(o.Version, "dev")
	if o.Log == nil {
		o.Log = os.Stderr
	}
	red := new(telemetry.Redactor)
	for _, secret := range o.Config.Secrets() {
		red.Add(secret)
	}
	if err := check(o.Config); err != nil {
		return nil, err
	}
	s := &System{Options: o, cfg: o.Config, log: telemetry.NewLogger(o.Log, o.Config.LogFormat, o.Config.LogLevel, red)}
	for _, w := range slices.Concat(o.Config.Warnings, warnings(o.Config)) {
		s.log.Warn(w)
	}
	if err := s.open(ctx, red); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *System) open(ctx context.Context, red *telemetry.Redactor) (err error) {
	if s.Store, err = store.Open(ctx, storeOptions(s.cfg, s.log)); err != nil {
		return err
	}
	if s.first, err = auth.Bootstrap(ctx, s.Store, s.cfg.DataDir, s.cfg.APIKey.Reveal()); err != nil {
		return err
	}
	red.Add(s.first.Kept)
	metrics := telemetry.NewMetrics(s.Version)
	drivers, err := drivers(s.cfg, metrics)
	if err != nil {
		return err
	}
	s.Engine = engine.New(engine.Options{
		Store:     engine.OnDB(s.Store),
		Drivers:   drivers,
		Defaults:  sandbox.Spec{Template: s.cfg.DefaultTemplate, Driver: s.cfg.DefaultDriver, Profile: s.cfg.SandboxProfileType},
		Templates: templates,
		Policy:    policy,
		LeaseTTL:  s.Store.LeaseTTL(),
		Logger:    s.log,
		Metrics:   metrics,
	})
	s.Server = &httpapi.Server{Handler: s.handler(metrics, red), DrainTimeout: s.cfg.DrainTimeout}
	if !s.cfg.Loopback() {
		s.Server.DrainDelay = drainDelay
	}
	return s.Server.Listen(ctx, s.cfg.Listen)
}

func (s *System) handler(metrics *telemetry.Metrics, red *telemetry.Redactor) *httpapi.Handler {
	caps := s.cfg.Caps()
	return httpapi.New(httpapi.Options{
		Engine: s.Engine, Store: s.Store, Keys: auth.NewAuthenticator(s.Store),
		Listen: s.cfg.Listen, AllowedHosts: s.cfg.AllowedHosts,
		MaxBodyBytes: s.cfg.MaxBodyBytes, RequestTimeout: s.cfg.RequestTimeout,
		Rate: caps.RequestsPerSecond, Burst: caps.Burst,
		Version: s.Version, Log: s.log, Metrics: metrics, Redactor: red,
	})
}

func storeOptions(cfg *config.Loaded, log *slog.Logger) store.Options {
	return store.Options{DataDir: cfg.DataDir, DatabaseURL: cfg.DatabaseURL.Reveal(), LeaseTTL: cfg.LeaseTTL, Logger: log}
}

// makers make the drivers that this binary holds.
var makers = map[string]func(*config.Loaded) (driver.Driver, error){
	"fake": func(cfg *config.Loaded) (driver.Driver, error) { return fake.New(cfg.FakeDriverDir) },
}

// Drivers lists the kinds of driver that this binary holds.
func Drivers() []string { return slices.Sorted(maps.Keys(makers)) }

// drivers makes every driver, each with the policies that no driver has itself.
func drivers(cfg *config.Loaded, m *telemetry.Metrics) (map[string]driver.Driver, error) {
	all := map[string]driver.Driver{}
	for kind, open := range makers {
		d, err := open(cfg)
		if err != nil {
			return nil, err
		}
		all[kind] = driver.WithRetry(driver.WithLimit(driver.WithMetrics(d, m.ObserveDriver), inFlight), driver.Backoff{})
	}
	return all, nil
}

const (
	inFlight   = 64              // calls that one driver gets at once
	drainDelay = 2 * time.Second // for load balancers to see that the server is about to go
)

// policy retries what failed. Nothing stops, archives or probes a sandbox by itself yet.
func policy(s sandbox.Sandbox) sandbox.Policy {
	p := sandbox.DefaultPolicy(s.Owner.Kind)
	p.Timers, p.ProbeEvery = sandbox.Timers{}, 0
	return p
}

// Serve says where it listens, then answers requests and keeps sandboxes where they should be until the
// context ends and running requests have finished.
func (s *System) Serve(ctx context.Context) error {
	s.greet()
	background, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { s.Engine.Run(background, s.cfg.ReconcileInterval) })
	wg.Go(func() { s.forget(background) })
	err := s.Server.Serve(ctx)
	stop()
	wg.Wait()
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.DrainTimeout)
	defer cancel()
	s.Engine.Quiesce(rest)
	return err
}

// forget removes idempotency keys that are past their time.
func (s *System) forget(ctx context.Context) {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		if n, err := s.Store.ExpireKeys(ctx, time.Now().Add(-24*time.Hour), 1000); err != nil && ctx.Err() == nil {
			s.log.Warn("forget old idempotency keys", "error", err)
		} else if n == 1000 {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Close lets go of the database and the data directory.
func (s *System) Close() error {
	if s.Store == nil {
		return nil
	}
	return s.Store.Close()
}

// Migrate brings the database to this binary's schema.
func Migrate(ctx context.Context, cfg *config.Loaded) (string, error) {
	schema, err := store.Migrate(ctx, storeOptions(cfg, slog.New(slog.DiscardHandler)))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("The database has schema %d, as this Berth needs it.", schema.Current), nil
}
