// Package app assembles Berth from its parts. [Open] makes a [System] from a configuration: it runs sandboxes and
// turns, and saves workspaces. [Server] is a System with the HTTP API. The berth command, its verbs that need no server,
// the public package berth and the end-to-end tests all use the same System.
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

	"github.com/berthdev/berth/internal/agent/sandboxagent"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/egress/gateway"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/outbox"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/slack"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/transcript"
	"github.com/berthdev/berth/internal/workspacesync"
)

// Options configures a System and a Server.
type Options struct {
	Config  *config.Loaded
	Version string    // version that the server shows; empty: dev
	Out     io.Writer // output of a Server's greeting
	Log     io.Writer // nil: standard error

	// Templates are added to the templates of the configuration.
	Templates []template.Template
	// Exe is the program that runs as the helper in local sandboxes; empty: this program.
	Exe string
	// Gateway is a berth program that serves the ways out of sandboxes in a process which outlives this one; empty: this
	// process serves them, and its end breaks the connections.
	Gateway string
	// Prober replaces the check of agents' servers in sandboxes. Tests set it; nil: package sandboxagent.
	Prober engine.Prober
	// At, if set, is called at named points of the work on sandboxes. Tests use it to stop a server there.
	At func(point, id string)
}

// System holds the parts of Berth that run sandboxes: the database, the drivers, the object store and the engine.
type System struct {
	opts         Options
	cfg          *config.Loaded
	templates    *template.Registry
	redactor     *telemetry.Redactor
	metrics      *telemetry.Metrics
	log          *slog.Logger
	agentServers *sandboxagent.Server
	roots        []auth.Secret // the root secrets, the newest first
	addr         func() string // the address that the server listens on; nil: there is none
	stopOnly     bool          // the System only stops sandboxes, and needs no object store, message store or secret

	store    *store.DB
	drivers  map[string]driver.Driver
	warnings []string    // limits that the drivers cannot enforce, as texts for people
	closers  []io.Closer // drivers and stores to close
	traffic  traffic
	gateway  *gateway.Client // nil: this process serves the ways out of sandboxes
	headers  serviceHeaders
	disk     *disk
	syncer   *workspacesync.Syncer // nil: workspaces are not saved
	outbox   *outbox.Outbox
	hooks    *hook.Runner
	engine   *engine.Engine
	messages transcript.Store
	chat     *chat.Service
	slack    *slack.Service // nil: sandbox_runtime_enabled is false

	messageCheck *messageCheck // nil: messages are in the database
}

// Open opens the stores and drivers of the configuration and returns a System. [System.Run] starts its background work.
func Open(ctx context.Context, o Options) (*System, error) {
	o.Version = cmp.Or(o.Version, "dev")
	if o.Log == nil {
		o.Log = os.Stderr
	}
	red := new(telemetry.Redactor)
	for _, secret := range o.Config.Secrets() {
		red.Add(secret)
	}
	registry, unused, err := loadTemplates(o.Config, o.Templates, red)
	if err != nil {
		return nil, err
	}
	s := &System{
		opts: o, cfg: o.Config, templates: registry, redactor: red, metrics: telemetry.NewMetrics(o.Version),
		log: telemetry.NewLogger(o.Log, o.Config.LogFormat, o.Config.LogLevel, red),
	}
	s.headers.s = s
	for _, w := range slices.Concat(o.Config.Warnings, configWarnings(o.Config), unused) {
		s.log.Warn(w)
	}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(s.disk.explain(err), s.Close())
	}
	return s, nil
}

func (s *System) open(ctx context.Context) error {
	if err := s.openEngine(ctx); err != nil {
		return err
	}
	if err := s.store.Tenants().Ensure(ctx, auth.DefaultTenant, "Default"); err != nil {
		return err
	}
	return s.warnOfTemplates(ctx)
}

// openEngine opens the parts in the order of their dependencies: the database, the message store, the drivers, the object
// store and the engine.
func (s *System) openEngine(ctx context.Context) error {
	s.disk = &disk{dir: s.cfg.DataDir, low: s.cfg.DiskLowWater, log: s.log, metric: s.metrics.DiskFree}
	s.disk.open()
	for _, open := range []func(context.Context) error{
		s.openStore, s.openMessages, s.openSecret, s.openDrivers, s.openSyncer, s.openHooks, s.recordPrefixes, s.newEngine,
	} {
		if err := open(ctx); err != nil {
			return err
		}
	}
	if err := s.messageCheck.await(ctx); err != nil {
		return err
	}
	s.openChat()
	s.slack = newSlack(s)
	s.metrics.Watch(s.snapshot)
	return nil
}

func (s *System) openStore(ctx context.Context) (err error) {
	s.store, err = store.Open(ctx, storeOptions(s.cfg, s.log))
	return err
}

