// Package outbox delivers what was written into the store's outbox, at least once, whatever dies meanwhile.
//
// Who has something to deliver writes it in the transaction that makes it true ([store.Scope.Enqueue]), and
// registers here how its kind is delivered ([Outbox.Register]). [Outbox.Run] brings each message there,
// again and again with growing pauses, on any server. [Outbox.Wake] hints that there is something new;
// [Outbox.Flush] delivers at once what is about one thing.
package outbox

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/berthdev/berth/internal/store"
)

// ErrDrop is, or is in, the error of a delivery that is not to be tried again. The message is lost.
var ErrDrop = errors.New("not delivered again")

// Deliver brings one message to where it belongs. It may be called again for a message that it delivered,
// and must end with its context.
type Deliver func(ctx context.Context, m store.Message) error

// Store is the outbox itself. A *store.DB is one.
type Store interface {
	ClaimMessages(ctx context.Context, c store.Claiming) ([]store.Message, error)
	Delivered(ctx context.Context, m store.Message) error
	Retry(ctx context.Context, m store.Message, after time.Duration, cause string) error
}

const (
	deliverFor = 30 * time.Second // one delivery; a claim lives twice as long
	recordFor  = 5 * time.Second  // writing down what became of it
	poll       = time.Second      // how soon a message is seen that nobody hinted at
	outage     = 5 * time.Second  // the pause while the store does not answer
	lanes      = 16               // deliveries of one kind at once

	firstPause, longestPause = time.Second, time.Hour
	hurriedPause             = 5 * time.Second // at most, after a Flush whose time ran out
)

// Outbox delivers messages by their kinds. It is safe for concurrent use.
type Outbox struct {
	Store Store
	Log   *slog.Logger

	mu    sync.Mutex
	kinds map[string]*kind
}

// kind is a kind of messages; one has no part in the troubles of another.
type kind struct {
	name    string
	deliver Deliver
	within  time.Duration
	wake    chan struct{}
}

// claim is how long a message is nobody else's. Its delivery is over well before that, and when a server dies
// in the middle of one, the next begins as late as that.
func (k *kind) claim() time.Duration { return 2 * k.within }

// New returns an outbox over a store. It delivers nothing by itself; see Run.
func New(s Store, log *slog.Logger) *Outbox {
	return &Outbox{Store: s, Log: log, kinds: map[string]*kind{}}
}

// Register says how messages of a kind are delivered, before Run is called.
func (o *Outbox) Register(name string, deliver Deliver) { o.RegisterWithin(name, deliverFor, deliver) }

// RegisterWithin is Register for what is delivered in less time: the sooner it is tried again after a crash.
func (o *Outbox) RegisterWithin(name string, within time.Duration, deliver Deliver) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kinds[name] = &kind{name: name, deliver: deliver, within: within, wake: make(chan struct{}, 1)}
}

func (o *Outbox) registered() []*kind {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Values(o.kinds))
}

// Kinds are the kinds that are registered.
func (o *Outbox) Kinds() []string {
	var names []string
	for _, k := range o.registered() {
		names = append(names, k.name)
	}
	slices.Sort(names)
	return names
}

// Wake hints that there is something to deliver of a kind.
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

// Run delivers what is due until the context ends, and returns when what it began is over.
func (o *Outbox) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, k := range o.registered() {
		wg.Go(func() { o.run(ctx, k) })
	}
	wg.Wait()
}

// run delivers the messages of one kind, as many at once as there are lanes, and never waits for a slow one
// while there is a lane free.
func (o *Outbox) run(ctx context.Context, k *kind) {
	free := make(chan struct{}, lanes)
	for range lanes {
		free <- struct{}{}
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		n, err := o.claim(ctx, k, free, &wg)
		pause := poll
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			o.Log.WarnContext(ctx, "read the outbox", "kind", k.name, "error", err)
			pause = outage
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

// claim takes as many messages as there are lanes free, at least one, and begins their deliveries.
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
			_ = o.bring(ctx, k, m) // it is written down, and tried again
			free <- struct{}{}
		})
	}
	return len(claimed), err
}

// Flush delivers now what is about ref, also what would be tried again only later, in the order in which it
// was made. It returns what could not be delivered.
func (o *Outbox) Flush(ctx context.Context, ref string) error {
	if ref == "" {
		return nil
	}
	var failed []error
	for _, k := range o.registered() {
		claimed, err := o.Store.ClaimMessages(ctx, store.Claiming{Kind: k.name, Ref: ref, Limit: lanes, TTL: k.claim()})
		for len(claimed) > 0 && err == nil {
			for i, m := range claimed {
				if err = o.bring(ctx, k, m); err != nil {
					o.release(ctx, claimed[i+1:])
					break
				}
			}
			if err == nil {
				claimed, err = o.Store.ClaimMessages(ctx, store.Claiming{Kind: k.name, Ref: ref, Limit: lanes, TTL: k.claim()})
			}
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// release gives back what was claimed and not tried.
func (o *Outbox) release(ctx context.Context, claimed []store.Message) {
	for _, m := range claimed {
		o.record(ctx, m, func(ctx context.Context) error { return o.Store.Retry(ctx, m, 0, m.LastError) })
	}
}
