package fleet_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fleet"
	"golang.org/x/sync/errgroup"
)

// Owners make and delete their sandboxes and change files in them. At the same time servers are killed or paused for
// longer than their leases, the database is cut off or silent, the driver is slow and loses replies and instances, and
// the object store refuses, hangs or gives false answers. No owner ever has two instances, every acknowledged effect is
// present or reported as lost, and soon after the last fault everything is settled and saved.
func TestOneMachinePerOwnerUnderEveryFault(t *testing.T) {
	testkit.Proves(t, "O1", "O2", "O6", "S18")
	t.Parallel()
	o := newOwners(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var clients sync.WaitGroup
	const each = 2 // owners of each client, which sends one request at a time
	for i := range testkit.Size(t, "owners.owners") / each {
		clients.Go(func() { o.work(ctx, i, each) })
	}
	o.faults()
	last := time.Now()
	cancel()
	clients.Wait()
	if err := eventually(last.Add(o.settle), func() error { return o.f.Unsettled(t.Context()) }); err != nil {
		t.Errorf("not settled %v after the last fault: %v", o.settle, err)
	}
	t.Logf("settled %v after the last fault; leases last %v", time.Since(last).Round(time.Millisecond), o.lease)
	o.check("after the faults")
	testkit.Eventually(t, 2*time.Minute, o.unsaved)
	t.Logf("saved %v after the last fault", time.Since(last).Round(time.Millisecond))
	o.loseAll()
	o.check("after the loss of every instance")
	o.summary()
}

// eventually is like testkit.Eventually, but returns the error, so that the test can continue after a failure.
func eventually(end time.Time, check func() error) error {
	for {
		err := check()
		if err == nil || time.Now().After(end) {
			return err
		}
		<-time.After(50 * time.Millisecond)
	}
}

// owners is a set of clients that use sandboxes, each for different owners, with the acknowledged effects.
type owners struct {
	*testing.T
	f             *fleet.Fleet
	lease, settle time.Duration
	pace          time.Duration // maximum pause between two requests of a client

	mu       sync.Mutex
	boxes    map[string]*box // by owner
	done     int             // number of acknowledged requests
	pauses   []pause
	vanished map[string][]time.Time // times of lost instances, by sandbox
	there    int                    // number of acknowledged changes of files that were found
	lost     int                    // number of acknowledged changes of files that were lost and reported
}

const requestTimeout = 10 * time.Second

// newOwners starts three servers. A short run has shorter leases than a torture run, and less time to settle.
func newOwners(t *testing.T) *owners {
	o := &owners{T: t, lease: 5 * time.Second, settle: 20 * time.Second, pace: 50 * time.Millisecond, boxes: map[string]*box{}, vanished: map[string][]time.Time{}}
	if testkit.Torture() {
		o.lease, o.settle, o.pace = 15*time.Second, 30*time.Second, 2*time.Second
	}
	o.f = fleet.New(t, fleet.Options{
		Replicas: 3, Faulty: true, Files: true, LeaseTTL: o.lease,
		Env: []string{
			"BERTH_LOG_LEVEL=error", "BERTH_REQUEST_TIMEOUT=" + requestTimeout.String(), "BERTH_SAVE_AFTER=1s", "BERTH_SAVE_EVERY=3s",
			"BERTH_SANDBOX_HEALTH_CHECK_INTERVAL=5s", "BERTH_SWEEP_INTERVAL=5s",
		},
	})
	return o
}

// box is the last confirmed sandbox of an owner. Only the owner's client uses it.
type box struct {
	id      string
	deleted bool
	doubt   bool // a request was not answered: the owner may have another sandbox, or none
	files   map[string]*file
	next    int // number in the name of the newest file
}

// work sends requests for some owners until the context ends.
func (o *owners) work(ctx context.Context, number, each int) {
	dice := rand.New(rand.NewPCG(uint64(number), 7))
	c := o.f.Any(client.WithAttempts(3))
	for ctx.Err() == nil {
		owner := fmt.Sprintf("owner-%d-%d", number, dice.IntN(each))
		b := o.box(owner)
		var err error
		switch n := dice.IntN(100); {
		case b.id == "" || b.deleted || n < 15:
			err = o.ensure(ctx, c, owner)
		case n < 22:
			err = o.remove(ctx, c, b, dice)
		case n < 65:
			err = o.write(ctx, c, b)
		case n < 75:
			err = o.removeFile(ctx, c, b)
		default:
			err = o.look(ctx, c, b)
		}
		if err == nil {
			o.mu.Lock()
			o.done++
			o.mu.Unlock()
		}
		<-time.After(rand.N(o.pace))
	}
}

func (o *owners) box(owner string) *box {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.boxes[owner] == nil {
		o.boxes[owner] = &box{}
	}
	return o.boxes[owner]
}

// ensure requests the owner's sandbox. The test fails if the id changed without a delete.
func (o *owners) ensure(ctx context.Context, c *client.Client, owner string) error {
	b := o.box(owner)
	s, _, err := c.Sandboxes.Create(ctx, api.CreateSandbox{Name: owner})
	switch {
	case err != nil:
		b.doubt = b.doubt || b.id == "" || b.deleted
	case s.ID == b.id && b.deleted:
		o.Errorf("%s: %s was deleted, and is there again", owner, s.ID)
	case s.ID == b.id:
		b.doubt = false
	case b.id != "" && !b.deleted && !b.doubt:
		o.Errorf("%s: has %s without a delete of %s", owner, s.ID, b.id)
	default:
		o.mu.Lock()
		o.boxes[owner] = &box{id: s.ID, files: map[string]*file{}}
		o.mu.Unlock()
	}
	return err
}

// remove deletes the sandbox, in half of the cases without a last save. In half of the cases the client does not wait
// for the answer, so that its next request arrives during the delete.
func (o *owners) remove(ctx context.Context, c *client.Client, b *box, dice *rand.Rand) error {
	var opts []client.EndOption
	if dice.IntN(2) == 0 {
		opts = append(opts, client.SkipSave())
	}
	if dice.IntN(2) == 0 {
		brief, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
		defer cancel()
		ctx = brief
	}
	err := c.Sandboxes.Delete(ctx, b.id, opts...)
	b.noteDeleted(err)
	b.deleted, b.doubt = b.deleted || err == nil, b.doubt || err != nil && !b.deleted
	return err
}

// noteDeleted marks the sandbox as deleted if the error has the code "deleted".
func (b *box) noteDeleted(err error) {
	if codeOf(err) == api.CodeDeleted {
		b.deleted, b.doubt = true, false
	}
}

// check compares every acknowledged effect with the actual state.
func (o *owners) check(when string) {
	lives := o.f.Lives()
	if found := fleet.Overlaps(lives, o.stray); len(found) > 0 {
		o.Errorf("%s: an owner had two at once: %v; servers stood still: %+v", when, found, o.pauses)
	}
	live := map[string]bool{}
	for _, l := range lives {
		if l.To.IsZero() {
			live[l.Key.Sandbox] = true
		}
	}
	var g errgroup.Group
	g.SetLimit(16)
	for owner, b := range o.boxes {
		g.Go(func() error {
			o.checkOwner(when, owner, b, live)
			return nil
		})
	}
	_ = g.Wait() // checkOwner reports failures itself
}

func (o *owners) checkOwner(when, owner string, b *box, live map[string]bool) {
	c := o.f.Any(client.WithAttempts(always))
	s, err := c.Sandboxes.Get(o.Context(), owner)
	same := err == nil && s.ID == b.id
	switch {
	case b.deleted && (live[b.id] || same):
		o.Errorf("%s: the delete for %s of %s was confirmed: %+v, at the driver: %v", when, owner, b.id, s, live[b.id])
	case !b.deleted && !b.doubt && b.id != "" && !(same && live[b.id]):
		o.Errorf("%s: %s was confirmed to have %s: %+v, %v, at the driver: %v", when, owner, b.id, s, err, live[b.id])
	case same && !b.deleted:
		if err := o.look(o.Context(), c, b); err != nil && codeOf(err) != api.CodeDeleted {
			o.Errorf("%s: read the files of %s (%s): %v", when, owner, b.id, err)
		}
		o.contents(c, owner, b)
	}
}

// unsaved returns an error that names a running sandbox with unsaved changes, or nil if there is none.
func (o *owners) unsaved() error {
	for s, err := range o.f.Any().Sandboxes.List(o.Context(), client.SandboxFilter{}) {
		if err != nil {
			return err
		}
		if s.UnsavedSince != nil && s.State == "running" {
			return fmt.Errorf("%s (%s) is unsaved since %v: %+v", s.ID, s.Owner.ID, s.UnsavedSince, s.SaveError)
		}
	}
	return nil
}

// stray reports whether an instance was made by a call during which its server was paused and lost the lease. No server
// can prevent such an instance; it is ended afterwards.
func (o *owners) stray(l fake.Life) bool {
	if l.From.Sub(l.Asked) > o.lease/2 {
		return true
	}
	for _, p := range o.pauses {
		if p.pid == l.PID && l.Asked.Before(p.to.Add(o.lease/5)) && l.From.After(p.to) && l.From.Before(p.to.Add(o.lease/2)) {
			return true
		}
	}
	return false
}

func (o *owners) summary() {
	lives, doubts := o.f.Lives(), 0
	strays := len(fleet.Overlaps(lives, nil))
	for _, b := range o.boxes {
		if b.doubt {
			doubts++
		}
	}
	losses := 0
	for _, times := range o.vanished {
		losses += len(times)
	}
	spoilt, total := o.f.Objects.Hits()
	o.Logf("%d instances of %d owners, %d lost by the driver, %d overlapped another until the server that had stood still ended it", len(lives), len(o.boxes), losses, strays)
	o.Logf("%d requests acknowledged, %d owners in doubt at the end; %d requests of the object store, spoilt %v", o.done, doubts, total, spoilt)
	o.Logf("changes of files that were acknowledged: %d there, %d lost and reported", o.there, o.lost)
	if len(lives) < len(o.boxes) || o.done < len(o.boxes) || o.there < len(o.boxes) || losses == 0 {
		o.Error("too little happened")
	}
}