func (s *System) newEngine(ctx context.Context) error {
	host, err := auth.LoadHost(s.cfg.DataDir)
	if err != nil {
		return err
	}
	installation, err := s.store.Overview().Installation(ctx)
	if err != nil {
		return err
	}
	if _, err := s.store.Recount(ctx); err != nil {
		return err
	}
	s.engine = engine.New(engine.Options{
		Restorer:  s.restorer(),
		Hooks:     s.hooks,
		Store:     engine.OnDB(s.store),
		Drivers:   s.drivers,
		Prober:    prober(s.opts.Prober, s.agentServers),
		Defaults:  sandbox.Spec{Template: s.cfg.DefaultTemplate, Driver: s.cfg.DefaultDriver, Profile: s.cfg.SandboxProfileType},
		Templates: s.templates,
		Prefix:    s.templates.Prefix,
		Policy:    s.policy,

		Room:         s.disk.room,
		MaxSandboxes: int64(s.cfg.Caps().SandboxesPerTenant),
		Installation: installation,
		Alone:        s.store.Engine() == "sqlite", // with SQLite, this process locks the data directory
		Finalizers:   s.finalizers(),
		LeaseTTL:     s.store.LeaseTTL(),
		WorkTimeout:  workspacesync.Timeout + 5*time.Minute,
		GoneWait:     min(30*time.Second, s.cfg.RequestTimeout/2),
		Logger:       s.log,
		Metrics:      s.metrics,
		Host:         host,
		AdvertiseURL: s.cfg.AdvertiseURL,
		At:           func(point string, sb sandbox.Sandbox) { s.at(point, sb.ID) },
	})
	return nil
}

// at calls Options.At, if it is set.
func (s *System) at(point, id string) {
	if s.opts.At != nil {
		s.opts.At(point, id)
	}
}

func storeOptions(cfg *config.Loaded, log *slog.Logger) store.Options {
	return store.Options{DataDir: cfg.DataDir, DatabaseURL: cfg.DatabaseURL.Reveal(), LeaseTTL: cfg.LeaseTTL, Logger: log}
}

// policy returns the policy of a sandbox, from its template and the configuration.
func (s *System) policy(sb sandbox.Sandbox) sandbox.Policy {
	p := s.templates.Policy(sb)
	p.ProbeEvery, p.NoRecover = s.cfg.SandboxHealthCheckInterval, !s.cfg.SandboxAutoRecover
	p.NoSave = !s.syncer.Saves(sb)
	return p
}

// Run brings sandboxes to their desired states, runs turns and saves workspaces until the context ends. It then waits
// for running work, at most for the drain timeout; another server finishes the rest. It returns early, with an error,
// when a newer version of Berth has migrated the database.
func (s *System) Run(ctx context.Context) error {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	bound, release := bounded(ctx, s.cfg.DrainTimeout)
	defer release()
	var work sync.WaitGroup
	s.start(ctx, &work)
	s.leaveNewSchema(ctx, func() {}, leave)
	<-ctx.Done()
	s.finish(bound, &work)
	if cause := context.Cause(ctx); errors.Is(cause, errNewSchema) {
		return cause
	}
	return nil
}

// start starts the background work.
func (s *System) start(ctx context.Context, work *sync.WaitGroup) {
	sweep := engine.SweepOptions{Grace: s.cfg.OrphanGrace}
	work.Go(func() { s.engine.RunHost(ctx, sweep) })
	work.Go(func() { s.engine.Run(ctx, s.cfg.ReconcileInterval) })
	work.Go(func() { s.engine.RunSweeps(ctx, s.cfg.SweepInterval, sweep) })
	work.Go(func() { s.outbox.Run(ctx) })
	work.Go(func() { s.chat.Run(ctx) })
	if s.slack != nil {
		work.Go(func() { s.slack.Run(ctx) })
	}
	if s.syncer != nil {
		work.Go(func() { s.runGate(ctx) })
		work.Go(func() { s.syncer.Run(ctx) })
		work.Go(func() { s.syncer.RunPrunes(ctx, s.cfg.PruneInterval) })
	}
	work.Go(func() { s.disk.run(ctx) })
	work.Go(func() { s.headers.run(ctx) })
	work.Go(func() { s.store.Secrets().Run(ctx) })
	work.Go(func() { store.NewChangeLog(s.store).Run(ctx) })
}

// Engine returns the engine.
func (s *System) Engine() *engine.Engine { return s.engine }

// Store returns the database.
func (s *System) Store() *store.DB { return s.store }

// Syncer returns the component that saves workspaces, or nil.
func (s *System) Syncer() *workspacesync.Syncer { return s.syncer }

// Hooks returns the component that runs the hooks of templates.
func (s *System) Hooks() *hook.Runner { return s.hooks }

// Chat returns the service that keeps conversations and runs turns.
func (s *System) Chat() *chat.Service { return s.chat }

// Room returns an error if the disk is too full for new work.
func (s *System) Room() error { return s.disk.room() }

// Close closes the drivers, the stores and the database, and unlocks the data directory. Sandboxes continue to run.
func (s *System) Close() (err error) {
	for _, c := range s.closers {
		err = errors.Join(err, c.Close())
	}
	if s.store != nil {
		err = errors.Join(err, s.closeStore())
		s.disk.close()
	}
	return err
}

// Migrate migrates the database to the schema of this program and creates the message store's table, if it uses one. It
// returns a report for people.
func Migrate(ctx context.Context, cfg *config.Loaded) (string, error) {
	schema, err := store.Migrate(ctx, storeOptions(cfg, slog.New(slog.DiscardHandler)))
	if err != nil {
		return "", err
	}
	return migrateMessages(ctx, cfg, fmt.Sprintf("The database has schema %d, as this Berth needs it.", schema.Current))
}
