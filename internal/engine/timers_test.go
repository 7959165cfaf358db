package engine_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
)

// tick is how often the engine scans for due sandboxes in these tests.
const tick = 5 * time.Second

// virtual is a server in virtual time: the real engine on a store and a driver in memory.
type virtual struct {
	*engine.Engine
	mem   *memory
	boxes *machines
	saves atomic.Int64
	began time.Time
}

// saver is a Restorer that counts.
type saver struct{ v *virtual }

func (s saver) Restore(_ context.Context, sb sandbox.Sandbox, _ driver.ID) (sandbox.SyncMark, error) {
	return sb.Synced, nil
}

func (s saver) Save(_ context.Context, sb sandbox.Sandbox) (sandbox.SyncMark, error) {
	return sandbox.SyncMark{Version: fmt.Sprint("v", s.v.saves.Add(1)), Incarnation: sb.Incarnation}, nil
}

func inMemory(change ...func(*engine.Options)) *virtual {
	v := &virtual{mem: newMemory(), boxes: newMachines(), began: time.Now()}
	o := engine.Options{
		Store: v.mem, Drivers: map[string]driver.Driver{"memory": v.boxes}, Restorer: saver{v},
		Defaults: sandbox.Spec{Template: "none", Driver: "memory", Profile: "standard"}, LeaseTTL: v.mem.ttl,
	}
	for _, c := range change {
		c(&o)
	}
	v.Engine = engine.New(o)
	return v
}

// run has the engine work in the background until the returned function is called.
func (v *virtual) run(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); v.Run(ctx, tick) }()
	return func() {
		cancel()
		<-ended
		v.Quiesce(context.Background())
	}
}

