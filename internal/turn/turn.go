// Package turn runs prompts to agents, from the moment they are accepted to the last thing that is done
// after them.
//
// A turn belongs to nobody's request. [Service.Post] stores the user's message and the turn's row; whoever
// holds the turn's lease starts the agent in its sandbox and appends what it says to the turn's log, stored
// first and sent then; [Service.Events] reads the log, from any event on, in any process. The agent writes
// to a spool in its sandbox and waits for nobody: when a holder dies, the next one reads on from the place
// that the log stands at, so that there is neither a gap nor a repeat.
//
// [Service.Run] finds turns that nobody runs, and gives places that became free to those that wait.
package turn

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
)

// Options is what a Service is made of.
type Options struct {
	Store    *store.DB
	Boxes    func(t store.Turn) Box
	Runtimes map[string]agent.Runtime
	// Plan is what a template says about turns.
	Plan func(template string) (Plan, error)
	// Deliver brings the messages of a conversation from the outbox to where they are kept.
	Deliver func(ctx context.Context, t store.Turn) error
	// History is the newest messages of the turn's conversation, oldest first, those of the turn left out.
	History func(ctx context.Context, t store.Turn) ([]api.Message, error)
	Hooks   Hooks // nil: none
	Saver   Saver // nil: nothing is saved
	// Price is what tokens cost where the agent does not say; nil: nothing.
	Price func(model string, u api.Usage) float64

	Holder   string        // names this process in leases; empty: a fresh id
	Host     string        // this machine: turns of sandboxes on another one that runs are left to it
	Timeout  time.Duration // of one turn
	MaxLog   int64         // bytes of one turn's log
	KeepLog  time.Duration // of a turn that finished; zero: for ever
	MaxTurns int64         // of one tenant at once; zero: any number
	MaxQueue int64         // turns that wait in one conversation
	Poll     time.Duration // how often what others may have changed is looked at
	Patience time.Duration // how long a sandbox may take to run
	Metrics  *telemetry.Metrics
	Log      *slog.Logger
	// At is called at named points of the work, for tests that stop a server there.
	At func(point, turn string)
}

// Plan is what a template says about turns.
type Plan struct {
	Runtime string
	Command []string                // the template's way to call its agent; nil: the runtime's own
	Places  int64                   // how many turns may run at once in a sandbox
	Servers map[string]agent.Server // MCP servers that the agent has
}

// Box is a turn's sandbox.
type Box interface {
	agent.Box
	// Ready makes the sandbox run.
	Ready(ctx context.Context) (sandbox.Sandbox, error)
	// Record is the sandbox as it is.
	Record(ctx context.Context) (sandbox.Sandbox, error)
	// Hold keeps timers away from the sandbox until release is called.
	Hold(ctx context.Context, kind string) (release func())
}

// Hooks are run around turns. What goes wrong in them fails nothing. They may be run again for the same
// turn or message after a crash, and then do nothing twice.
type Hooks interface {
	// Message runs for each message of both roles, once it is stored.
	Message(ctx context.Context, d *hook.Data)
	// StreamFinish runs after every turn, however it ended, the hooks before the save of the workspace, and says
	// what people should know of.
	StreamFinish(ctx context.Context, d *hook.Data) (warnings []string)
	// Pushes reports whether the template has the workspace saved after each turn.
	Pushes(template string) bool
	// Push runs the save as one of the hooks.
	Push(ctx context.Context, d *hook.Data, save hook.Func) error
	// Behind reports whether hooks come after the save. AfterPush runs them.
	Behind(template string) bool
	AfterPush(ctx context.Context, d *hook.Data) (warnings []string)
}

// Service runs turns. It is safe for concurrent use.
type Service struct {
	Options
	log  *journal
	hub  *hub
	base context.Context // of the work, which outlives requests
	stop context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex
	here   map[string]bool          // turns that this process runs
	saving map[string]chan struct{} // sandboxes whose saves this process does
	kick   chan struct{}            // something may have become possible
}

// New returns a service; see Run.
func New(o Options) *Service {
	o.Holder = cmp.Or(o.Holder, store.NewID())
	o.Timeout = cmp.Or(o.Timeout, time.Hour)
	o.MaxLog = cmp.Or(o.MaxLog, 64<<20)
	o.MaxQueue = cmp.Or(o.MaxQueue, 100)
	o.Poll = cmp.Or(o.Poll, 250*time.Millisecond)
	o.Patience = cmp.Or(o.Patience, 5*time.Minute)
	if o.Metrics == nil {
		o.Metrics = telemetry.NewMetrics("")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	base, stop := context.WithCancel(context.Background())
	s := &Service{Options: o, hub: newHub(), base: base, stop: stop, here: map[string]bool{}, saving: map[string]chan struct{}{}, kick: make(chan struct{}, 1)}
	s.log = newJournal(o.Store, s.hub)
	return s
}

// Run finds turns to run until the context ends. Then it lets go of those that it runs; another server, or
// the next one, goes on with them.
func (s *Service) Run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	forget := time.NewTicker(10 * time.Minute)
	defer forget.Stop()
	for {
		s.place(ctx)
		s.find(ctx)
		s.findSaves(ctx)
		select {
		case <-ctx.Done():
			s.Close()
			return
		case <-tick.C:
			s.countSaves(ctx)
		case <-s.kick:
		case <-forget.C:
			s.forget(ctx)
		}
	}
}

// forget removes logs that have been kept long enough.
func (s *Service) forget(ctx context.Context) {
	for s.KeepLog > 0 {
		n, err := s.Store.ForgetTurns(ctx, s.KeepLog, 100)
		if err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "remove old events", "error", err)
		}
		if err != nil || n == 0 {
			return
		}
	}
}

// Close lets go of all turns.
func (s *Service) Close() {
	s.stop()
	s.work.Wait()
}

// find takes up turns that nobody runs.
func (s *Service) find(ctx context.Context) {
	turns, err := s.Store.UnheldTurns(ctx, s.Host, 100)
	if err != nil && ctx.Err() == nil {
		s.Log.WarnContext(ctx, "look for turns to run", "error", err)
	}
	for _, t := range turns {
		s.begin(t.ID)
	}
}

// place gives free places to turns that wait.
func (s *Service) place(ctx context.Context) {
	waiting, err := s.Store.WaitingSandboxes(ctx, 100)
	if err != nil && ctx.Err() == nil {
		s.Log.WarnContext(ctx, "look for turns that wait", "error", err)
	}
	for _, t := range waiting {
		plan, err := s.Plan(t.Template)
		if err != nil {
			plan.Places = 1 // it fails when it runs, and says so
		}
		if _, _, err := s.Store.PlaceTurn(ctx, t.Sandbox, max(plan.Places, 1)); err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "place turn", "turn_id", t.ID, "error", err)
		}
	}
}

// wake makes Run look at once.
func (s *Service) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// begin runs the turn in the background, unless this process does already, or somebody else.
func (s *Service) begin(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.here[id] || s.base.Err() != nil {
		return
	}
	s.here[id] = true
	s.work.Go(func() {
		defer s.Metrics.TurnRuns()()
		defer func() {
			s.mu.Lock()
			delete(s.here, id)
			s.mu.Unlock()
			s.hub.nudge(id)
		}()
		s.drive(s.base, id)
	})
}

// runs says whether this process runs the turn: then readers here are told of all its events.
func (s *Service) runs(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.here[id]
}

func (s *Service) at(point, turn string) {
	if s.At != nil {
		s.At(point, turn)
	}
}
