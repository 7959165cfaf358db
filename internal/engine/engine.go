// Package engine gives every owner its one sandbox and brings each sandbox to its desired state.
//
// [Engine.Ensure] gets or creates a sandbox, [Engine.Delete] deletes it, and [Engine.Reconcile] works once on all due
// sandboxes, also on those that a crash left unfinished; [Engine.Run] works on due sandboxes until its context ends.
// All of them work on a sandbox in the same way: they take its lease, get the next steps from [sandbox.Plan], run the
// steps, and write the results fenced by the lease's epoch. A request does not change the state itself: it records the
// desired state and waits. A [Handle] is used to work with one sandbox.
package engine

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
)

// Options configures an Engine.
type Options struct {
	Store    Store
	Drivers  map[string]driver.Driver
	Restorer Restorer // nil: workspaces start empty and cannot be saved
	Hooks    Hooks    // nil: none
	Prober   Prober   // nil: no sandbox has an agent's server
	// Finalizers run when a sandbox ends, after its instance is gone.
	Finalizers []Finalizer
	Defaults   sandbox.Spec
	// Prefix returns the key prefix of a new sandbox's versions in the object store; nil: it is not recorded.
	Prefix func(sandbox.Sandbox) string
	// Templates holds the templates that a sandbox may name; nil: a sandbox may name any template, or none.
	Templates Templates
	// Policy returns the policy of a sandbox; nil: sandbox.DefaultPolicy of its owner's kind.
	Policy func(sandbox.Sandbox) sandbox.Policy
	// LeaseTTL is the lifetime of a lease without a renewal; zero: 15 s.
	LeaseTTL time.Duration
	// WorkTimeout limits the work of one lease holder on one sandbox, driver calls included; zero: 5 minutes.
	WorkTimeout time.Duration
	// GoneWait is the time for which Ensure waits until a delete of the owner's previous sandbox is done; zero: 30 s.
	GoneWait time.Duration
	// ProbeFor limits one health check of an instance. After a restart of the agent's server, its health is checked
	// every HealPoll, and the restart fails after HealFor. Zero: 10 s, 2 s and 1 minute.
	ProbeFor, HealPoll, HealFor time.Duration
	// Room returns an error if the server has no disk space to create or start a sandbox; nil: it always has.
	Room func() error
	// MaxSandboxes is the number of sandboxes that a tenant may have; zero: any number.
	MaxSandboxes int64
	// Alone reports whether no other process saves the sandboxes of this machine's local drivers, because this process
	// holds the lock of the data directory.
	Alone bool
	// Installation identifies the servers that share the database. A sweep never ends an instance without this label.
	Installation string
	// Host is the name of this machine; the engine does not work on sandboxes that are pinned to another machine.
	// AdvertiseURL is the address at which clients reach this server; empty: unknown.
	Host, AdvertiseURL string
	// Holder names this process in leases; empty: a new id.
	Holder string
	// Workers is the number of sandboxes that are worked on at once; zero: 16.
	Workers int
	Logger  *slog.Logger
	Metrics *telemetry.Metrics
	// At, if set, is called at named points of the work. Tests use it to stop or kill a holder there.
	At func(point string, s sandbox.Sandbox)
}

// Templates is the part of the registry of templates that the engine uses.
type Templates interface {
	Names() []string
	// Allows reports whether the tenant may create sandboxes of the template.
	Allows(tenant, template string) bool
	// Spec returns the defaults of sandboxes of the template.
	Spec(template string) sandbox.Spec
	// Prepare adds the template's settings to the specification of the sandbox's instance.
	Prepare(s sandbox.Sandbox, spec *driver.Spec) error
	// Env returns the environment of every command in the tenant's sandboxes of the template, with the tenant's secrets
	// as they are now.
	Env(ctx context.Context, tenant, template string) (map[string]string, error)
	// User returns the default user of commands.
	User(template string) string
}

// Restorer restores a workspace before a sandbox counts as running, and saves it before its volume is removed.
type Restorer interface {
	Restore(ctx context.Context, s sandbox.Sandbox, id driver.ID) (sandbox.SyncMark, error)
	Save(ctx context.Context, s sandbox.Sandbox) (sandbox.SyncMark, error)
}

// Hooks runs the hooks of templates. Each method gets a handle on the instance; see HandleAt.
type Hooks interface {
	// ColdStart runs the cold start hooks when the instance is up, and pull, which restores the workspace, at its place
	// among them. Its error fails the start.
	ColdStart(ctx context.Context, h *Handle, pull func(context.Context) error) error
	// Terminate runs the terminate hooks before the instance is destroyed. Its error is logged.
	Terminate(ctx context.Context, h *Handle) error
}

// Prober checks and starts the agent's server in sandboxes that have one.
type Prober interface {
	// Probe returns the problem of the server; nil if it is healthy or the sandbox has none.
	Probe(ctx context.Context, s sandbox.Sandbox, conn guest.Conn) error
	// Heal starts the server and its sessions if they are missing, and returns the number of sessions that it replaced
	// by new ones. The caller calls Probe to see whether the server is healthy.
	Heal(ctx context.Context, s sandbox.Sandbox, conn guest.Conn) (replaced int, err error)
}

// Finalizer is a clean-up step that runs when a sandbox ends. Do may be called again after it succeeded.
type Finalizer struct {
	Name string
	Do   func(ctx context.Context, s sandbox.Sandbox) error
}

