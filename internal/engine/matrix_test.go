package engine_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/testkit"
)

// answering is a fake driver with helpers that answer every ping while their instance runs.
type answering struct{ *fake.Driver }

func (a answering) Guest(ctx context.Context, id driver.ID) (guest.Conn, error) {
	st, err := a.Inspect(ctx, id)
	if err == nil && st.Phase != driver.PhaseRunning {
		err = driver.ErrNotRunning
	}
	return &phone{m: newMachines(), id: id}, err
}

func (answering) Output(context.Context, driver.ID, string, int64) iter.Seq2[guest.Chunk, error] {
	return func(func(guest.Chunk, error) bool) {}
}

// hospital is a server whose sandboxes have agents, with the patience of a real one.
func hospital(t *testing.T, at place, change ...func(*engine.Options)) (*server, *agents) {
	a := newAgents()
	srv := at.open(t, append([]func(*engine.Options){func(o *engine.Options) {
		f, _ := driver.As[*fake.Driver](o.Drivers["fake"])
		o.Drivers, o.Prober = map[string]driver.Driver{"fake": answering{f}}, a
		o.Policy, o.WorkTimeout = nil, time.Minute // the default one
	}}, change...)...)
	return srv, a
}

// failures are the rows of the failure matrix that the engine recovers from. What befalls the agent
// befalls it in the instance: a new or restarted one has no server and no session.
var failures = []struct {
	name   string
	befall func(srv *server, a *agents, s sandbox.Sandbox) error
}{
	{"instance missing", func(srv *server, a *agents, s sandbox.Sandbox) error {
		a.befall(func() { a.down[s.ID] = true })
		return srv.fake.Vanish(driver.ID(s.Instance))
	}},
	{"instance stopped", func(srv *server, a *agents, s sandbox.Sandbox) error {
		a.befall(func() { a.down[s.ID] = true })
		return srv.fake.Halt(driver.ID(s.Instance))
	}},
	{"agent down", func(_ *server, a *agents, s sandbox.Sandbox) error {
		a.befall(func() { a.down[s.ID] = true })
		return nil
	}},
	{"session missing", func(_ *server, a *agents, s sandbox.Sandbox) error {
		a.befall(func() { a.lost[s.ID] = true })
		return nil
	}},
}

// Each row of the failure matrix and each pair of rows, many times, sixteen at once: all recover, and soon.
func TestFailureMatrixRowsAndPairs(t *testing.T) {
	testkit.Proves(t, "O4")
	n := testkit.Size(t, "matrix.each")
	onBoth(t, func(t *testing.T, at place) {
		srv, a := hospital(t, at)
		var (
			wg     sync.WaitGroup
			mu     sync.Mutex
			all    []time.Duration
			atOnce = make(chan struct{}, 16)
		)
		for i := range failures {
			for k := i; k < len(failures); k++ {
				wg.Go(func() {
					took := srv.befallMany(t, a, atOnce, n, i, k)
					t.Logf("%s and %s: %d of %d recovered, p99 %s", failures[i].name, failures[k].name, len(took), n, p99(took))
					mu.Lock()
					defer mu.Unlock()
					all = append(all, took...)
				})
			}
		}
		wg.Wait()
		t.Logf("all: p99 %s of %d", p99(all), len(all))
		if p99(all) > 30*time.Second {
			t.Errorf("p99 is %s", p99(all))
		}
	})
}

func p99(took []time.Duration) time.Duration {
	slices.Sort(took)
	if len(took) == 0 {
		return 0
	}
	return took[len(took)*99/100].Round(time.Millisecond)
}

// befallMany has failures i and k happen to n sandboxes of every kind of owner, uses each, and returns
// how long each took to be well again.
func (s *server) befallMany(t *testing.T, a *agents, atOnce chan struct{}, n, i, k int) []time.Duration {
	t.Helper()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		took []time.Duration
	)
	for j := range n {
		owner := sandbox.Owner{Tenant: "default", Kind: sandbox.OwnerKinds[j%4], ID: fmt.Sprint(i, "-", k, "-", j)}
		wg.Go(func() {
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			d, err := s.befall(t, a, owner, i, k)
			if err != nil {
				t.Errorf("%s and %s: %v", failures[i].name, failures[k].name, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, d)
		})
	}
	wg.Wait()
	return took
}

