package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// The ways in which a step of a cold start goes wrong.
const (
	refused  = "error"                 // it is not done
	tooLate  = "timeout after success" // it is done, and the answer is lost
	overtook = "kill"                  // its holder stops in it, and another takes over
)

// script of one cold start: which step goes wrong, how, once.
type mishap struct {
	step, how     string
	once          sync.Once
	asleep, awake chan struct{}
}

func newMishap(step, how string) *mishap {
	return &mishap{step: step, how: how, asleep: make(chan struct{}), awake: make(chan struct{})}
}

var errMishap = errors.New("it went wrong on purpose")

// at lets a step do its work, or go wrong.
func (m *mishap) at(step string, do func()) (err error) {
	wrong := false
	if step == m.step {
		m.once.Do(func() { wrong = true })
	}
	if wrong && m.how == refused {
		return errMishap
	}
	do()
	if wrong && m.how == overtook {
		close(m.asleep)
		<-m.awake
	} else if wrong {
		err = errMishap
	}
	return err
}

// The mishap is everything that a cold start goes through.
func (m *mishap) Restore(_ context.Context, s sandbox.Sandbox, _ driver.ID) (sandbox.SyncMark, error) {
	if err := m.at("restore", func() {}); err != nil {
		return sandbox.SyncMark{}, err
	}
	return sandbox.SyncMark{Version: "v1", Incarnation: s.Incarnation}, nil
}

func (m *mishap) Save(_ context.Context, s sandbox.Sandbox) (sandbox.SyncMark, error) {
	return s.Synced, nil
}

func (m *mishap) ColdStart(ctx context.Context, _ *engine.Handle, pull func(context.Context) error) error {
	if err := pull(ctx); err != nil {
		return err
	}
	return m.at("hook", func() {})
}
func (m *mishap) Terminate(context.Context, *engine.Handle) error          { return nil }
func (m *mishap) Probe(context.Context, sandbox.Sandbox, guest.Conn) error { return nil }
func (m *mishap) Heal(context.Context, sandbox.Sandbox, guest.Conn) (int, error) {
	return 0, m.at("heal", func() {})
}

// clumsy is a fake driver that the mishap may befall.
type clumsy struct {
	answering
	m *mishap
}

func (c clumsy) Create(ctx context.Context, spec driver.Spec) (st driver.Status, err error) {
	wrong := c.m.at("create", func() { st, err = c.answering.Create(context.WithoutCancel(ctx), spec) })
	if wrong != nil {
		return driver.Status{}, wrong
	}
	return st, err
}

func (c clumsy) Start(ctx context.Context, id driver.ID) (st driver.Status, err error) {
	wrong := c.m.at("start", func() { st, err = c.answering.Start(context.WithoutCancel(ctx), id) })
	if wrong != nil {
		return driver.Status{}, wrong
	}
	return st, err
}

// forgets is a store that the mishap may befall when the instance is recorded. One that dozes off cannot
// renew its lease either.
type forgets struct {
	engine.Store
	m *mishap
}

func (f forgets) Commit(ctx context.Context, l store.Lease, c sandbox.Change, due store.Due) (s sandbox.Sandbox, err error) {
	if c.Event != sandbox.EventReady {
		return f.Store.Commit(ctx, l, c, due)
	}
	if f.m.how == overtook {
		if err := f.m.at("commit", func() {}); err != nil {
			return s, err
		}
		return f.Store.Commit(context.WithoutCancel(ctx), l, c, due)
	}
	wrong := f.m.at("commit", func() { s, err = f.Store.Commit(ctx, l, c, due) })
	if wrong != nil {
		return sandbox.Sandbox{}, fault.Errorf("commit change", "store_unavailable", "%w", wrong)
	}
	return s, err
}

func (f forgets) Renew(ctx context.Context, l store.Lease) error {
	if f.m.how == overtook {
		return noRenewal{}.Renew(ctx, l)
	}
	return f.Store.Renew(ctx, l)
}

// befallen is a server on which the mishap happens, beside another on which nothing does.
func befallen(t *testing.T, m *mishap) (srv, well *server) {
	t.Helper()
	at := onSQLite(t)
	if m.how == overtook {
		at.LeaseTTL = time.Second
	}
	fine := newMishap("", "")
	well = at.open(t, func(o *engine.Options) {
		f, _ := driver.As[*fake.Driver](o.Drivers["fake"])
		o.Drivers = map[string]driver.Driver{"fake": clumsy{answering{f}, fine}}
		o.Restorer, o.Hooks, o.Prober, o.HealPoll = fine, fine, fine, time.Millisecond
	})
	srv = well.twin(func(o *engine.Options) {
		o.Drivers = map[string]driver.Driver{"fake": clumsy{answering{well.fake}, m}}
		o.Restorer, o.Hooks, o.Prober = m, m, m
		o.Store = forgets{o.Store, m}
	})
	return srv, well
}

// words are what an error about a step says.
var stepWords = map[string]string{
	"create": "create sandbox", "start": "start sandbox", "restore": "restore the workspace", "hook": "cold start hook",
	"heal": "agent's server", "commit": "commit",
}

