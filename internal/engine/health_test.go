package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/testkit"
)

// journal is a log that a test reads.
type journal struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines.Write(line)
}

// entries are the records of one event.
func (j *journal) entries(event string) (found []map[string]any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range bytes.Lines(j.lines.Bytes()) {
		var entry map[string]any
		if json.Unmarshal(line, &entry) == nil && entry["msg"] == event {
			found = append(found, entry)
		}
	}
	return found
}

func withJournal(j *journal) func(*engine.Options) {
	return func(o *engine.Options) { o.Logger = telemetry.NewLogger(j, "json", slog.LevelInfo, nil) }
}

// counted is the value of a counter.
func counted(t *testing.T, m *telemetry.Metrics, name string) int {
	t.Helper()
	page := httptest.NewRecorder()
	m.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	found := regexp.MustCompile(`(?m)^berth_` + regexp.QuoteMeta(name) + ` (\d+)$`).FindStringSubmatch(page.Body.String())
	if found == nil {
		t.Fatalf("no counter %s", name)
	}
	n, _ := strconv.Atoi(found[1])
	return n
}

// cared for is a server in virtual time whose sandboxes have agents.
func caredFor(change ...func(*engine.Options)) (*virtual, *agents) {
	a := newAgents()
	return inMemory(append([]func(*engine.Options){func(o *engine.Options) { o.Prober = a }}, change...)...), a
}

// events are those recorded of a sandbox since then.
func (v *virtual) events(id string, from time.Time) string {
	var words []string
	for _, h := range v.history(id) {
		if h.Event != "" && !h.At.Before(from) {
			words = append(words, string(h.Event))
		}
	}
	return strings.Join(words, " ")
}

// Each illness is found by the next probe and cured by the one after it, by the mildest step and no
// more.
func TestIllnessesAreCured(t *testing.T) {
	testkit.Proves(t, "O4", "P4")
	for name, c := range map[string]struct {
		befall        func(v *virtual, a *agents, s sandbox.Sandbox)
		events        string
		stops, heals  int // more than the start took
		replacements  int
		incarnation   int64
		sameStartTime bool
	}{
		"helper dead": {
			func(v *virtual, _ *agents, s sandbox.Sandbox) { v.boxes.silence(driver.ID(s.Instance), 1000) },
			"sick start ready", 1, 1, 0, 1, false,
		},
		"agent's server dead": {
			func(_ *virtual, a *agents, s sandbox.Sandbox) { a.befall(func() { a.down[s.ID] = true }) },
			"sick ready", 0, 1, 0, 1, true,
		},
		"agent's server dead and slow": {
			func(_ *virtual, a *agents, s sandbox.Sandbox) {
				a.befall(func() { a.down[s.ID], a.slow[s.ID] = true, 20 })
			},
			"sick ready", 0, 1, 0, 1, true,
		},
		"session missing": {
			func(_ *virtual, a *agents, s sandbox.Sandbox) { a.befall(func() { a.lost[s.ID] = true }) },
			"sick ready", 0, 1, 1, 1, true,
		},
		"halted": {
			func(v *virtual, _ *agents, s sandbox.Sandbox) {
				_, _ = v.boxes.become("", driver.ID(s.Instance), driver.PhaseStopped)
			},
			"halted start ready", 0, 1, 0, 1, false,
		},
		"missing": {
			func(v *virtual, _ *agents, s sandbox.Sandbox) {
				_ = v.boxes.Destroy(context.Background(), driver.ID(s.Instance))
			},
			"lost begin ready", 0, 1, 0, 2, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				v, a := caredFor(withJournal(&j))
				defer v.run(t)()
				s := v.ensure(t, sandbox.OwnerProject, "x")
				pass(time.Hour)
				heals, from := a.healed(), time.Now()
				c.befall(v, a, s)
				pass(3 * time.Minute)
				got := v.row(t, s.ID)
				if got.State != sandbox.Running || got.Failure != nil || v.events(s.ID, from) != c.events {
					t.Errorf("%s with %v after %q", got.State, got.Failure, v.events(s.ID, from))
				}
				if v.boxes.count("stop") != c.stops || a.healed()-heals != c.heals || got.Incarnation != c.incarnation || got.StartedAt.Equal(s.StartedAt) != c.sameStartTime {
					t.Errorf("%d stops, %d heals, incarnation %d, started at %s and before at %s", v.boxes.count("stop"), a.healed()-heals, got.Incarnation, got.StartedAt, s.StartedAt)
				}
				if n := counted(t, v.Options().Metrics, "session_replacements_total"); n != c.replacements || len(j.entries(telemetry.EventSessionReplaced)) != n {
					t.Errorf("%d sessions replaced, %d log records", n, len(j.entries(telemetry.EventSessionReplaced)))
				}
				before := v.events(s.ID, from)
				pass(time.Hour)
				if after := v.events(s.ID, from); after != before {
					t.Errorf("it went on: %q", after)
				}
			})
		})
	}
}

