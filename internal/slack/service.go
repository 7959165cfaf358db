// Package slack answers messages in Slack.
//
// A [Service] receives events by Socket Mode and by the Events API ([Service.ServeEvents]), records them, and answers:
// each message becomes a turn of its thread, and one message in Slack shows its progress and its result.
//
// # Exactly once
//
// Slack sends an event again until it is acknowledged, to any server. An event is recorded in the database together with
// what it changes, before it is acknowledged; its id is unique there, so that a repetition changes nothing.
//
// The holder of a thread's lease answers the messages of the thread, one after the other. What it is about to post is
// recorded first. Slack has no idempotency keys: each post carries metadata with its key, and a post that may have
// been made before is looked for in the thread. Edits, reactions and cancels can be repeated.
package slack

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/berthdev/berth/internal/store"
)

// Options configures a Service.
type Options struct {
	Store   *store.DB
	Threads Threads
	APIURL  string       // of the Web API; empty: Slack's
	HTTP    *http.Client // nil: the default one
	Holder  string       // names this process in leases; empty: a new id
	Log     *slog.Logger

	// Limits of the attachments of a message: the size of one, of all together, and their number.
	MaxFile  int64 // zero: 20 MiB
	MaxAll   int64 // zero: 20 MiB
	MaxFiles int   // zero: 10

	// At is called at named points of the work, for tests that stop a server there.
	At func(point, reply string)
}

// Service connects Slack workspaces. It is safe for concurrent use.
type Service struct {
	opts    Options
	slack   store.SlackTables
	wakeup  chan struct{}
	changed chan struct{} // the list of workspaces may have changed
	idle    bool          // there is no workspace; only Run uses it

	mu      sync.Mutex
	running map[string]bool          // threads that this process works on
	sockets map[string]*socketOf     // by team
	people  map[[2]string]personSeen // by team and user

	noStreams map[string]bool // workspaces and TEAM/CHANNEL in which Slack refuses streams

	clicks sync.WaitGroup // answers to buttons
}

// New returns a service. Run starts its work.
func New(o Options) *Service {
	o.Holder = cmp.Or(o.Holder, store.NewID())
	o.MaxFile = cmp.Or(o.MaxFile, 20<<20)
	o.MaxAll = cmp.Or(o.MaxAll, 20<<20)
	o.MaxFiles = cmp.Or(o.MaxFiles, 10)
	if o.HTTP == nil {
		o.HTTP = &http.Client{Transport: http.DefaultTransport}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{
		opts: o, slack: o.Store.Slack(), wakeup: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		running: map[string]bool{}, sockets: map[string]*socketOf{}, people: map[[2]string]personSeen{}, noStreams: map[string]bool{},
	}
}

const (
	findEvery    = 500 * time.Millisecond
	connectEvery = 5 * time.Second
	forgetEvery  = 10 * time.Minute
	keepRecords  = 30 * 24 * time.Hour
	atOnce       = 64 // threads that one process works on
)

// Run receives events and answers messages until the context ends. Another server, or the next one, continues.
func (s *Service) Run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	defer s.clicks.Wait()
	find, connect, forget := time.NewTicker(findEvery), time.NewTicker(connectEvery), time.NewTicker(forgetEvery)
	defer find.Stop()
	defer connect.Stop()
	defer forget.Stop()
	s.connectAll(ctx, &work)
	for {
		if !s.idle {
			s.find(ctx, &work)
		}
		select {
		case <-ctx.Done():
			return
		case <-find.C:
		case <-s.wakeup:
			if s.idle {
				s.connectAll(ctx, &work)
			}
		case <-s.changed:
			s.connectAll(ctx, &work)
		case <-connect.C:
			s.connectAll(ctx, &work)
		case <-forget.C:
			if err := s.slack.DropOld(ctx, keepRecords); err != nil && ctx.Err() == nil {
				s.opts.Log.WarnContext(ctx, "remove old records of Slack", "error", err)
			}
		}
	}
}

// find works on threads that have messages and no holder.
func (s *Service) find(ctx context.Context, work *sync.WaitGroup) {
	threads, err := s.slack.OpenThreads(ctx, 4*atOnce)
	if err != nil && ctx.Err() == nil {
		s.opts.Log.WarnContext(ctx, "look for messages to answer", "error", err)
	}
	for _, id := range threads {
		s.mu.Lock()
		begin := !s.running[id] && len(s.running) < atOnce
		if begin {
			s.running[id] = true
		}
		s.mu.Unlock()
		if !begin {
			continue
		}
		work.Go(func() {
			defer func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.running, id)
			}()
			s.hold(ctx, id)
		})
	}
}

// Wake makes Run look for work at once.
func (s *Service) wake() {
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

func (s *Service) at(point, reply string) {
	if s.opts.At != nil {
		s.opts.At(point, reply)
	}
}
