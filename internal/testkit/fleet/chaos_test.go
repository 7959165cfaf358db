package fleet_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fleet"
)

// chaos applies faults to the servers while clients work.
type chaos struct {
	f    *fleet.Fleet
	dice *rand.Rand
	done chan struct{}
	t    *testing.T
}

// begin applies the faults in the background until the returned function is called.
func (c *crowd) begin(faults func(*chaos)) (end func()) {
	if faults == nil {
		return func() {}
	}
	x := &chaos{f: c.f, dice: rand.New(rand.NewPCG(c.seed, 1<<32)), done: make(chan struct{}), t: c.T}
	var wg sync.WaitGroup
	wg.Go(func() { faults(x) })
	return func() { close(x.done); wg.Wait() }
}

// every calls do repeatedly, with pauses of about the given length, until the clients are done.
func (x *chaos) every(pause time.Duration, do func() error) {
	for {
		select {
		case <-x.done:
			return
		case <-time.After(pause/2 + time.Duration(x.dice.Int64N(int64(pause)))):
		}
		if err := do(); err != nil {
			x.t.Error(err)
			return
		}
	}
}

// faults makes calls of the driver fail, before and after their effect.
func (x *chaos) faults() {
	ops := []fake.Op{fake.Create, fake.Destroy, fake.Stop, fake.Start, fake.List, fake.Inspect}
	kinds := []string{"unreachable", "transient", "error"}
	left := testkit.Size(x.t, "i13.operations") / 10 // limits the faults on a slow machine
	x.every(300*time.Millisecond, func() error {
		if left--; left < 0 {
			return nil
		}
		var faults []fake.Fault
		for range 1 + x.dice.IntN(3) {
			faults = append(faults, fake.Fault{
				Op: ops[x.dice.IntN(len(ops))], Error: kinds[x.dice.IntN(len(kinds))],
				After: x.dice.IntN(2) == 0, Slow: time.Duration(x.dice.IntN(5)) * time.Millisecond, Times: 1 + x.dice.IntN(5),
			})
		}
		return fake.SetFaults(x.f.Dir, faults)
	})
	if err := fake.SetFaults(x.f.Dir, nil); err != nil {
		x.t.Error(err)
	}
}

func (x *chaos) kill() {
	x.every(time.Second, func() error {
		i := x.dice.IntN(3)
		x.f.Kill(i)
		return x.f.Start(i)
	})
}

// pause pauses servers for longer than their leases last. Create calls are slow, so that a pause can fall into one.
func (x *chaos) pause() {
	if err := fake.SetFaults(x.f.Dir, []fake.Fault{{Op: fake.Create, Slow: 20 * time.Millisecond}}); err != nil {
		x.t.Error(err)
	}
	x.every(2*time.Second, func() error {
		i := x.dice.IntN(3)
		x.f.Pause(i)
		<-time.After(1300 * time.Millisecond)
		x.f.Resume(i)
		return nil
	})
}

func (x *chaos) reset() {
	x.every(1500*time.Millisecond, func() error {
		if err := x.f.Database.Reset(0.3, 5*time.Millisecond); err != nil {
			return err
		}
		<-time.After(100 * time.Millisecond)
		return x.f.Database.Heal()
	})
}
