package fleet_test

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/s3test"
)

// pause is a period in which a server was paused.
type pause struct {
	pid      int
	from, to time.Time
}

// faults applies faults in three lanes at once: to servers, database and driver; to the object store; to instances,
// which are lost. In each lane one fault follows the other.
func (o *owners) faults() {
	done := make(chan struct{})
	var lanes sync.WaitGroup
	lanes.Go(func() { o.storeFaults(done) })
	lanes.Go(func() { o.losses(done) })
	dice := rand.New(rand.NewPCG(11, 13))
	kinds := []func(int) error{o.kill, o.pause, o.cut, o.silence, o.slowDriver, o.lostReplies}
	for n := range testkit.Size(o, "owners.faults") {
		<-time.After(500 * time.Millisecond)
		if err := kinds[n%len(kinds)](dice.IntN(3)); err != nil {
			o.Error(err)
			break
		}
	}
	close(done)
	lanes.Wait()
	o.f.Objects.Set(s3test.Faults{})
	if err := errors.Join(fake.SetFaults(o.f.Dir, nil), o.f.Database.Heal()); err != nil {
		o.Fatal(err)
	}
}

func (o *owners) kill(i int) error {
	o.f.Kill(i)
	return o.f.Start(i)
}

func (o *owners) pause(i int) error {
	p := pause{pid: o.f.PID(i), from: time.Now()}
	o.f.Pause(i)
	<-time.After(o.lease + o.lease/2)
	p.to = time.Now() // before Resume, because interrupted calls may end right after it
	o.f.Resume(i)
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

// storeFaults makes the object store refuse, hang and give false answers, with periods without faults in between.
func (o *owners) storeFaults(done <-chan struct{}) {
	kinds := []s3test.Faults{
		{Error: 1},
		{Hung: 1},
		{Missing: 1, Only: func(r *http.Request) bool { return !r.URL.Query().Has("list-type") }}, // lists stay correct
		{Lost: 0.1, Disowned: 0.1, Truncated: 0.1, Empty: 0.1, Deaf: 0.1},
		{Slow: 0.5, Delay: 500 * time.Millisecond, Missing: 0.05},
	}
	dice := rand.New(rand.NewPCG(23, 29))
	for n := 0; ; n++ {
		for _, f := range []s3test.Faults{kinds[n%len(kinds)], {}} {
			o.f.Objects.Set(f)
			if f.Missing == 1 { // restores fail now, so lost instances need them
				o.loseSome(dice, testkit.Size(o, "owners.owners")/4)
			}
			select {
			case <-done:
				return
			case <-time.After(o.lease * 2 / 5):
			}
		}
	}
}

// mostLosses is the maximum number of instances that one sandbox loses before the end of the faults. The servers stop
// retrying a sandbox that loses more.
const mostLosses = 2

// losses makes random instances vanish with their files until done is closed.
func (o *owners) losses(done <-chan struct{}) {
	dice := rand.New(rand.NewPCG(17, 19))
	for {
		select {
		case <-done:
			return
		case <-time.After(time.Duration(100+dice.IntN(400)) * time.Millisecond):
		}
		o.loseSome(dice, 1)
	}
}

// loseSome makes n random instances vanish.
func (o *owners) loseSome(dice *rand.Rand, n int) {
	live, err := o.f.Driver.Live()
	if err != nil {
		o.Error(err)
	}
	dice.Shuffle(len(live), func(i, j int) { live[i], live[j] = live[j], live[i] })
	for _, st := range live[:min(n, len(live))] {
		o.lose(st.Key.Sandbox, func() error { return o.f.Driver.Vanish(st.ID) })
	}
}

// lose makes an instance of the sandbox vanish and records the time. It does nothing if the sandbox has lost
// mostLosses instances.
func (o *owners) lose(sandbox string, vanish func() error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := time.Now()
	if len(o.vanished[sandbox]) < mostLosses && vanish() == nil {
		o.vanished[sandbox] = append(o.vanished[sandbox], at)
	}
}

// loseAll makes every instance vanish and waits until the servers have replaced them. All files must be saved before.
func (o *owners) loseAll() {
	live, err := o.f.Driver.Live()
	if err != nil {
		o.Fatal(err)
	}
	for _, st := range live {
		if err := o.f.Driver.Vanish(st.ID); err != nil {
			o.Error(err)
		}
	}
	testkit.Eventually(o, 2*time.Minute, func() error { return o.f.Unsettled(o.Context()) })
}