func (s *server) befall(t *testing.T, a *agents, owner sandbox.Owner, i, k int) (time.Duration, error) {
	sb, _, err := s.Ensure(t.Context(), engine.Request{Owner: owner, Actor: "test"})
	if err != nil {
		return 0, err
	}
	both := []int{k, i} // k first: a missing instance cannot be halted
	if k == i {
		both = both[:1]
	}
	for _, f := range both {
		if err := failures[f].befall(s, a, sb); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	got, err := s.Handle("default", sb.ID, "test").Reconcile(t.Context())
	switch took := time.Since(began); {
	case err != nil:
		return took, err
	case got.State != sandbox.Running || got.Failure != nil || a.Probe(t.Context(), got, nil) != nil:
		return took, fmt.Errorf("%s, %+v", got.State, got.Failure)
	default:
		s.one(t, got)
		return took, nil
	}
}

// The columns and words of each row in order: the writes to the record, and what the API shows
// in each state.
func TestFailureMatrixColumns(t *testing.T) {
	testkit.Proves(t, "O4")
	for i, c := range []struct {
		states      string // that the record goes through
		threads     string // the same in the words of the thread API
		incarnation int64
		destroyed   bool
		events      []string
	}{
		{"terminated creating running", "destroyed creating active", 2, true, []string{telemetry.EventResolveRecreate}},
		{"stopped starting running", "paused resuming active", 1, false, nil},
		{"unhealthy running", "resuming active", 1, false, []string{telemetry.EventHealthRetry}},
		{"unhealthy running", "resuming active", 1, false, []string{telemetry.EventHealthRetry, telemetry.EventSessionReplaced}},
	} {
		t.Run(failures[i].name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, at place) {
				var j journal
				srv, a := hospital(t, at, withJournal(&j))
				sb := srv.ensure(t, project("a"))
				before := srv.history(t, sb.ID)
				lost := make(chan sandbox.Sandbox, 1)
				srv.fake.On(fake.Create).Do(func() { lost <- srv.row(t, project("a")) })
				if err := failures[i].befall(srv, a, sb); err != nil {
					t.Fatal(err)
				}
				got, err := srv.Handle("default", sb.ID, "test").Reconcile(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				states := strings.Fields(strings.TrimPrefix(srv.history(t, sb.ID), before))
				var threads []string
				for _, state := range states {
					threads = append(threads, sandbox.State(state).ThreadStatus())
				}
				if strings.Join(states, " ") != c.states || strings.Join(threads, " ") != c.threads {
					t.Errorf("it was %v: %v", states, threads)
				}
				if got.ID != sb.ID || got.Incarnation != c.incarnation || got.DestroyedAt.IsZero() == c.destroyed || got.Failure != nil {
					t.Errorf("%+v", got)
				}
				if c.destroyed {
					if then := <-lost; then.DestroyedAt.IsZero() || then.Instance != "" || then.State != sandbox.Creating {
						t.Errorf("when the new one was made the record said %+v", then)
					}
				}
				for _, event := range c.events {
					if len(j.entries(event)) != 1 {
						t.Errorf("%d records of %s", len(j.entries(event)), event)
					}
				}
			})
		})
	}
}

// An agent that cannot be brought back is an error in the record, with its reason, and what runs is not
// touched.
func TestFailureMatrixWithoutACure(t *testing.T) {
	testkit.Proves(t, "O4")
	srv, a := hospital(t, onSQLite(t), func(o *engine.Options) {
		o.HealPoll, o.HealFor = time.Millisecond, 50*time.Millisecond
		o.Policy = func(sandbox.Sandbox) sandbox.Policy { return sandbox.Policy{ProbeAgain: time.Millisecond} }
	})
	sb := srv.ensure(t, project("a"))
	a.befall(func() { a.stubborn = true })
	_, err := srv.Handle("default", sb.ID, "test").Reconcile(t.Context())
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
	got := srv.row(t, project("a"))
	if got.State.ThreadStatus() != "error" || got.State.ProjectStatus() != "ERROR" || got.Failure == nil || !strings.Contains(got.Failure.Message, "connection refused") {
		t.Errorf("%s, %+v", got.State, got.Failure)
	}
	srv.one(t, got)
}
