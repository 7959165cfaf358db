// Package chat stores conversations and runs their turns, from the acceptance of a prompt to the last step after the
// answer.
//
// A conversation has its own sandbox, created on first use, or is linked to another one. [Conversations] gives a
// caller access to its conversations. [Conversations.Prompt] stores the user's message and the turn's row. The holder
// of the turn's lease starts the agent in the sandbox and appends the agent's output to the turn's log; events are
// stored before they are sent to readers. [Service.Events] reads the log from any event on, in any process. A turn
// outlives the request that started it: the agent writes to a spool in its sandbox. If a holder dies, the next holder
// reads on from the position in the log, without gaps or repeats.
//
// The outbox delivers messages to the message store. The transaction that removes a message from the outbox also adds
// it to the conversation's stats, so the stats are the sum over the conversation's messages.
//
// [Service.Run] finds turns without a holder, and starts turns that wait for a place in their sandbox.
package chat

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/outbox"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/transcript"
)

// Engine is the part of the engine that this package uses.
type Engine interface {
	KeepExposed(s sandbox.Sandbox)
	Ensure(ctx context.Context, r engine.Request) (s sandbox.Sandbox, created bool, err error)
	Delete(ctx context.Context, tenant, id, actor string, skipSave bool) (sandbox.Sandbox, error)
	CheckTemplate(tenant, name string) error
	Handle(tenant, id, actor string) *engine.Handle
	HandleAt(s sandbox.Sandbox, instance driver.ID) *engine.Handle
}

// Options configures a Service.
type Options struct {
	Store  *store.DB
	Engine Engine
	Outbox *outbox.Outbox
	// Transcript stores messages. If TranscriptInStore is set, Transcript is the database, and a message and its count
	// are written in one transaction.
	Transcript        transcript.Store
	TranscriptInStore bool

	Runtimes map[string]agent.Runtime
	// Plan returns the settings for turns of a template.
	Plan  func(template string) (Plan, error)
	Hooks Hooks // nil: none
	Saver Saver // nil: nothing is saved
	// MissingKey returns the variable with the key that the template's agent lacks in a new sandbox with the variables,
	// or the empty string; nil: no agent needs a key.
	MissingKey func(ctx context.Context, tenant, template string, env map[string]string) (string, error)
	// Secrets adds the secrets that an agent in the sandbox may print to the redactor, and reports whether they are
	// replaced in events and messages; nil: nothing is replaced.
	Secrets func(ctx context.Context, s sandbox.Sandbox, into *telemetry.Redactor) (bool, error)
	// Price returns the cost of tokens if the agent reports none; nil: the cost stays zero.
	Price func(model string, u api.Usage) float64

	DefaultTemplate string // for conversations that name none
	// DeleteSandbox reports whether deleting a conversation deletes its own sandbox by default.
	DeleteSandbox bool

	Holder   string        // names this process in leases; empty: a new id
	Host     string        // this machine; turns of sandboxes on other hosts are left to those hosts
	Timeout  time.Duration // of one turn; zero: one hour
	MaxLog   int64         // limit in bytes of one turn's log; zero: 64 MiB
	KeepLog  time.Duration // time that the log of a finished turn is kept; zero: for ever
	MaxTurns int64         // of one tenant at once; zero: no limit
	MaxQueue int64         // limit of waiting turns in one conversation; zero: 100
	Poll     time.Duration // how often the database is read for changes by other processes; zero: 250 ms
	Patience time.Duration // time that a sandbox may take to start; zero: five minutes
	Metrics  *telemetry.Metrics
	Log      *slog.Logger

	Attachments AttachmentLimits
	// Dial connects to the servers of attachments that are given by their URL; nil: only to public addresses.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// At is called at named points of the work, for tests that stop a server there.
	At func(point, turn string)
}

// Plan holds the settings for turns of a template.
type Plan struct {
	Runtime       string
	Agent         string                  // the kind of agent, for a runtime that runs several
	Command       []string                // the template's command line for the agent; nil: the runtime's default
	Permissions   string                  // the agent's permission mode; empty: everything is allowed
	Model         string                  // for prompts and agents that name none; empty: the agent's choice
	Models        []string                // that prompts and agents may name beside Model; empty: any
	MaxConcurrent int64                   // limit of running turns in one sandbox; at least 1
	Servers       map[string]agent.Server // MCP servers for the agent, by name
}

// Hooks run around turns. Their errors do not fail the turn. After a crash they may run again for the same turn or
// message, so they must not have an effect twice.
type Hooks interface {
	// Message runs for each message of both roles, once it is stored.
	Message(ctx context.Context, d *hook.Data)
	// StreamFinish runs the hooks after a turn, before the save of the workspace, however the turn ended. It returns
	// warnings for users.
	StreamFinish(ctx context.Context, d *hook.Data) (warnings []string)
	// Drops reports whether the template drops a default hook. An unknown template drops none.
	Drops(template, builtin string) bool
	// Pushes reports whether the workspace of the template is saved after each turn.
	Pushes(template string) bool
	// Push runs the save as one of the hooks, between the others.
	Push(ctx context.Context, d *hook.Data, save hook.Func) error
	// Behind reports whether the template has hooks after the save. AfterPush runs them.
	Behind(template string) bool
	AfterPush(ctx context.Context, d *hook.Data) (warnings []string)
}