// One failed probe, of anything, changes nothing that runs.
func TestOneFailedProbeChangesNothingThatRuns(t *testing.T) {
	testkit.Proves(t, "O4", "P4")
	synctest.Test(t, func(t *testing.T) {
		v, a := caredFor()
		defer v.run(t)()
		s := v.ensure(t, sandbox.OwnerProject, "x")
		heals := a.healed()
		for range 3 {
			pass(20 * time.Minute) // far enough apart for the breaker
			v.boxes.silence(driver.ID(s.Instance), 1)
		}
		pass(20 * time.Minute)
		got := v.row(t, s.ID)
		if v.boxes.count("stop") > 0 || v.boxes.count("create") != 1 || a.healed() != heals || !got.StartedAt.Equal(s.StartedAt) || got.State != sandbox.Running {
			t.Errorf("%d stops, %d creates, %+v", v.boxes.count("stop"), v.boxes.count("create"), got)
		}
		if ev := v.events(s.ID, s.StartedAt.Add(time.Second)); ev != "sick ready sick ready sick ready" {
			t.Errorf("%q", ev)
		}
	})
}

// An agent that never comes up is given up after a minute of asking, with the reason; then its whole
// instance is started again, and again with pauses, and in the end left to its next use.
func TestRecoveryThatNeverSucceeds(t *testing.T) {
	testkit.Proves(t, "O4", "P4")
	synctest.Test(t, func(t *testing.T) {
		v, a := caredFor()
		defer v.run(t)()
		s := v.ensure(t, sandbox.OwnerProject, "x")
		from := time.Now()
		a.befall(func() { a.stubborn = true })
		testkit.Eventually(t, 10*time.Minute, func() error {
			if got := v.row(t, s.ID); got.State != sandbox.Failed {
				return errors.New(string(got.State))
			}
			return nil
		})
		sickAt, failedAt := v.since(s.ID, from, sandbox.EventSick), v.since(s.ID, from, sandbox.EventFail)
		if took := failedAt - sickAt; took < time.Minute || took > time.Minute+20*time.Second {
			t.Errorf("given up %s after it fell ill", took)
		}
		if n := a.probed(); n < 30 || n > 40 {
			t.Errorf("asked %d times", n)
		}
		got := v.row(t, s.ID)
		if got.Failure.Code != api.CodeUnhealthy || !strings.Contains(got.Failure.Message, "did not get well in time") || !strings.Contains(got.Failure.Message, "connection refused") {
			t.Errorf("%+v", got.Failure)
		}
		pass(24 * time.Hour)
		got = v.row(t, s.ID)
		if got.State != sandbox.Failed || !got.DueAt.IsZero() || got.Failure.Attempts != 5 {
			t.Errorf("after a day it is %s, due %s, %+v", got.State, got.DueAt, got.Failure)
		}
		if n := v.boxes.count("start"); n != 3 { // the first failed probe and the failed cure count, too
			t.Errorf("started again %d times", n)
		}
		_, _, err := v.Ensure(t.Context(), engine.Request{Owner: s.Owner})
		if fault.CodeOf(err) != api.CodeCreateFailed || !strings.Contains(err.Error(), "start the agent's server") {
			t.Errorf("a use that cannot be served: %s %v", fault.CodeOf(err), err)
		}
		a.befall(func() { a.stubborn = false })
		pass(time.Second) // by the clock, too, it is another use
		if back := v.ensure(t, sandbox.OwnerProject, "x"); back.State != sandbox.Running || back.Incarnation != 1 {
			t.Errorf("%+v", back)
		}
	})
}

