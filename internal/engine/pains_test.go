package engine_test

// What users of other systems suffered from in the life of their sandboxes, and the tests that keep it
// from happening here. They are in this package unless they say otherwise.
//
//	a timed save keeps less than one by hand      TestEverySaveIsTheSame
//	stopped is taken for dead, and replaced       TestFailureMatrixColumns, sandbox.TestStoppedLostAndUnreachableDiffer
//	unreachable is taken for dead, and replaced   TestDriverAwayAtStartEvictsNothing, sandbox.TestShortOutageEvictsNothing
//	two restore, and the loser reports the winner TestOvertakenColdStartLeavesNothing
//	a failed restore is recorded as a good one    TestFailedStartStaysStopped
//	not in a valid state to be deleted            TestDeleteFromEveryStateThereIs, sandbox.TestDeleteSettlesAfterAnyHistory
//	what cannot be deleted holds quota            TestEndingSandboxHoldsNoPlace
//	an error without a way out                    TestRecoveryThatNeverSucceeds, sandbox.TestIllnessDecidesWhatIsDone
//	starting, for ever                            TestNoStateIsForEver
//	running, and the daemon in it is dead         TestIllnessesAreCured, TestKilledAgentIsBack
//	one failed probe evicts                       TestOneFailedProbeChangesNothingThatRuns
//	stop of a missing instance                    TestWishAboutWhatIsGone
//	time that it lay stopped counts as lived      TestStoppedTimeIsNotLived
//	orphans of crashes and of failed deletes      TestOrphansAreEndedAfterTheGrace, TestLateCreateOfADeletedSandboxIsSwept, TestStrayOfAPausedHolder
//	an unreadable list is taken for an empty one  TestUnreadableIsNotEmpty, TestOnlyNotFoundIsLost
//	the sweep ends a sandbox that is being made   TestSweepsEndNothingThatLives
//	something keeps the idle clock alive          TestOnlyUseCountsAsUse, TestTimersReachWhatIsInError in sandbox
//	stopped in the middle of work                 TestHoldKeepsTimersOff, TestUseVoidsATimersWish, TestUseBetweenDecisionAndWish
//	only an API call wakes it                     TestUseFindsARunningInstance, TestUseWaitsForARecovery
//	two messages, two sandboxes                   TestEightServersRaceOneCreatePerOwner, TestOneFlightPerOwner
//	the quota is looked at, then taken            TestQuotaUnderARace
//	a double click locks its user out             TestQuotaUnderARace
//
// Those about versions, sessions, streams and secrets belong to other packages.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// Whatever state a dead holder left a sandbox in, and whatever became of its instance since, the next
// passes bring it where it is wanted.
func TestNoStateIsForEver(t *testing.T) {
	testkit.Proves(t, "O6", "O8")
	for _, state := range sandbox.States {
		for _, fate := range []string{"there", "vanished", "halted"} {
			t.Run(string(state)+" "+fate, func(t *testing.T) {
				t.Parallel()
				srv := onSQLite(t).open(t, func(o *engine.Options) { o.Restorer = restorer{} })
				inState[state](t, srv)
				for _, ids := range srv.live(t) {
					for _, id := range ids {
						if fate == "vanished" {
							_ = srv.fake.Vanish(id)
						} else if fate == "halted" && state != sandbox.Failed {
							_ = srv.fake.Halt(id)
						}
					}
				}
				for _, want := range []sandbox.Want{sandbox.WantRunning, sandbox.WantStopped} {
					sb := srv.row(t, project("a"))
					if _, err := srv.db.In("default").Want(t.Context(), sb.ID, want, "test", "test"); err != nil {
						t.Fatal(err)
					}
					if state == sandbox.Failed && fate != "vanished" {
						want = "" // its driver says that it can never run again
					}
					srv.reconcile(t, func() error {
						if now := srv.row(t, project("a")); want != "" && !want.Satisfied(now.State) {
							return fmt.Errorf("%s, wanted %s: %+v", now.State, want, now.Failure)
						}
						return nil
					})
				}
				if l, err := srv.Inspect(t.Context(), srv.row(t, project("a"))); err != nil || len(l.Seen.Strays) > 0 || !l.Agrees() && state != sandbox.Failed {
					t.Errorf("%+v, %v", l, err)
				}
			})
		}
	}
}

