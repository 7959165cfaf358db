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
	"os"
	"slices"
	"sync"
	"time"

	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/conversation"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/httpapi"
	"github.com/berthdev/berth/internal/keeper"
	"github.com/berthdev/berth/internal/outbox"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/transcript"
	"github.com/berthdev/berth/internal/turn"
)

// Options is what a System is made of.
type Options struct {
	Config  *config.Loaded
	Version string    // what the server says it is
	Out     io.Writer // what people at the terminal should read
	Log     io.Writer // nil: standard error

	// Exe is the program that becomes the helper in local sandboxes; empty: this one.
	Exe string
	// Prober knows the agent's server in sandboxes; nil: there is none.
	Prober engine.Prober
	// At is called at named points of the work on sandboxes, for tests that stop a server there.
	At func(point, id string)
}

// System is a server that is ready to serve.
type System struct {
	Engine *engine.Engine
	Store  *store.DB
	Server *httpapi.Server
	Hooks  *hook.Runner
	Outbox *outbox.Outbox

	Options
	cfg           *config.Loaded
	templates     *template.Registry
	log           *slog.Logger
	first         auth.First
	drivers       map[string]driver.Driver
	keeper        *keeper.Keeper // nil: workspaces are not saved
	turns         *turn.Service
	messages      transcript.Store
	conversations *conversation.Service
	leaving       bool        // it only stops what runs, for which a store that does not answer is no obstacle
	closers       []io.Closer // of drivers
	traffic       traffic
	disk          *disk
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
	registry, unused, err := templates(o.Config, red)
	if err != nil {
		return nil, err
	}
	s := &System{Options: o, cfg: o.Config, templates: registry, log: telemetry.NewLogger(o.Log, o.Config.LogFormat, o.Config.LogLevel, red)}
	for _, w := range slices.Concat(o.Config.Warnings, warnings(o.Config), unused) {
		s.log.Warn(w)
	}
	if err := s.open(ctx, red); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *System) open(ctx context.Context, red *telemetry.Redactor) (err error) {
	metrics := telemetry.NewMetrics(s.Version)
	if err := s.openEngine(ctx, metrics); err != nil {
		return err
	}
	if s.first, err = auth.Bootstrap(ctx, s.Store, s.cfg.DataDir, s.cfg.APIKey.Reveal()); err != nil {
		return err
	}
	red.Add(s.first.Kept)
	s.Server = &httpapi.Server{Handler: s.handler(metrics, red), DrainTimeout: s.cfg.DrainTimeout}
	if !s.cfg.Loopback() {
		s.Server.DrainDelay = drainDelay
	}
	return s.Server.Listen(ctx, s.cfg.Listen)
}

// openEngine opens what works on sandboxes, with or without a server around it.
func (s *System) openEngine(ctx context.Context, metrics *telemetry.Metrics) (err error) {
	s.disk = &disk{dir: s.cfg.DataDir, low: s.cfg.DiskLowWater, log: s.log, metric: metrics.DiskFree}
	s.disk.open()
	if s.Store, err = store.Open(ctx, storeOptions(s.cfg, s.log)); err != nil {
		return err
	}
	s.traffic.metrics = metrics
	host, err := auth.LoadHost(s.cfg.DataDir)
	if err != nil {
		return err
	}
	if err := s.openDrivers(ctx, metrics); err != nil {
		return err
	}
	if err := s.openKeeper(ctx); err != nil && !s.leaving {
		return err
	} else if err != nil {
		s.log.Warn("workspaces cannot be saved now", "error", err)
	}
	if s.keeper != nil {
		s.keeper.Metrics = metrics
	}
	if err := s.openSpool(ctx); err != nil {
		return err
	}
	if err := s.openHooks(metrics); err != nil {
		return err
	}
	s.observe(metrics)
	if err := s.recordPrefixes(ctx); err != nil {
		return err
	}
	installation, err := s.Store.Installation(ctx)
	if err != nil {
		return err
	}
	if _, err := s.Store.Recount(ctx); err != nil {
		return err
	}
	s.Engine = engine.New(engine.Options{
		Restorer:  s.restorer(),
		Hooks:     s.Hooks,
		Store:     engine.OnDB(s.Store),
		Drivers:   s.drivers,
		Prober:    s.Prober,
		Defaults:  sandbox.Spec{Template: s.cfg.DefaultTemplate, Driver: s.cfg.DefaultDriver, Profile: s.cfg.SandboxProfileType},
		Templates: s.templates,
		Prefix:    s.templates.Prefix,
		Policy:    s.policy,

		Room:         s.disk.room,
		MaxSandboxes: int64(s.cfg.Caps().SandboxesPerTenant),
		Installation: installation,
		Finalizers:   s.finalizers(),
		LeaseTTL:     s.Store.LeaseTTL(),
		WorkTimeout:  keeper.Timeout + 5*time.Minute,
		GoneWait:     min(30*time.Second, s.cfg.RequestTimeout/2),
		Logger:       s.log,
		Metrics:      metrics,
		Host:         host,
		AdvertiseURL: s.cfg.AdvertiseURL,
		At:           func(point string, sb sandbox.Sandbox) { s.at(point, sb.ID) },
	})
	if err := s.openMessages(ctx); err != nil {
		return err
	}
	s.openConversations(metrics)
	return nil
}

