package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fleet"
)

// Owners make and delete their sandboxes while servers are killed and stopped past their leases, the database
// is cut off and silent, and the driver is slow and loses replies. No owner ever has two instances, what was
// acknowledged is there, and soon after the last fault everything is settled.
func TestOneMachinePerOwnerUnderEveryFault(t *testing.T) {
	testkit.Proves(t, "O1", "O2", "O6")
	t.Parallel()
	o := &owners{
		T: t, lease: 3 * time.Second, last: map[string]acknowledged{},
		f: fleet.New(t, fleet.Options{
			Replicas: 3, Faulty: true, LeaseTTL: 3 * time.Second,
			Env: append(slices.Clone(quiet), "BERTH_REQUEST_TIMEOUT=10s", "BERTH_OBJECT_STORE=none"),
		}),
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var clients sync.WaitGroup
	const each = 2 // owners of a client: their requests come one after the other
	for i := range testkit.Size(t, "owners.owners") / each {
		clients.Go(func() { o.work(ctx, i, each) })
	}
	o.faults()
	cancel()
	clients.Wait()
	began := time.Now()
	testkit.Eventually(t, 2*time.Minute, func() error { return o.f.Unsettled(t.Context()) })
	t.Logf("settled %v after the last request; leases last %v", time.Since(began).Round(time.Millisecond), o.lease)
	o.check()
}

// owners are clients that make and delete sandboxes, each for owners of its own, and what they were told.
type owners struct {
	*testing.T
	f     *fleet.Fleet
	lease time.Duration

	mu     sync.Mutex
	last   map[string]acknowledged // by owner
	done   int                     // requests that were acknowledged
	pauses []pause
}

// acknowledged is the last thing that an owner was told; in doubt after a request that was not answered.
type acknowledged struct {
	id      string
	deleted bool
	doubt   bool
}

// pause is a time in which a server stood still.
type pause struct {
	pid      int
	from, to time.Time
}

func (o *owners) work(ctx context.Context, client0, each int) {
	dice := rand.New(rand.NewPCG(uint64(client0), 7))
	c := o.f.Any(client.WithAttempts(3))
	for ctx.Err() == nil {
		owner := fmt.Sprintf("owner-%d-%d", client0, dice.IntN(each))
		o.mu.Lock()
		was := o.last[owner]
		o.mu.Unlock()
		now, err := was, error(nil)
		if was.id != "" && !was.deleted && dice.IntN(2) == 0 {
			err = o.remove(ctx, c, was.id, dice.IntN(2) == 0)
			now.deleted = true
		} else {
			var s api.Sandbox
			s, _, err = c.Sandboxes.Create(ctx, api.CreateSandbox{Name: owner})
			now = acknowledged{id: s.ID}
		}
		switch code := codeOf(err); {
		case err == nil:
			now.doubt = false
		case code == api.CodeDeleted: // an attempt before it was done
			now.deleted, now.doubt = true, false
		default:
			now = acknowledged{id: was.id, deleted: was.deleted, doubt: true}
		}
		o.mu.Lock()
		if o.last[owner] = now; !now.doubt {
			o.done++
		}
		o.mu.Unlock()
	}
}

// remove deletes a sandbox. A hasty client does not wait for its end: what it asks next meets the delete
// under way.
func (o *owners) remove(ctx context.Context, c *client.Client, id string, hasty bool) error {
	if hasty {
		brief, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
		defer cancel()
		ctx = brief
	}
	return c.Sandboxes.Delete(ctx, id)
}

// faults happen one after the other, with a moment without any between them.
func (o *owners) faults() {
	dice := rand.New(rand.NewPCG(11, 13))
	kinds := []func(int) error{o.kill, o.pause, o.cut, o.silence, o.slowDriver, o.lostReplies}
	for n := range testkit.Size(o, "owners.faults") {
		<-time.After(500 * time.Millisecond)
		if err := kinds[n%len(kinds)](dice.IntN(3)); err != nil {
			o.Fatal(err)
		}
	}
	if err := errors.Join(fake.SetFaults(o.f.Dir, nil), o.f.Database.Heal()); err != nil {
		o.Fatal(err)
	}
	<-time.After(2 * time.Second)
}

func (o *owners) kill(i int) error {
	o.f.Kill(i)
	return o.f.Start(i)
}

func (o *owners) pause(i int) error {
	p := pause{pid: o.f.PID(i), from: time.Now()}
	o.f.Pause(i)
	<-time.After(o.lease + o.lease/2)
	o.f.Resume(i)
	p.to = time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pauses = append(o.pauses, p)
	return nil
}

func (o *owners) cut(int) error {
	o.f.Database.Cut()
	<-time.After(o.lease + time.Second)
	return o.f.Database.Heal()
}

func (o *owners) silence(int) error {
	if err := o.f.Database.Swallow(); err != nil {
		return err
	}
	<-time.After(o.lease + time.Second)
	return o.f.Database.Heal()
}

func (o *owners) slowDriver(int) error {
	return o.driverFor(2*time.Second, fake.Fault{Op: fake.Destroy, Slow: 800 * time.Millisecond}, fake.Fault{Op: fake.Create, Slow: 100 * time.Millisecond})
}

func (o *owners) lostReplies(int) error {
	return o.driverFor(2*time.Second, fake.Fault{Op: fake.Create, Error: "transient", After: true, Times: 10},
		fake.Fault{Op: fake.Destroy, Error: "unreachable", After: true, Times: 10}, fake.Fault{Op: fake.Destroy, Error: "unreachable", Times: 10})
}

func (o *owners) driverFor(d time.Duration, faults ...fake.Fault) error {
	if err := fake.SetFaults(o.f.Dir, faults); err != nil {
		return err
	}
	<-time.After(d)
	return fake.SetFaults(o.f.Dir, nil)
}

// stray says whether an instance was made by a server that had stood still and lost its lease.
func (o *owners) stray(l fake.Life) bool {
	return l.From.Sub(l.Asked) > o.lease/2 || slices.ContainsFunc(o.pauses, func(p pause) bool {
		return p.pid == l.PID && l.From.After(p.from) && l.From.Before(p.to.Add(o.lease))
	})
}

// check looks at what became of everything that was acknowledged.
func (o *owners) check() {
	lives := o.f.Lives()
	if found := fleet.Overlaps(lives, o.stray); len(found) > 0 {
		o.Errorf("an owner had two at once: %v", found)
	}
	live := map[string]bool{}
	for _, l := range lives {
		if l.To.IsZero() {
			live[l.Key.Sandbox] = true
		}
	}
	c, doubts := o.f.Any(client.WithAttempts(always)), 0
	for owner, was := range o.last {
		s, err := c.Sandboxes.Get(o.Context(), owner)
		switch {
		case was.doubt:
			doubts++
		case was.deleted && (live[was.id] || err == nil && s.ID == was.id):
			o.Errorf("%s was told that %s is deleted: %+v, %v, at the driver: %v", owner, was.id, s, err, live[was.id])
		case !was.deleted && (err != nil || s.ID != was.id || !live[was.id]):
			o.Errorf("%s was told that it has %s: %+v, %v, at the driver: %v", owner, was.id, s, err, live[was.id])
		}
	}
	o.Logf("%d instances of %d owners, %d requests acknowledged, %d owners in doubt at the end", len(lives), len(o.last), o.done, doubts)
	if len(lives) < len(o.last) || o.done < len(o.last) {
		o.Error("too little happened")
	}
}