// Engine brings sandboxes to their desired states. It is safe for concurrent use.
type Engine struct {
	opts   Options
	runs   singleflight.Group // work that concurrent callers share, by sandbox
	inWork atomic.Int64       // number of pieces of work that Quiesce waits for
	noSave bool               // whether workspaces cannot be saved
	// savesBegun counts the saves of all sandboxes. It is incremented before a save reads files.
	savesBegun atomic.Uint64
	orphans    sightings // instances without a record
	unseen     sightings // instances whose state is unknown
	ensurer    ensurer
	sweeps     sweeps
	exposures  exposures
}

// New returns an Engine. It starts no background work; see Run.
func New(o Options) *Engine {
	if o.Policy == nil {
		o.Policy = func(s sandbox.Sandbox) sandbox.Policy { return sandbox.DefaultPolicy(s.Owner.Kind) }
	}
	noSave := o.Restorer == nil
	if noSave {
		o.Restorer = emptyRestorer{}
	}
	if o.Metrics == nil {
		o.Metrics = telemetry.NewMetrics("")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.LeaseTTL = cmp.Or(o.LeaseTTL, 15*time.Second)
	o.WorkTimeout = cmp.Or(o.WorkTimeout, 5*time.Minute)
	o.GoneWait = cmp.Or(o.GoneWait, 30*time.Second)
	o.ProbeFor = cmp.Or(o.ProbeFor, 10*time.Second)
	o.HealPoll = cmp.Or(o.HealPoll, 2*time.Second)
	o.HealFor = cmp.Or(o.HealFor, time.Minute)
	o.Holder = cmp.Or(o.Holder, store.NewID())
	o.Workers = cmp.Or(o.Workers, 16)
	e := &Engine{opts: o, noSave: noSave}
	e.ensurer, e.sweeps = ensurer{e}, sweeps{e}
	return e
}

// Host returns the name of this machine in the records of its sandboxes.
func (e *Engine) Host() string { return e.opts.Host }

// working registers work for Quiesce until the returned function is called.
func (e *Engine) working() (done func()) {
	e.inWork.Add(1)
	return func() { e.inWork.Add(-1) }
}

// Quiesce waits until the engine's running work is done or the context ends. The next server finishes the rest.
func (e *Engine) Quiesce(ctx context.Context) {
	for e.inWork.Load() > 0 {
		select {
		case <-ctx.Done():
			e.opts.Logger.Warn("left work unfinished; the next server finishes it", "sandboxes", e.inWork.Load())
			return
		case <-time.After(maxPoll / 10):
		}
	}
}

// DriverNames lists the drivers that a sandbox may name.
func (e *Engine) DriverNames() []string { return slices.Sorted(maps.Keys(e.opts.Drivers)) }

// Driver returns the driver with the name, or nil.
func (e *Engine) Driver(name string) driver.Driver { return e.opts.Drivers[name] }

// Unlimited describes the limits that a driver cannot enforce on this machine, one text for each.
func (e *Engine) Unlimited(name string) []string {
	if d, ok := e.opts.Drivers[name]; ok {
		if l, ok := driver.As[driver.Limiter](d); ok {
			return l.Unlimited()
		}
	}
	return nil
}

// Check returns a check of each driver: whether it answers. It asks the drivers concurrently.
func (e *Engine) Check(ctx context.Context) []api.Check {
	names := e.DriverNames()
	checks := make([]api.Check, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { checks[i] = e.checkDriver(ctx, name) })
	}
	wg.Wait()
	return checks
}

func (e *Engine) checkDriver(ctx context.Context, name string) api.Check {
	c := api.Check{Name: "driver " + name, Status: "ok"}
	if r, ok := driver.As[driver.Reporter](e.opts.Drivers[name]); ok {
		c.Detail = r.Report()
	}
	for _, err := range e.opts.Drivers[name].List(ctx, driver.Selector{Sandbox: noSandbox}) {
		if err != nil {
			c.Status, c.Detail = "failed", err.Error()
			c.Fix = "Sandboxes of this driver wait until it answers; see the server's log."
		}
	}
	return c
}

// Instance returns the driver's status of the sandbox's instance. It returns driver.ErrNotFound for a sandbox without an
// instance.
func (e *Engine) Instance(ctx context.Context, s sandbox.Sandbox) (driver.Status, error) {
	d := e.opts.Drivers[s.Spec.Driver]
	if d == nil || s.Instance == "" {
		return driver.Status{}, driver.ErrNotFound
	}
	return d.Inspect(ctx, driver.ID(s.Instance))
}

// Usage measures the instance of a running sandbox. It returns driver.ErrUnsupported if the driver cannot measure.
func (e *Engine) Usage(ctx context.Context, s sandbox.Sandbox) (driver.Usage, error) {
	d := e.opts.Drivers[s.Spec.Driver]
	if d == nil || s.Instance == "" {
		return driver.Usage{}, driver.ErrNotRunning
	}
	meter, ok := driver.As[driver.Meter](d)
	if !ok {
		return driver.Usage{}, driver.ErrUnsupported
	}
	return meter.Usage(ctx, driver.ID(s.Instance))
}

// noSandbox is an id that no sandbox has. A list of its instances is a cheap call to a driver.
const noSandbox = "00000000-0000-0000-0000-000000000000"

// at calls Options.At, if it is set.
func (e *Engine) at(point string, s sandbox.Sandbox) {
	if e.opts.At != nil {
		e.opts.At(point, s)
	}
}

// emptyRestorer is a Restorer that restores and saves nothing.
type emptyRestorer struct{}

func (emptyRestorer) Restore(_ context.Context, s sandbox.Sandbox, _ driver.ID) (sandbox.SyncMark, error) {
	return s.Synced, nil
}
func (emptyRestorer) Save(_ context.Context, s sandbox.Sandbox) (sandbox.SyncMark, error) {
	return s.Synced, nil
}