// Service keeps conversations and runs turns. It is safe for concurrent use.
type Service struct {
	opts Options
	log  *journal
	hub  *hub
	base context.Context // the context of background work, which outlives requests
	stop context.CancelFunc
	work sync.WaitGroup

	storeFailed atomic.Bool // the message store did not take the last message that a turn waited for

	mu      sync.Mutex
	running map[string]bool          // turns that this process runs, by id
	saving  map[string]chan struct{} // sandboxes whose saves this process makes; closed when done
	wakeup  chan struct{}            // wakes Run
}

// New returns a service and registers it with the outbox. Run starts its work.
func New(o Options) *Service {
	o.Holder = cmp.Or(o.Holder, store.NewID())
	o.Timeout = cmp.Or(o.Timeout, time.Hour)
	o.MaxLog = cmp.Or(o.MaxLog, 64<<20)
	o.MaxQueue = cmp.Or(o.MaxQueue, 100)
	o.Attachments = o.Attachments.orDefault()
	o.Poll = cmp.Or(o.Poll, 250*time.Millisecond)
	o.Patience = cmp.Or(o.Patience, 5*time.Minute)
	if o.Metrics == nil {
		o.Metrics = telemetry.NewMetrics("")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	base, stop := context.WithCancel(context.Background())
	s := &Service{opts: o, hub: newHub(), base: base, stop: stop, running: map[string]bool{}, saving: map[string]chan struct{}{}, wakeup: make(chan struct{}, 1)}
	s.log = newJournal(o.Store, s.hub)
	within := storeTime
	if o.TranscriptInStore {
		within = countTime
	}
	o.Outbox.RegisterOwn(store.OutboxMessage, within, s.deliver)
	o.Outbox.RegisterOwn(kindForget, 0, s.forgetMessages)
	o.Outbox.RegisterOwn(kindEnd, 0, s.endSandbox)
	return s
}

// Run runs turns until the context ends. Then it releases the turns of this process; another server, or the next one,
// continues them.
func (s *Service) Run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	forget := time.NewTimer(forgetEvery)
	defer forget.Stop()
	for {
		s.placeWaiting(ctx)
		s.find(ctx)
		s.findSaves(ctx)
		select {
		case <-ctx.Done():
			s.Close()
			return
		case <-tick.C:
			s.countSaves(ctx)
		case <-s.wakeup:
		case <-forget.C:
			next := forgetEvery
			if err := errors.Join(s.dropOldLogs(ctx), s.opts.Store.TurnRuns().DropFiles(ctx)); err != nil {
				next = forgetAgain
			}
			forget.Reset(next)
		}
	}
}

const (
	forgetEvery = 10 * time.Minute
	forgetAgain = 30 * time.Second // after an error
)

// dropOldLogs removes logs that are older than KeepLog.
func (s *Service) dropOldLogs(ctx context.Context) error {
	for s.opts.KeepLog > 0 {
		n, err := s.opts.Store.TurnRuns().Forget(ctx, s.opts.KeepLog, 100)
		if err != nil && ctx.Err() == nil {
			s.opts.Log.WarnContext(ctx, "remove old events", "error", err)
		}
		if err != nil || n == 0 {
			return err
		}
	}
	return nil
}

// Close releases all turns of this process and waits until their work has stopped.
func (s *Service) Close() {
	s.stop()
	s.work.Wait()
}

// find starts the turns that have no holder.
func (s *Service) find(ctx context.Context) {
	turns, err := s.opts.Store.TurnRuns().ListDue(ctx, s.opts.Host, 100)
	if err != nil && ctx.Err() == nil {
		s.opts.Log.WarnContext(ctx, "look for turns to run", "error", err)
	}
	for _, t := range turns {
		s.begin(t.ID)
	}
}

// placeWaiting starts waiting turns whose sandbox has a free place.
func (s *Service) placeWaiting(ctx context.Context) {
	waiting, err := s.opts.Store.TurnRuns().WaitingSandboxes(ctx, 100)
	if err != nil && ctx.Err() == nil {
		s.opts.Log.WarnContext(ctx, "look for turns that wait", "error", err)
	}
	for _, t := range waiting {
		plan, err := s.opts.Plan(t.Template)
		if err != nil {
			plan.MaxConcurrent = 1 // the turn fails and reports this error when it runs
		}
		if _, _, err := s.opts.Store.TurnRuns().Admit(ctx, t.Sandbox, max(plan.MaxConcurrent, 1)); err != nil && ctx.Err() == nil {
			s.opts.Log.WarnContext(ctx, "place turn", "turn_id", t.ID, "error", err)
		}
	}
}

// wake makes Run look for work at once.
func (s *Service) wake() {
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

// begin runs the turn in the background, unless this process runs it already.
func (s *Service) begin(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[id] || s.base.Err() != nil {
		return
	}
	s.running[id] = true
	s.work.Go(func() {
		defer s.opts.Metrics.TurnRuns()()
		defer func() {
			s.mu.Lock()
			delete(s.running, id)
			s.mu.Unlock()
			s.hub.nudge(id)
		}()
		s.drive(s.base, id)
	})
}

// runs reports whether this process runs the turn. If it does, the hub announces all events of the turn.
func (s *Service) runs(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[id]
}

func (s *Service) at(point, turn string) {
	if s.opts.At != nil {
		s.opts.At(point, turn)
	}
}