// What does not last is ended by the breaker; the next use tries again, and may succeed.
func TestFlappingOpensTheBreaker(t *testing.T) {
	testkit.Proves(t, "O4", "P4")
	synctest.Test(t, func(t *testing.T) {
		v, _ := caredFor()
		defer v.run(t)()
		s := v.ensure(t, sandbox.OwnerProject, "x")
		h := v.Handle("default", s.ID, "test")
		for i := range 6 {
			now := v.row(t, s.ID)
			if now.State != sandbox.Running {
				t.Fatalf("it is %s after %d recoveries", now.State, i)
			}
			_ = v.boxes.Destroy(t.Context(), driver.ID(now.Instance))
			_, err := h.Reconcile(t.Context())
			if (err != nil) != (i == 5) {
				t.Fatalf("recovery %d: %v", i+1, err)
			}
			pass(30 * time.Second)
		}
		got := v.row(t, s.ID)
		if got.State != sandbox.Failed || got.Failure.Code != api.CodeUnhealthy || !strings.Contains(got.Failure.Message, "5 times within 10m") {
			t.Fatalf("%s, %+v", got.State, got.Failure)
		}
		made := v.boxes.count("create")
		pass(24 * time.Hour)
		if v.boxes.count("create") != made || v.row(t, s.ID).State != sandbox.Failed {
			t.Error("recovered after all")
		}
		if back := v.ensure(t, sandbox.OwnerProject, "x"); back.State != sandbox.Running || back.ID != s.ID {
			t.Errorf("%+v", back)
		}
	})
}

// With sandbox_auto_recover off, nothing is recovered before a request for it.
func TestNoRecoveryUnasked(t *testing.T) {
	testkit.Proves(t, "P4")
	for name, befall := range map[string]func(v *virtual, a *agents, s sandbox.Sandbox){
		"missing": func(v *virtual, _ *agents, s sandbox.Sandbox) {
			_ = v.boxes.Destroy(context.Background(), driver.ID(s.Instance))
		},
		"agent": func(_ *virtual, a *agents, s sandbox.Sandbox) { a.befall(func() { a.down[s.ID] = true }) },
	} {
		for _, used := range []string{"ensure", "look"} {
			synctest.Test(t, func(t *testing.T) {
				v, a := caredFor(func(o *engine.Options) {
					o.Policy = func(s sandbox.Sandbox) sandbox.Policy {
						p := sandbox.DefaultPolicy(s.Owner.Kind)
						p.NoRecover = true
						return p
					}
				})
				defer v.run(t)()
				s := v.ensure(t, sandbox.OwnerProject, "x")
				befall(v, a, s)
				if used == "ensure" {
					pass(time.Hour)
					if got := v.row(t, s.ID); got.State != sandbox.Failed || !strings.Contains(got.Failure.Message, "recovers nothing by itself") {
						t.Errorf("%s: %s, %+v", name, got.State, got.Failure)
					}
					v.ensure(t, sandbox.OwnerProject, "x")
				} else if _, err := v.Handle("default", s.ID, "test").Reconcile(t.Context()); err != nil {
					t.Errorf("%s, looked at on request: %v", name, err)
				}
				if got := v.row(t, s.ID); got.State != sandbox.Running {
					t.Errorf("%s, then %s: %s", name, used, got.State)
				}
			})
		}
	}
}