func (s *System) at(point, id string) {
	if s.At != nil {
		s.At(point, id)
	}
}

// handle gives the routes what they need of one sandbox.
func (s *System) handle(sb sandbox.Sandbox, actor string) httpapi.Handle {
	return s.Engine.HandleOn(sb, actor)
}

func (s *System) handler(metrics *telemetry.Metrics, red *telemetry.Redactor) *httpapi.Handler {
	caps := s.cfg.Caps()
	return httpapi.New(httpapi.Options{
		Engine: s.Engine, Store: s.Store, Keys: auth.NewAuthenticator(s.Store), Templates: s.templates, Open: s.handle, Traffic: s.traffic.read, Keeper: s.keeper, Conversations: s.conversations, Turns: s.turns, Saves: s.keeper != nil, Saving: s.checkKeeper, Messages: s.checkMessages, Room: s.disk.room, Disk: s.disk.check,
		Listen: s.cfg.Listen, AllowedHosts: s.cfg.AllowedHosts,
		MaxBodyBytes: s.cfg.MaxBodyBytes, RequestTimeout: s.cfg.RequestTimeout, ClaimTTL: s.cfg.LeaseTTL, OrphanGrace: s.cfg.OrphanGrace,
		Rate: caps.RequestsPerSecond, Burst: caps.Burst,
		Version: s.Version, Log: s.log, Metrics: metrics, Redactor: red,
	})
}

func storeOptions(cfg *config.Loaded, log *slog.Logger) store.Options {
	return store.Options{DataDir: cfg.DataDir, DatabaseURL: cfg.DatabaseURL.Reveal(), LeaseTTL: cfg.LeaseTTL, Logger: log}
}

const drainDelay = 2 * time.Second // for load balancers to see that the server is about to go

// policy is what the sandbox's template and the configuration say.
func (s *System) policy(sb sandbox.Sandbox) sandbox.Policy {
	p := s.templates.Policy(sb)
	p.ProbeEvery, p.NoRecover = s.cfg.SandboxHealthCheckInterval, !s.cfg.SandboxAutoRecover
	p.NoSave = !s.keeper.Saves(sb)
	return p
}

// Serve says where it listens, then answers requests and keeps sandboxes where they should be until the
// context ends and running requests have finished.
func (s *System) Serve(ctx context.Context) error {
	s.greet()
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	bound, release := bounded(ctx, s.Server.DrainDelay+s.cfg.DrainTimeout+cutTime)
	defer release()
	background, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { s.Engine.RunHost(background, engine.SweepOptions{Grace: s.cfg.OrphanGrace}) })
	wg.Go(func() { s.Engine.Run(background, s.cfg.ReconcileInterval) })
	wg.Go(func() {
		s.Engine.RunSweeps(background, s.cfg.SweepInterval, engine.SweepOptions{Grace: s.cfg.OrphanGrace})
	})
	wg.Go(func() { s.Outbox.Run(background) })
	wg.Go(func() { s.turns.Run(background) })
	if s.keeper != nil {
		wg.Go(func() { s.runGate(background) })
		wg.Go(func() { s.keeper.Run(background) })
		wg.Go(func() { s.keeper.RunPrunes(background, s.cfg.PruneInterval) })
	}
	wg.Go(func() { s.leaveNewSchema(background, leave) })
	wg.Go(func() { s.disk.run(background) })
	err := s.Server.Serve(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, errNewSchema) {
		err = errors.Join(err, cause)
	}
	stop()
	leave(nil)
	s.finish(bound, &wg)
	return err
}

// Close lets go of the drivers, whose sandboxes live on, of the database and of the data directory.
func (s *System) Close() (err error) {
	for _, c := range s.closers {
		err = errors.Join(err, c.Close())
	}
	if s.Store != nil {
		err = errors.Join(err, s.closeStore())
		s.disk.close()
	}
	return err
}

// Migrate brings the database to this binary's schema, and makes the table for messages if they are kept in
// one.
func Migrate(ctx context.Context, cfg *config.Loaded) (string, error) {
	schema, err := store.Migrate(ctx, storeOptions(cfg, slog.New(slog.DiscardHandler)))
	if err != nil {
		return "", err
	}
	return migrateMessages(ctx, cfg, fmt.Sprintf("The database has schema %d, as this Berth needs it.", schema.Current))
}