// Each step of a first start goes wrong in each way. Nothing is left of it, the error names the step, and
// the next use succeeds.
func TestFailedColdStartLeavesNothing(t *testing.T) {
	testkit.Proves(t, "O6", "H2")
	for _, step := range []string{"create", "restore", "hook", "heal", "commit"} {
		for _, how := range []string{refused, tooLate} {
			t.Run(step+" "+how, func(t *testing.T) {
				t.Parallel()
				srv, well := befallen(t, newMishap(step, how))
				_, _, err := srv.Ensure(t.Context(), engine.Request{Owner: project("a"), Actor: "test"})
				if !errors.Is(err, errMishap) || !strings.Contains(err.Error(), stepWords[step]) {
					t.Errorf("got %v", err)
				}
				sb := well.row(t, project("a"))
				switch {
				case step == "commit" && how == tooLate:
					well.one(t, sb) // it is recorded, and runs
				case step == "commit":
					well.reconcile(t, func() error {
						if now := well.row(t, project("a")); now.State != sandbox.Running {
							return fmt.Errorf("it is %s", now.State)
						}
						return nil
					})
				default:
					if live := well.live(t); len(live) > 0 || sb.Instance != "" {
						t.Errorf("left %v, and the record names %q", live, sb.Instance)
					}
					if sb.State != sandbox.Failed || sb.Failure == nil || !strings.Contains(sb.Failure.Message, stepWords[step]) || sb.Synced.Version != "" {
						t.Errorf("%s, %+v, synced %+v", sb.State, sb.Failure, sb.Synced)
					}
				}
				now := well.ensure(t, project("a"))
				well.one(t, now)
				if l, err := well.Inspect(t.Context(), now); err != nil || !l.Agrees() {
					t.Errorf("%+v, %v", l, err)
				}
			})
		}
	}
}

// The holder that makes a sandbox stops in each step, past the end of its lease. Another takes over and ends
// what the first had made; when that wakes, it changes nothing.
func TestOvertakenColdStartLeavesNothing(t *testing.T) {
	testkit.Proves(t, "O2", "O6")
	for _, step := range []string{"create", "restore", "hook", "heal", "commit"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			m := newMishap(step, overtook)
			wake := sync.OnceFunc(func() { close(m.awake) })
			defer wake()
			srv, well := befallen(t, m)
			done := srv.inBackground(project("a"))
			<-m.asleep
			sb := well.row(t, project("a"))
			first := well.live(t)[sb.ID]
			testkit.Eventually(t, 30*time.Second, func() error { return well.leaseIsFree(t, sb.ID) })
			if _, err := well.Reconcile(t.Context()); err != nil {
				t.Fatal(err)
			}
			now := well.ensure(t, project("a"))
			if now.Incarnation < 2 || len(first) != 1 || string(first[0]) == string(now.Instance) {
				t.Errorf("taken over as incarnation %d with %s, the first had made %v", now.Incarnation, now.Instance, first)
			}
			well.one(t, now)
			wake()
			if err := <-done; err != nil {
				t.Errorf("the first, woken: %v", err)
			}
			if after := well.row(t, project("a")); after.Instance != now.Instance || after.State != sandbox.Running {
				t.Errorf("the first, woken, made it %s with %s", after.State, after.Instance)
			} else if after.Synced != (sandbox.SyncMark{Version: "v1", Incarnation: now.Incarnation}) {
				t.Errorf("restored by the one that took over, and recorded as %+v", after.Synced)
			}
			well.one(t, now)
		})
	}
}

// A start from stopped that goes wrong leaves the instance stopped and its files where they were.
func TestFailedStartStaysStopped(t *testing.T) {
	testkit.Proves(t, "O6", "H2")
	for _, step := range []string{"start", "restore", "hook", "heal"} {
		for _, how := range []string{refused, tooLate, overtook} {
			t.Run(step+" "+how, func(t *testing.T) {
				t.Parallel()
				m := newMishap(step, how)
				wake := sync.OnceFunc(func() { close(m.awake) })
				defer wake()
				srv, well := befallen(t, m)
				sb := well.ensure(t, project("a"))
				if _, err := well.Handle("default", sb.ID, "test").Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
				madeBefore, endedBefore := effects(t, well)
				done := srv.inBackground(project("a"))
				if how == overtook {
					<-m.asleep
					testkit.Eventually(t, 30*time.Second, func() error { return well.leaseIsFree(t, sb.ID) })
				} else {
					if err := <-done; !errors.Is(err, errMishap) || !strings.Contains(err.Error(), stepWords[step]) {
						t.Errorf("got %v", err)
					}
					got := well.row(t, project("a"))
					if got.State != sandbox.Failed || got.Instance != sb.Instance || got.Failure == nil || !strings.Contains(got.Failure.Message, stepWords[step]) {
						t.Errorf("%s with %s, %+v", got.State, got.Instance, got.Failure)
					}
					if got.Synced != sb.Synced || got.Synced.Version == "" {
						t.Errorf("it had restored %+v, and now %+v", sb.Synced, got.Synced)
					}
					if st, err := well.fake.Inspect(t.Context(), driver.ID(sb.Instance)); err != nil || st.Phase != driver.PhaseStopped {
						t.Errorf("the instance is %s, %v", st.Phase, err)
					}
				}
				now := well.ensure(t, project("a"))
				if now.Instance != sb.Instance || now.Incarnation != sb.Incarnation {
					t.Errorf("came back as incarnation %d with %s, was %s", now.Incarnation, now.Instance, sb.Instance)
				}
				if wake(); how == overtook {
					if err := <-done; err != nil {
						t.Errorf("the first, woken: %v", err)
					}
				}
				well.one(t, now)
				if made, ended := effects(t, well); made != madeBefore || ended != endedBefore {
					t.Errorf("%d instances were made and %d ended", made-madeBefore, ended-endedBefore)
				}
			})
		}
	}
}

