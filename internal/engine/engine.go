// Package engine gives every owner its one sandbox and keeps it where it should be.
//
// [Engine.Ensure] is the get-or-create call, [Engine.Delete] the end of a sandbox, and
// [Engine.Reconcile] one pass over what is due, which settles whatever a crash left; [Engine.Run]
// repeats it. All of them do the same thing to one sandbox: take its lease, ask [sandbox.Plan] what to
// do, do it, and write the outcome fenced by the lease's epoch. A request never changes state by
// itself; it says what is wanted and waits.
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

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
	"golang.org/x/sync/singleflight"
)

// Options is what an engine is made of.
type Options struct {
	Store    Store
	Drivers  map[string]driver.Driver
	Restorer Restorer // nil: workspaces start empty, and nothing of them can be saved
	Hooks    Hooks    // nil: none
	Prober   Prober   // nil: no sandbox has an agent's server
	// Finalizers are done when a sandbox ends, after its instance is gone.
	Finalizers []Finalizer
	Defaults   sandbox.Spec
	// Prefix returns where the versions of a new sandbox will be; nil: it is not recorded.
	Prefix func(sandbox.Sandbox) string
	// Templates are those a sandbox may ask for; nil: it need not name one.
	Templates Templates
	// Policy says what applies to a sandbox; nil: sandbox.DefaultPolicy of its owner's kind.
	Policy func(sandbox.Sandbox) sandbox.Policy
	// LeaseTTL is how long the store keeps a lease that nobody renews; it is renewed at a third of it.
	LeaseTTL time.Duration
	// WorkTimeout bounds one holder's work on one sandbox, driver calls included.
	WorkTimeout time.Duration
	// GoneWait is how long an Ensure waits for the delete of the owner's sandbox before; zero: 30 s.
	GoneWait time.Duration
	// ProbeFor bounds one look into an instance. An agent's server that was started again is asked every
	// HealPoll whether it is well, and given up after HealFor.
	ProbeFor, HealPoll, HealFor time.Duration
	// Room refuses to make or start sandboxes when the server has no space for them; nil: never.
	Room func() error
	// MaxSandboxes is how many a tenant may have; zero: any number.
	MaxSandboxes int64
	// Installation names whoever shares the database: an instance without this label is never an orphan.
	Installation string
	// Host is this machine; sandboxes pinned to another are left to it. AdvertiseURL is where clients reach
	// its server; empty: not said.
	Host, AdvertiseURL string
	// Holder names this process in leases; empty: a fresh id.
	Holder string
	// Workers is how many sandboxes one Reconcile works on at once.
	Workers int
	Logger  *slog.Logger
	Metrics *telemetry.Metrics
	// At, if set, is called at named points of the work. Tests use it to stop or kill a holder there.
	At func(point string, s sandbox.Sandbox)
}

// Templates is what the engine needs of the registry of templates.
type Templates interface {
	Names() []string
	// Spec is what sandboxes of the template are unless they say otherwise.
	Spec(template string) sandbox.Spec
	// Prepare fills in what the sandbox's instance is made of.
	Prepare(s sandbox.Sandbox, spec *driver.Spec) error
	// Env is what every command in sandboxes of the template has in its environment.
	Env(template string) map[string]string
	// User is whom commands run as that do not say.
	User(template string) string
}

// Restorer brings a workspace and what runs in it to life before a sandbox counts as running, and
// saves it before its volume goes.
type Restorer interface {
	Restore(ctx context.Context, s sandbox.Sandbox, id driver.ID) (sandbox.SyncMark, error)
	Save(ctx context.Context, s sandbox.Sandbox) (sandbox.SyncMark, error)
}

// Hooks are called at the turning points of a sandbox's life.
type Hooks interface {
	// ColdStart runs when the instance is up and its workspace is there. Its error fails the start.
	ColdStart(ctx context.Context, s sandbox.Sandbox, id driver.ID) error
	// Terminate runs before the instance ends for good. Its error is logged.
	Terminate(ctx context.Context, s sandbox.Sandbox) error
}

// Prober knows the agent's server inside sandboxes that have one.
type Prober interface {
	// Probe says what is wrong with the server, nil also where there is none to be.
	Probe(ctx context.Context, s sandbox.Sandbox, conn guest.Conn) error
	// Heal starts what is missing, the server or its sessions, and returns how many sessions had to be
	// replaced by new ones. Whether it worked, Probe tells.
	Heal(ctx context.Context, s sandbox.Sandbox, conn guest.Conn) (replaced int, err error)
}

// Finalizer is something to undo when a sandbox ends. It may be called again after it succeeded.
type Finalizer struct {
	Name string
	Do   func(ctx context.Context, s sandbox.Sandbox) error
}

// Engine is the one mechanism behind every owner's sandbox. It is safe for concurrent use.
type Engine struct {
	Options
	flights singleflight.Group
	inWork  atomic.Int64
	noSave  bool
	orphans sightings // instances that no record claims
	unseen  sightings // instances that nobody can say anything about
}

// New returns an engine. It starts nothing; see Run.
func New(o Options) *Engine {
	if o.Policy == nil {
		o.Policy = func(s sandbox.Sandbox) sandbox.Policy { return sandbox.DefaultPolicy(s.Owner.Kind) }
	}
	noSave := o.Restorer == nil
	if noSave {
		o.Restorer = empty{}
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
	return &Engine{Options: o, noSave: noSave}
}

// working counts work that may outlive its caller, until the returned function is called.
func (e *Engine) working() (done func()) {
	e.inWork.Add(1)
	return func() { e.inWork.Add(-1) }
}

// Quiesce waits for work that outlived its callers, or for the context. What is left then is found and
// finished by the next server.
func (e *Engine) Quiesce(ctx context.Context) {
	for e.inWork.Load() > 0 {
		select {
		case <-ctx.Done():
			e.Logger.Warn("left work unfinished; the next server finishes it", "sandboxes", e.inWork.Load())
			return
		case <-time.After(maxPoll / 10):
		}
	}
}

// DriverNames lists the drivers a sandbox may ask for.
func (e *Engine) DriverNames() []string { return slices.Sorted(maps.Keys(e.Drivers)) }

// Check asks every driver, all at once, whether it answers.
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
	if r, ok := driver.As[driver.Reporter](e.Drivers[name]); ok {
		c.Detail = r.Report()
	}
	for _, err := range e.Drivers[name].List(ctx, driver.Selector{Sandbox: nobody}) {
		if err != nil {
			c.Status, c.Detail = "failed", err.Error()
			c.Fix = "Sandboxes of this driver wait until it answers; see the server's log."
		}
	}
	return c
}

// nobody is a sandbox id that no sandbox has: listing its instances asks the driver without reading
// much.
const nobody = "00000000-0000-0000-0000-000000000000"

func (e *Engine) at(point string, s sandbox.Sandbox) {
	if e.At != nil {
		e.At(point, s)
	}
}

// empty is the Restorer of sandboxes that have no stored workspace.
type empty struct{}

func (empty) Restore(_ context.Context, s sandbox.Sandbox, _ driver.ID) (sandbox.SyncMark, error) {
	return s.Synced, nil
}
func (empty) Save(_ context.Context, s sandbox.Sandbox) (sandbox.SyncMark, error) {
	return s.Synced, nil
}