// A driver that refuses is asked ever more rarely, also about a sandbox in error.
func TestRefusalsAreNotHammered(t *testing.T) {
	testkit.Proves(t, "O6")
	refused := errors.New("no")
	for name, c := range map[string]struct {
		op   string
		want func(v *virtual, h *engine.Handle) error
	}{
		"stop before a start": {"stop", func(v *virtual, h *engine.Handle) error { _, err := h.Sandbox(context.Background()); return err }},
		"save before an end": {"save", func(v *virtual, h *engine.Handle) error {
			_, err := h.Terminate(context.Background(), false)
			return err
		}},
		"end": {"destroy", func(v *virtual, h *engine.Handle) error {
			_, err := h.Terminate(context.Background(), true)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				saves := new(refusingSaver)
				v, a := caredFor(func(o *engine.Options) { o.Restorer = saves })
				defer v.run(t)()
				s := v.ensure(t, sandbox.OwnerProject, "x")
				a.befall(func() { a.stubborn = true })
				pass(10 * time.Minute)
				if got := v.row(t, s.ID); got.State != sandbox.Failed {
					t.Fatalf("it is %s", got.State)
				}
				v.boxes.on(func(op string, _ driver.ID) error {
					if op == c.op {
						return refused
					}
					return nil
				})
				before := v.boxes.count(c.op) + int(saves.n.Load())
				if err := c.want(v, v.Handle("default", s.ID, "test")); err == nil {
					t.Error("no error")
				}
				pass(time.Hour)
				if n := v.boxes.count(c.op) + int(saves.n.Load()) - before; n < 3 || n > 100 {
					t.Errorf("asked %d times within an hour", n)
				}
				if got := v.row(t, s.ID); got.Failure == nil || !strings.Contains(got.Failure.Message, c.op) {
					t.Errorf("%s, and the record says %+v", got.State, got.Failure)
				}
			})
		})
	}
}

// refusingSaver can restore, and never save.
type refusingSaver struct{ n atomic.Int64 }

func (*refusingSaver) Restore(_ context.Context, s sandbox.Sandbox, _ driver.ID) (sandbox.SyncMark, error) {
	return s.Synced, nil
}

func (r *refusingSaver) Save(context.Context, sandbox.Sandbox) (sandbox.SyncMark, error) {
	r.n.Add(1)
	return sandbox.SyncMark{}, errors.New("bucket is on fire")
}

// The events and counters that people build alerts on come for every kind of owner, with whose they are.
func TestEventsAndCountersOfEveryOwnerKind(t *testing.T) {
	testkit.Proves(t, "O4")
	for _, kind := range sandbox.OwnerKinds {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				v, a := caredFor(withJournal(&j))
				s := v.ensure(t, kind, "x")
				h := v.Handle("default", s.ID, "test")
				v.ensure(t, kind, "x") // reused
				a.befall(func() { a.down[s.ID], a.lost[s.ID] = true, true })
				if _, err := h.Reconcile(t.Context()); err != nil {
					t.Fatal(err)
				}
				_ = v.boxes.Destroy(t.Context(), driver.ID(s.Instance))
				if _, err := h.Reconcile(t.Context()); err != nil {
					t.Fatal(err)
				}
				if _, err := h.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
				for event, want := range map[string][2]int{
					telemetry.EventResolveStart:    {3, 3}, // Restart resolves, too
					telemetry.EventResolveReuse:    {2, 2}, // the restart uses its instance again
					telemetry.EventResolveRecreate: {1, 1},
					telemetry.EventHealthRetry:     {1, 2},
					telemetry.EventSessionReplaced: {1, 1},
				} {
					entries := j.entries(event)
					if len(entries) < want[0] || len(entries) > want[1] {
						t.Errorf("%d records of %s", len(entries), event)
					}
					for _, e := range entries {
						if e[telemetry.FieldOwnerKind] != string(kind) || e[telemetry.FieldOwnerID] != "x" || e[telemetry.FieldTenant] != "default" {
							t.Errorf("%s does not say whose: %v", event, e)
						}
						if event != telemetry.EventResolveStart && e[telemetry.FieldSandboxID] != s.ID {
							t.Errorf("%s does not say of which: %v", event, e)
						}
					}
				}
				for name, want := range map[string]int{"sandbox_creates_total": 2, "sandbox_resumes_total": 1, "session_replacements_total": 1, "health_retries_total": len(j.entries(telemetry.EventHealthRetry))} {
					if n := counted(t, v.Options().Metrics, name); n != want {
						t.Errorf("%s is %d, not %d", name, n, want)
					}
				}
			})
		})
	}
}