// effects is how many instances were made and ended so far.
func effects(t *testing.T, srv *server) (made, ended int) {
	t.Helper()
	calls, err := srv.fake.Log()
	if err != nil {
		t.Fatal(err)
	}
	return fake.Effects(calls, fake.Create), fake.Effects(calls, fake.Destroy)
}

// refusing refuses every cold start while it is set to, and counts them.
type refusing struct {
	no    bool
	tries int
}

func (r *refusing) ColdStart(ctx context.Context, _ *engine.Handle, pull func(context.Context) error) error {
	if err := pull(ctx); err != nil {
		return err
	}
	if r.tries++; r.no {
		return fault.Errorf("run cold start hooks", api.CodeHookFailed, "hook picky: the disk is haunted")
	}
	return nil
}
func (r *refusing) Terminate(context.Context, *engine.Handle) error { return nil }

// A start that a hook refuses has the hook's code and words, and is not tried again unasked. A new sandbox is left
// in error without an instance; one that was stopped stays stopped. The next use tries again.
func TestRefusedColdStartIsNotTriedAgain(t *testing.T) {
	testkit.Proves(t, "H2")
	for _, fromStopped := range []bool{false, true} {
		t.Run(fmt.Sprintf("from stopped %v", fromStopped), func(t *testing.T) {
			hooks := &refusing{no: !fromStopped}
			srv := onSQLite(t).open(t, func(o *engine.Options) { o.Hooks = hooks })
			want := sandbox.Failed
			if fromStopped {
				want = sandbox.Stopped
				sb := srv.ensure(t, project("a"))
				if _, err := srv.Handle("default", sb.ID, "test").Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
				hooks.no = true
			}
			_, _, err := srv.Ensure(t.Context(), engine.Request{Owner: project("a"), Actor: "test"})
			if fault.CodeOf(err) != api.CodeHookFailed || !strings.Contains(err.Error(), "hook picky: the disk is haunted") || strings.Contains(err.Error(), "driver") {
				t.Errorf("got %v", err)
			}
			tries := hooks.tries
			for range 3 {
				if _, err := srv.Reconcile(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			sb := srv.row(t, project("a"))
			if hooks.tries != tries || !sb.DueAt.IsZero() {
				t.Errorf("it was tried %d times more, and is due at %s", hooks.tries-tries, sb.DueAt)
			}
			if sb.State != want || sb.Failure == nil || sb.Failure.Code != api.CodeHookFailed || !sb.Failure.Final || (sb.Instance != "") != fromStopped {
				t.Errorf("%s with %q, %+v", sb.State, sb.Instance, sb.Failure)
			}
			hooks.no = false
			now := srv.ensure(t, project("a"))
			if now.Failure != nil || fromStopped && now.Instance != sb.Instance {
				t.Errorf("came back as %+v", now)
			}
			srv.one(t, now)
		})
	}
}

// The server that starts a stopped sandbox dies, and the hook refuses the start that the next one finishes: the
// sandbox stays stopped all the same.
func TestRefusedStartStaysStoppedAfterATakeover(t *testing.T) {
	testkit.Proves(t, "H2")
	hooks := new(refusing)
	srv := shortLease(t).open(t, func(o *engine.Options) { o.Hooks, o.WorkTimeout = hooks, 5*time.Second })
	sb := srv.ensure(t, project("a"))
	if _, err := srv.Handle("default", sb.ID, "test").Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	hooks.no = true
	sleeper, asleep, wake := srv.sleeper("after-start")
	done := sleeper.inBackground(project("a"))
	<-asleep
	testkit.Eventually(t, 30*time.Second, func() error { return srv.leaseIsFree(t, sb.ID) })
	srv.reconcile(t, func() error {
		if now := srv.row(t, project("a")); now.Failure == nil {
			return fmt.Errorf("it is %s, without a failure", now.State)
		}
		return nil
	})
	now := srv.row(t, project("a"))
	if now.State != sandbox.Stopped || now.Instance != sb.Instance || now.Failure.Code != api.CodeHookFailed || !now.Failure.Final {
		t.Errorf("%s with %q, %+v", now.State, now.Instance, now.Failure)
	}
	wake()
	<-done
}