// A request to a sandbox whose instance is gone is fulfilled or refused with a reason; nothing gets stuck.
func TestWishAboutWhatIsGone(t *testing.T) {
	testkit.Proves(t, "O4", "O6")
	onBoth(t, func(t *testing.T, at place) {
		srv := at.open(t, func(o *engine.Options) { o.Restorer = restorer{} })
		for _, stopped := range []bool{false, true} {
			for wish, do := range map[string]func(*engine.Handle, context.Context) (sandbox.Sandbox, error){
				"stop":      (*engine.Handle).Stop,
				"archive":   (*engine.Handle).Archive,
				"restart":   (*engine.Handle).Restart,
				"start":     (*engine.Handle).Start,
				"reconcile": (*engine.Handle).Reconcile,
				"terminate": func(h *engine.Handle, ctx context.Context) (sandbox.Sandbox, error) { return h.Terminate(ctx, false) },
			} {
				name := fmt.Sprint(wish, stopped)
				sb := srv.ensure(t, project(name))
				h := srv.Handle("default", sb.ID, "test")
				if stopped {
					if _, err := h.Stop(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if err := srv.fake.Vanish(driver.ID(sb.Instance)); err != nil {
					t.Fatal(err)
				}
				got, err := do(h, t.Context())
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				now := srv.row(t, project(name))
				if !now.Settled() || got.State != now.State {
					t.Errorf("%s: the answer is %s, the state %s, wanted %s", name, got.State, now.State, now.Want)
				}
				back := srv.ensure(t, project(name))
				if back.Incarnation != 2 {
					t.Errorf("%s: came back as incarnation %d", name, back.Incarnation)
				}
				srv.one(t, back)
			}
		}
	})
}

// eager is a store in which the sandbox is used just before a timer acts first.
type eager struct {
	engine.Store
	use   func(id string)
	wishs atomic.Int64
	done  atomic.Bool // the first wish was granted
}

func (e *eager) WantIfIdle(ctx context.Context, seen sandbox.Sandbox, w sandbox.Want, reason, actor string) (sandbox.Sandbox, bool, error) {
	first := e.wishs.Add(1) == 1
	if first {
		e.use(seen.ID)
	}
	s, done, err := e.Store.WantIfIdle(ctx, seen, w, reason, actor)
	if first {
		e.done.Store(done)
	}
	return s, done, err
}

// A use, or a hold, between a timer's decision and its wish makes the wish void.
func TestUseBetweenDecisionAndWish(t *testing.T) {
	testkit.Proves(t, "T6")
	for name, use := range map[string]func(srv *server, id string) error{
		"use": func(srv *server, id string) error {
			_, err := srv.db.In("default").Want(context.Background(), id, sandbox.WantRunning, "test", "test")
			return err
		},
		"hold": func(srv *server, id string) error {
			return srv.db.Holds().Hold(context.Background(), id, "turn", "1", time.Now().Add(time.Hour))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, at place) {
				srv := at.open(t)
				sb := srv.ensure(t, project("a"))
				store := &eager{Store: srv.Options().Store, use: func(id string) {
					if err := use(srv, id); err != nil {
						t.Error(err)
					}
				}}
				idle := srv.twin(func(o *engine.Options) {
					o.Store = store
					o.Policy = func(sandbox.Sandbox) sandbox.Policy {
						return sandbox.Policy{Timers: sandbox.Timers{Stop: time.Second}}
					}
				})
				if _, err := srv.db.In("default").Want(t.Context(), sb.ID, sandbox.WantRunning, "test", "test"); err != nil {
					t.Fatal(err) // makes it due
				}
				idle.reconcile(t, func() error {
					if store.wishs.Load() == 0 {
						return errors.New("no timer has fired")
					}
					return nil
				})
				now := srv.row(t, project("a"))
				if store.done.Load() || store.wishs.Load() == 1 && now.State != sandbox.Running {
					t.Errorf("the first wish was granted: %v; it is %s and wanted %s", store.done.Load(), now.State, now.Want)
				}
			})
		})
	}
}

// More owners than the tenant may have sandboxes ask at once, each twice: as many get one as may, both of
// their requests; and a place that becomes free is free at once.
func TestQuotaUnderARace(t *testing.T) {
	testkit.Proves(t, "E6", "O1")
	const most, askers = 10, 40
	onBoth(t, func(t *testing.T, at place) {
		srv := at.open(t, func(o *engine.Options) { o.MaxSandboxes = most })
		var (
			wg  sync.WaitGroup
			got [askers]atomic.Int64
		)
		for i := range askers {
			for range 2 {
				wg.Go(func() {
					err := retried(func() error {
						_, _, err := srv.Ensure(t.Context(), engine.Request{Owner: project(fmt.Sprint(i)), Actor: "test"})
						return err
					})
					switch {
					case err == nil:
						got[i].Add(1)
					case fault.CodeOf(err) != api.CodeQuotaExceeded:
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		served := 0
		for i := range got {
			if n := got[i].Load(); n == 1 {
				t.Errorf("of two requests for one sandbox one was served and one refused")
			} else if n == 2 {
				served++
			}
		}
		if served != most || len(srv.live(t)) != most || srv.creates(t) != most {
			t.Errorf("%d owners were served, there are %d instances after %d creates", served, len(srv.live(t)), srv.creates(t))
		}
		if _, err := srv.Delete(t.Context(), "default", srv.rows(t)[0].ID, "test", true); err != nil {
			t.Fatal(err)
		}
		srv.ensure(t, project("one more"))
	})
}

// A sandbox whose end the driver holds up has given its place back.
func TestEndingSandboxHoldsNoPlace(t *testing.T) {
	testkit.Proves(t, "E6", "O6")
	onBoth(t, func(t *testing.T, at place) {
		srv := at.open(t, func(o *engine.Options) { o.MaxSandboxes = 1 })
		sb := srv.ensure(t, project("a"))
		srv.fake.On(fake.Destroy).Fail(driver.ErrUnauthenticated)
		if got, err := srv.Delete(t.Context(), "default", sb.ID, "test", true); err != nil || got.State != sandbox.Terminating {
			t.Fatalf("%s, %v", got.State, err)
		}
		srv.ensure(t, project("b"))
		if used, err := srv.db.In("default").Reservations().QuotaUsed(t.Context(), store.QuotaSandboxes); err != nil || used != 1 {
			t.Errorf("%d places are taken, %v", used, err)
		}
	})
}