// An unreachable driver, and a dead machine at a driver that answers, by each choice of a template.
func TestUnreachableByTemplatesChoice(t *testing.T) {
	testkit.Proves(t, "O4")
	away := &driver.TransientError{Err: errors.New("no route to host")}
	for _, c := range []struct {
		choice        sandbox.Unseen
		gone          time.Duration
		incarnation   int64
		live          int // while it is gone
		phase         driver.Phase
		afterwardLive int
	}{
		{sandbox.UnseenWait, time.Hour, 1, 1, driver.PhaseUnknown, 1},
		{sandbox.UnseenReplace, 3 * time.Minute, 1, 1, driver.PhaseUnknown, 1},
		{sandbox.UnseenReplace, 10 * time.Minute, 2, 2, driver.PhaseUnknown, 1},
		{sandbox.UnseenFence, 3 * time.Minute, 1, 1, driver.PhaseUnknown, 1},
		{sandbox.UnseenFence, 10 * time.Minute, 2, 1, driver.PhaseUnknown, 1},
		{sandbox.UnseenWait, time.Hour, 1, 1, "", 1},
		{sandbox.UnseenReplace, time.Hour, 1, 1, "", 1}, // by what?
		{sandbox.UnseenFence, time.Hour, 1, 1, "", 1},   // its end cannot be confirmed
	} {
		t.Run(fmt.Sprint(c.choice, " ", c.gone, " ", c.phase), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, _ := caredFor(func(o *engine.Options) {
					o.Policy = func(s sandbox.Sandbox) sandbox.Policy {
						p := sandbox.DefaultPolicy(s.Owner.Kind)
						p.Unreachable = c.choice
						return p
					}
				})
				defer v.run(t)()
				s := v.ensure(t, sandbox.OwnerProject, "x")
				pass(time.Hour)
				if c.phase == "" {
					v.boxes.on(func(string, driver.ID) error { return away })
				} else if _, err := v.boxes.become("", driver.ID(s.Instance), c.phase); err != nil {
					t.Fatal(err)
				}
				pass(c.gone + 90*time.Second) // the next probe notices
				got := v.row(t, s.ID)
				if got.State != sandbox.Running || got.Incarnation != c.incarnation || len(v.boxes.all(driver.Selector{})) != c.live {
					t.Errorf("%s as incarnation %d with %d instances", got.State, got.Incarnation, len(v.boxes.all(driver.Selector{})))
				}
				v.boxes.on(nil)
				_, _ = v.boxes.become("", driver.ID(s.Instance), driver.PhaseRunning) // it is back
				if _, err := v.Sweep(t.Context(), engine.SweepOptions{}); err != nil {
					t.Error(err)
				}
				pass(5 * time.Minute)
				now := v.row(t, s.ID)
				if now.Instance != got.Instance || now.State != sandbox.Running || len(v.boxes.all(driver.Selector{})) != c.afterwardLive {
					t.Errorf("afterwards %s with %s, was %s, and %d instances", now.State, now.Instance, got.Instance, len(v.boxes.all(driver.Selector{})))
				}
			})
		})
	}
}

