// Package outbox delivers the messages of the store's outbox at least once, across crashes of servers.
//
// A producer writes a message in the transaction that causes it ([store.Outgoing.Enqueue]), and registers a function that
// delivers messages of its kind ([Outbox.Register]). [Outbox.Run] delivers the messages on any server and retries with
// growing pauses. [Outbox.Wake] hints at new messages; [Outbox.Flush] delivers the messages about one object at once.
package outbox

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/berthdev/berth/internal/store"
)

// ErrDrop, or an error that wraps it, ends the deliveries of a message. The message is lost.
var ErrDrop = errors.New("not delivered again")

// Deliver delivers one message. It may be called again for a delivered message, and must return when its context ends.
type Deliver func(ctx context.Context, m store.Message) error

// Store is the stored outbox. store.Outbox implements it.
type Store interface {
	ClaimMessages(ctx context.Context, c store.Claiming) ([]store.Message, error)
	RemoveMessage(ctx context.Context, m store.Message) error
	Retry(ctx context.Context, m store.Message, after time.Duration, cause string) error
}

const (
	deliverTimeout = 30 * time.Second // time limit of one delivery; a claim lives twice as long
	recordTimeout  = 5 * time.Second  // time limit of recording the result
	pollInterval   = time.Second      // interval between two searches for due messages
	outagePause    = 5 * time.Second  // the pause while the store does not answer
	lanes          = 16               // limit of concurrent deliveries of one kind

	firstPause, longestPause = time.Second, time.Hour
	ownPause                 = time.Minute     // the longest pause between deliveries of RegisterOwn
	flushPause               = 5 * time.Second // the longest pause after a Flush whose time ran out
)

// Outbox delivers messages by their kinds. It is safe for concurrent use.
type Outbox struct {
	Store Store
	Log   *slog.Logger

	mu    sync.Mutex
	kinds map[string]*kind
}

// kind is a kind of message. Kinds are delivered independently.
type kind struct {
	name    string
	deliver Deliver
	within  time.Duration
	pause   time.Duration // the longest pause between two deliveries
	wake    chan struct{}
}

// claim returns the lifetime of a claim. It is longer than a delivery. After a crash, the next delivery begins when
// the claim expires.
func (k *kind) claim() time.Duration { return 2 * k.within }

// New returns an outbox over a store. It delivers nothing until Run or Flush is called.
func New(s Store, log *slog.Logger) *Outbox {
	return &Outbox{Store: s, Log: log, kinds: map[string]*kind{}}
}

// Register sets the function that delivers messages of a kind to others. It is called before Run.
func (o *Outbox) Register(name string, deliver Deliver) {
	o.register(&kind{name: name, deliver: deliver, within: deliverTimeout, pause: longestPause})
}

// RegisterOwn is Register for deliveries to a part of Berth, such as the message store. It is retried every minute, so
// that an outage ends for each message soon after it ended. With a shorter time limit, messages are also retried sooner
// after a crash; zero is the default.
func (o *Outbox) RegisterOwn(name string, within time.Duration, deliver Deliver) {
	o.register(&kind{name: name, deliver: deliver, within: cmp.Or(within, deliverTimeout), pause: ownPause})
}

func (o *Outbox) register(k *kind) {
	k.wake = make(chan struct{}, 1)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kinds[k.name] = k
}

func (o *Outbox) registered() []*kind {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Values(o.kinds))
}

// Kinds returns the registered kinds.
func (o *Outbox) Kinds() []string {
	var names []string
	for _, k := range o.registered() {
		names = append(names, k.name)
	}
	slices.Sort(names)
	return names
}

// Wake hints that there are new messages of a kind.
func (o *Outbox) Wake(name string) {
	o.mu.Lock()
	k := o.kinds[name]
	o.mu.Unlock()
	if k == nil {
		return
	}
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Run delivers due messages until the context ends, and returns when running deliveries have ended.
func (o *Outbox) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, k := range o.registered() {
		wg.Go(func() { o.run(ctx, k) })
	}
	wg.Wait()
}

// run delivers the messages of one kind, up to lanes at once. A slow delivery does not block free lanes.
func (o *Outbox) run(ctx context.Context, k *kind) {
	free := make(chan struct{}, lanes)
	for range lanes {
		free <- struct{}{}
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		n, err := o.claim(ctx, k, free, &wg)
		pause := pollInterval
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			o.Log.WarnContext(ctx, "read the outbox", "kind", k.name, "error", err)
			pause = outagePause
		case n > 0:
			continue // there may be more
		}
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		case <-time.After(pause):
		}
	}
}

// claim claims as many messages as there are free lanes, at least one, and starts their deliveries. It waits for a
// free lane.
func (o *Outbox) claim(ctx context.Context, k *kind, free chan struct{}, wg *sync.WaitGroup) (int, error) {
	select {
	case <-ctx.Done():
		return 0, nil
	case <-free:
	}
	room := 1
	for room < lanes && len(free) > 0 {
		<-free
		room++
	}
	claimed, err := o.Store.ClaimMessages(ctx, store.Claiming{Kind: k.name, Limit: room, TTL: k.claim()})
	for range room - len(claimed) {
		free <- struct{}{}
	}
	for _, m := range claimed {
		wg.Go(func() {
			_ = o.deliver(ctx, k, m) // the result is recorded, and failures are retried
			free <- struct{}{}
		})
	}
	return len(claimed), err
}

// Flush delivers all messages about ref now, in the order of their creation, including those whose retry is not due.
// It returns the first failure of each kind.
func (o *Outbox) Flush(ctx context.Context, ref string) error {
	if ref == "" {
		return nil
	}
	var failed []error
	for _, k := range o.registered() {
		claimed, err := o.Store.ClaimMessages(ctx, store.Claiming{Kind: k.name, Ref: ref, Limit: lanes, TTL: k.claim()})
		for len(claimed) > 0 && err == nil {
			for i, m := range claimed {
				if err = o.deliver(ctx, k, m); err != nil {
					o.release(ctx, claimed[i+1:])
					break
				}
			}
			if err == nil {
				claimed, err = o.Store.ClaimMessages(ctx, store.Claiming{Kind: k.name, Ref: ref, Limit: lanes, TTL: k.claim()})
			}
		}
		failed = append(failed, err)
		if ctx.Err() != nil {
			break // the other kinds would only say that there is no time left
		}
	}
	return errors.Join(failed...)
}

// release returns claimed messages that were not tried to the outbox.
func (o *Outbox) release(ctx context.Context, claimed []store.Message) {
	for _, m := range claimed {
		o.record(ctx, m, func(ctx context.Context) error { return o.Store.Retry(ctx, m, 0, m.LastError) })
	}
}