// pass lets time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (v *virtual) ensure(t *testing.T, kind sandbox.OwnerKind, id string) sandbox.Sandbox {
	t.Helper()
	s, _, err := v.Ensure(t.Context(), engine.Request{Owner: sandbox.Owner{Tenant: "default", Kind: kind, ID: id}, Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (v *virtual) row(t *testing.T, id string) sandbox.Sandbox {
	t.Helper()
	s, err := v.mem.Sandbox(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// history is what was recorded of a sandbox, oldest first.
func (v *virtual) history(id string) []sandbox.Transition {
	v.mem.mu.Lock()
	defer v.mem.mu.Unlock()
	return slices.Clone(v.mem.history[id])
}

// since is when an event was first recorded after the given time, counted from it; none is negative.
func (v *virtual) since(id string, from time.Time, ev sandbox.Event) time.Duration {
	for _, h := range v.history(id) {
		if h.Event == ev && !h.At.Before(from) {
			return h.At.Sub(from)
		}
	}
	return -1
}

// expect fails unless each event came when it should, or a look later; a negative time is never.
func (v *virtual) expect(t *testing.T, id string, from time.Time, events map[sandbox.Event]time.Duration) {
	t.Helper()
	for ev, want := range events {
		got := v.since(id, from, ev)
		if want < 0 && got >= 0 || want >= 0 && (got < want || got > want+2*tick) {
			t.Errorf("%s came after %s, not %s", ev, got, want)
		}
	}
}

const never = -1

// Two days of every kind of owner: the timers of each, and nothing else, act on idle sandboxes.
func TestTimersOfEveryOwnerKind(t *testing.T) {
	testkit.Proves(t, "T6", "P4")
	synctest.Test(t, func(t *testing.T) {
		v := inMemory()
		stop := v.run(t)
		defer stop()
		first := map[sandbox.OwnerKind]sandbox.Sandbox{}
		for _, kind := range sandbox.OwnerKinds {
			first[kind] = v.ensure(t, kind, "x")
		}
		pass(49 * time.Hour)
		thread := map[sandbox.Event]time.Duration{sandbox.EventHalted: 5 * time.Minute, sandbox.EventArchive: time.Hour, sandbox.EventEnded: 48 * time.Hour}
		others := map[sandbox.Event]time.Duration{sandbox.EventHalted: 15 * time.Minute, sandbox.EventArchive: 24 * time.Hour, sandbox.EventEnded: never}
		none := map[sandbox.Event]time.Duration{sandbox.EventHalted: never, sandbox.EventStop: never, sandbox.EventArchive: never, sandbox.EventEnded: never, sandbox.EventSick: never}
		v.expect(t, first[sandbox.OwnerThread].ID, v.began, thread)
		v.expect(t, first[sandbox.OwnerConversation].ID, v.began, others)
		v.expect(t, first[sandbox.OwnerSandbox].ID, v.began, others)
		v.expect(t, first[sandbox.OwnerProject].ID, v.began, none)
		if s := v.row(t, first[sandbox.OwnerProject].ID); s.State != sandbox.Running || time.Since(s.ProbedAt) > 2*time.Minute {
			t.Errorf("a project's sandbox is %s, last looked at %s ago", s.State, time.Since(s.ProbedAt))
		}
		if n := v.saves.Load(); n != 3 {
			t.Errorf("%d saves for three archives", n)
		}
		if live := v.boxes.all(driver.Selector{}); len(live) != 1 {
			t.Errorf("the driver still has %d instances", len(live))
		}

		// A timer's delete is a terminate: the next use revives the same sandbox.
		gone := v.row(t, first[sandbox.OwnerThread].ID)
		if gone.State != sandbox.Terminated || gone.Deleted() || gone.Synced.Version == "" {
			t.Errorf("%+v", gone)
		}
		back := v.ensure(t, sandbox.OwnerThread, "x")
		if back.ID != gone.ID || back.Incarnation != 2 || back.Synced.Version != gone.Synced.Version {
			t.Errorf("revived as %+v", back)
		}
	})
}

// A hold that is renewed for hours keeps every timer away; the clock runs from its end.
func TestHoldKeepsTimersOff(t *testing.T) {
	testkit.Proves(t, "T6")
	synctest.Test(t, func(t *testing.T) {
		v := inMemory(func(o *engine.Options) {
			o.Policy = func(s sandbox.Sandbox) sandbox.Policy {
				p := sandbox.DefaultPolicy(s.Owner.Kind)
				p.Timers.MaxAge = 2 * time.Hour
				return p
			}
		})
		stop := v.run(t)
		defer stop()
		s := v.ensure(t, sandbox.OwnerThread, "x")
		release := v.Handle("default", s.ID, "test").Hold(t.Context(), "turn")
		pass(50*time.Hour + 30*time.Second)
		if now := v.row(t, s.ID); now.State != sandbox.Running || now.Incarnation != 1 {
			t.Fatalf("held, and it is %s", now.State)
		}
		release()
		released := time.Now()
		pass(49 * time.Hour)
		// The greatest age was long reached, and only waited for the hold's end.
		v.expect(t, s.ID, released, map[sandbox.Event]time.Duration{sandbox.EventHalted: 0, sandbox.EventArchive: time.Hour, sandbox.EventEnded: 48 * time.Hour})
	})
}

// The holder of a hold died. What it held is let go when the hold has run out.
func TestHoldOfADeadProcessRunsOut(t *testing.T) {
	testkit.Proves(t, "T6")
	synctest.Test(t, func(t *testing.T) {
		v := inMemory()
		stop := v.run(t)
		defer stop()
		s := v.ensure(t, sandbox.OwnerThread, "x")
		if err := v.mem.Hold(t.Context(), s.ID, "turn", "dead", time.Now().Add(20*time.Minute)); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Hour)
		v.expect(t, s.ID, v.began, map[sandbox.Event]time.Duration{sandbox.EventHalted: 20 * time.Minute, sandbox.EventArchive: time.Hour})
	})
}

// A use just before a timer's time, and one between its decision and its wish, keep the sandbox.
func TestUseVoidsATimersWish(t *testing.T) {
	testkit.Proves(t, "T6")
	synctest.Test(t, func(t *testing.T) {
		v := inMemory()
		var lapses atomic.Int64
		v.mem.onLapse = func(id string) {
			if lapses.Add(1) == 1 {
				_ = v.mem.Touch(context.Background(), "default", id)
			}
		}
		stop := v.run(t)
		defer stop()
		s := v.ensure(t, sandbox.OwnerThread, "x")
		pass(5*time.Minute - time.Second)
		v.ensure(t, sandbox.OwnerThread, "x")
		pass(30 * time.Minute)
		if n := lapses.Load(); n != 2 {
			t.Errorf("the timer wished %d times", n)
		}
		v.expect(t, s.ID, v.began, map[sandbox.Event]time.Duration{sandbox.EventHalted: 15*time.Minute - time.Second})
	})
}

// Reads do not keep a sandbox alive, nor do calls that fail; traffic does, through its hold.
func TestOnlyUseCountsAsUse(t *testing.T) {
	testkit.Proves(t, "T6")
	synctest.Test(t, func(t *testing.T) {
		v := inMemory()
		stop := v.run(t)
		defer stop()
		s := v.ensure(t, sandbox.OwnerThread, "x")
		h := v.Handle("default", s.ID, "test")
		for range 10 {
			pass(time.Minute)
			_, _ = h.Peek(t.Context())
			_ = h.Frozen(t.Context())
			_, _ = v.Inspect(t.Context(), v.row(t, s.ID))
			v.Upcoming(v.row(t, s.ID))
			_, _, err := v.Ensure(t.Context(), engine.Request{Owner: s.Owner, Spec: sandbox.Spec{Profile: "full"}})
			if err == nil {
				t.Error("another profile was accepted")
			}
		}
		v.expect(t, s.ID, v.began, map[sandbox.Event]time.Duration{sandbox.EventHalted: 5 * time.Minute})
	})
}

// The time that a sandbox lies stopped counts for its archive and its end, which go by the last use, and
// not for its greatest age, which goes by its last start.
func TestStoppedTimeIsNotLived(t *testing.T) {
	testkit.Proves(t, "T6")
	synctest.Test(t, func(t *testing.T) {
		v := inMemory(func(o *engine.Options) {
			o.Policy = func(sandbox.Sandbox) sandbox.Policy {
				return sandbox.Policy{RetryEvery: time.Second, Timers: sandbox.Timers{MaxAge: 2 * time.Hour, Archive: 24 * time.Hour}}
			}
		})
		stop := v.run(t)
		defer stop()
		s := v.ensure(t, sandbox.OwnerConversation, "x")
		h := v.Handle("default", s.ID, "test")
		pass(time.Hour)
		if _, err := h.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Hour)
		if _, err := h.Sandbox(t.Context()); err != nil {
			t.Fatal(err)
		}
		back := time.Now()
		pass(30 * time.Hour)
		v.expect(t, s.ID, back, map[sandbox.Event]time.Duration{sandbox.EventHalted: 2 * time.Hour, sandbox.EventArchive: 24 * time.Hour})
	})
}

// A server that cannot save stops idle sandboxes, keeps their files for ever, and says why.
func TestWithoutASaverNothingIsArchived(t *testing.T) {
	testkit.Proves(t, "T6")
	synctest.Test(t, func(t *testing.T) {
		v := inMemory(func(o *engine.Options) { o.Restorer = nil })
		stop := v.run(t)
		defer stop()
		s := v.ensure(t, sandbox.OwnerThread, "x")
		pass(100 * time.Hour)
		v.expect(t, s.ID, v.began, map[sandbox.Event]time.Duration{sandbox.EventHalted: 5 * time.Minute, sandbox.EventEnd: never, sandbox.EventArchive: never, sandbox.EventEnded: never})
		for _, what := range []string{"archive", "delete"} {
			i := slices.IndexFunc(v.Upcoming(v.row(t, s.ID)), func(p sandbox.Upcoming) bool { return p.What == what })
			if i < 0 || !strings.Contains(v.Upcoming(v.row(t, s.ID))[i].Off, "cannot save") {
				t.Errorf("%s: %+v", what, v.Upcoming(v.row(t, s.ID)))
			}
		}
		if back := v.ensure(t, sandbox.OwnerThread, "x"); back.Instance != s.Instance {
			t.Errorf("came back as %s, was %s", back.Instance, s.Instance)
		}
	})
}

// A server that was away finds its timers overdue and acts at once, the gravest first; a timer that is not
// overdue waits for its time.
func TestOverdueTimersFireAtStart(t *testing.T) {
	testkit.Proves(t, "T6")
	for _, c := range []struct {
		away   time.Duration
		state  sandbox.State
		events map[sandbox.Event]time.Duration
	}{
		{4 * time.Minute, sandbox.Running, map[sandbox.Event]time.Duration{sandbox.EventHalted: time.Minute}},
		{10 * time.Minute, sandbox.Stopped, map[sandbox.Event]time.Duration{sandbox.EventHalted: 0, sandbox.EventArchive: 50 * time.Minute}},
		{47 * time.Hour, sandbox.Archived, map[sandbox.Event]time.Duration{sandbox.EventArchive: 0, sandbox.EventEnded: time.Hour}},
		{72 * time.Hour, sandbox.Terminated, map[sandbox.Event]time.Duration{sandbox.EventEnded: 0, sandbox.EventArchive: never}},
	} {
		synctest.Test(t, func(t *testing.T) {
			v := inMemory()
			stop := v.run(t)
			s := v.ensure(t, sandbox.OwnerThread, "x")
			stop()
			pass(c.away)
			next := engine.New(v.Options())
			back := time.Now()
			defer (&virtual{Engine: next, mem: v.mem, boxes: v.boxes}).run(t)()
			pass(tick)
			if got := v.row(t, s.ID); got.State != c.state {
				t.Errorf("away for %s: it is %s, not %s", c.away, got.State, c.state)
			}
			pass(2 * time.Hour)
			v.expect(t, s.ID, back, c.events)
			if v.saves.Load() != 1 {
				t.Errorf("away for %s: %d saves", c.away, v.saves.Load())
			}
		})
	}
}

// A save runs the same way whatever triggers it: a timer, a person, or a driver that cannot stop.
func TestEverySaveIsTheSame(t *testing.T) {
	testkit.Proves(t, "T6", "O1")
	for name, trigger := range map[string]func(t *testing.T, h *engine.Handle) error{
		"timer":     func(*testing.T, *engine.Handle) error { pass(49 * time.Hour); return nil },
		"archive":   func(t *testing.T, h *engine.Handle) error { _, err := h.Archive(t.Context()); return err },
		"terminate": func(t *testing.T, h *engine.Handle) error { _, err := h.Terminate(t.Context(), false); return err },
		"no stop":   func(t *testing.T, h *engine.Handle) error { _, err := h.Stop(t.Context()); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := inMemory(func(o *engine.Options) {
					if name == "no stop" {
						o.Drivers = map[string]driver.Driver{"memory": noStop{o.Drivers["memory"]}}
					}
				})
				stop := v.run(t)
				defer stop()
				s := v.ensure(t, sandbox.OwnerThread, "x")
				if err := trigger(t, v.Handle("default", s.ID, "test")); err != nil {
					t.Fatal(err)
				}
				got := v.row(t, s.ID)
				if v.saves.Load() != 1 || got.Synced != (sandbox.SyncMark{Version: "v1", Incarnation: 1}) || got.Instance != "" {
					t.Errorf("%d saves, %+v", v.saves.Load(), got)
				}
				order := slices.DeleteFunc(v.history(s.ID), func(h sandbox.Transition) bool {
					return h.Event != sandbox.EventEnd && h.Event != sandbox.EventFinal
				})
				if len(order) < 2 || order[0].Event != sandbox.EventEnd || cmp.Compare(order[0].Seq, order[1].Seq) >= 0 {
					t.Errorf("%+v", order)
				}
			})
		})
	}
}