// A server that comes back after a day, to a driver that is not up yet, replaces nothing.
func TestDriverAwayAtStartEvictsNothing(t *testing.T) {
	testkit.Proves(t, "O4")
	for _, choice := range []sandbox.Unseen{sandbox.UnseenReplace, sandbox.UnseenFence} {
		synctest.Test(t, func(t *testing.T) {
			v, _ := caredFor(func(o *engine.Options) {
				o.Policy = func(s sandbox.Sandbox) sandbox.Policy {
					p := sandbox.DefaultPolicy(s.Owner.Kind)
					p.Unreachable = choice
					return p
				}
			})
			stop := v.run(t)
			s := v.ensure(t, sandbox.OwnerProject, "x")
			stop()
			pass(24 * time.Hour)
			if _, err := v.boxes.become("", driver.ID(s.Instance), driver.PhaseUnknown); err != nil {
				t.Fatal(err)
			}
			next := &virtual{Engine: engine.New(v.Options()), mem: v.mem, boxes: v.boxes}
			defer next.run(t)()
			pass(2 * time.Minute)
			_, _ = v.boxes.become("", driver.ID(s.Instance), driver.PhaseRunning)
			pass(time.Hour)
			if got := v.row(t, s.ID); got.Incarnation != 1 || got.State != sandbox.Running || v.boxes.count("destroy") > 0 {
				t.Errorf("%s: %s as incarnation %d, %d destroys", choice, got.State, got.Incarnation, v.boxes.count("destroy"))
			}
		})
	}
}

// A use of an unhealthy sandbox waits for its recovery.
func TestUseWaitsForARecovery(t *testing.T) {
	testkit.Proves(t, "O4", "V3")
	synctest.Test(t, func(t *testing.T) {
		v, a := caredFor()
		defer v.run(t)()
		s := v.ensure(t, sandbox.OwnerProject, "x")
		for _, befall := range []func(){
			func() { a.befall(func() { a.down[s.ID] = true }) },
			func() { v.boxes.silence(driver.ID(v.row(t, s.ID).Instance), 1000) },
			func() { v.boxes.silence(driver.ID(v.row(t, s.ID).Instance), 1) },
		} {
			pass(time.Hour)
			befall()
			began := time.Now()
			got, err := v.Handle("default", s.ID, "test").Reconcile(t.Context())
			if took := time.Since(began); err != nil || got.State != sandbox.Running || took > 5*time.Second {
				t.Errorf("%s, %v after %s", got.State, err, took)
			}
		}
		a.befall(func() { a.down[s.ID] = true })
		if l, err := v.Inspect(t.Context(), v.row(t, s.ID)); err != nil || l.Healthy() || l.Agrees() || len(l.Would) != 1 {
			t.Errorf("%+v, %v", l, err)
		}
		if got := v.row(t, s.ID); got.State != sandbox.Running {
			t.Errorf("a look made it %s", got.State)
		}
	})
}

// A hung helper holds up callers for no longer than a probe may take.
func TestHungHelperIsIll(t *testing.T) {
	testkit.Proves(t, "O4")
	synctest.Test(t, func(t *testing.T) {
		v, _ := caredFor(func(o *engine.Options) {
			o.Drivers = map[string]driver.Driver{"memory": hung{o.Drivers["memory"].(*machines)}}
		})
		s := v.ensure(t, sandbox.OwnerProject, "x")
		v.boxes.silence(driver.ID(s.Instance), 1)
		began := time.Now()
		l, err := v.Inspect(t.Context(), s)
		if took := time.Since(began); err != nil || l.Seen.Ill != sandbox.IllInside || took > 10*time.Second {
			t.Errorf("%+v, %v after %s", l.Seen, err, took)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if l, _ := v.Inspect(ended, s); l.Seen.Ill != sandbox.Well {
			t.Error("a look without time found an illness")
		}
	})
}
