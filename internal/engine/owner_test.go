package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// deleteBriefly asks for the end of a sandbox and does not wait for it.
func (s *server) deleteBriefly(t *testing.T, sb sandbox.Sandbox) sandbox.Sandbox {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	left, err := s.Delete(ctx, "default", sb.ID, "test", false)
	if err != nil || !left.Deleted() {
		t.Fatalf("%+v, %v", left, err)
	}
	return left
}

// Destroy takes its time. Until it is done the owner has no other instance: who ensures it waits, at the
// server that deletes and at another.
func TestEnsureWaitsUntilTheDeletedSandboxIsGone(t *testing.T) {
	testkit.Proves(t, "O1", "O6")
	at := onPostgres(t)
	servers := []*server{at.open(t), at.open(t)}
	old := servers[0].ensure(t, project("a"))
	release := make(chan struct{})
	servers[0].fake.On(fake.Destroy).Do(func() { <-release })
	if left := servers[0].deleteBriefly(t, old); left.State == sandbox.Terminated {
		t.Fatalf("%+v", left)
	}
	var wg sync.WaitGroup
	got := make([]sandbox.Sandbox, 6)
	for i := range got {
		wg.Go(func() { got[i] = servers[i%2].ensure(t, project("a")) })
	}
	joined := make(chan sandbox.Sandbox, 1) // a second delete waits for the same end
	wg.Go(func() {
		gone, err := servers[1].Delete(t.Context(), "default", old.ID, "test", false)
		if err != nil {
			t.Error(err)
		}
		joined <- gone
	})
	for range 20 {
		<-time.After(10 * time.Millisecond)
		if live := servers[0].live(t); len(live) != 1 || len(live[old.ID]) != 1 {
			t.Errorf("the driver has %v while the first is being ended", live)
		}
	}
	close(release)
	wg.Wait()
	if gone := <-joined; gone.State != sandbox.Terminated {
		t.Errorf("the second delete returned %+v", gone)
	}
	for _, sb := range got {
		if sb.ID == old.ID || sb.ID != got[0].ID {
			t.Errorf("ensured %s and %s after %s", sb.ID, got[0].ID, old.ID)
		}
	}
	servers[0].one(t, got[0])
	if n := servers[0].creates(t); n != 2 {
		t.Errorf("%d creates", n)
	}
}

// A delete that cannot be finished in time keeps its owner, and the answer says what it waits for: an
// object store that is down does not make a second machine.
func TestEnsureSaysWhatTheDeleteWaitsFor(t *testing.T) {
	testkit.Proves(t, "O1")
	onBoth(t, func(t *testing.T, at place) {
		saves := &outage{err: errors.New("the object store is down")}
		srv := at.open(t, func(o *engine.Options) {
			o.Restorer, o.GoneWait = saves, 100*time.Millisecond
			o.Policy = func(sandbox.Sandbox) sandbox.Policy {
				return sandbox.Policy{RetryEvery: time.Millisecond, SaveFor: time.Hour}
			}
		})
		old := srv.ensure(t, project("a"))
		srv.deleteBriefly(t, old)
		_, _, err := srv.Ensure(t.Context(), engine.Request{Owner: project("a")})
		var problem *fault.Error
		if !errors.As(err, &problem) || problem.Code != api.CodeDeleting || !problem.Retry || !strings.Contains(err.Error(), "object store is down") || !strings.Contains(err.Error(), old.ID) {
			t.Errorf("%v", err)
		}
		srv.one(t, old)
		if n, err := srv.db.In("default").Reservations().QuotaUsed(t.Context(), store.QuotaSandboxes); err != nil || n != 0 {
			t.Errorf("the quota counts %d (%v)", n, err)
		}
		saves.mend()
		srv.reconcile(t, func() error {
			sb, _, err := srv.Ensure(t.Context(), engine.Request{Owner: project("a")})
			if err == nil && sb.ID == old.ID {
				err = errors.New("it was revived")
			}
			return err
		})
	})
}

// outage is a Restorer whose saves fail until it is mended.
type outage struct {
	restorer
	mu  sync.Mutex
	err error
}

func (s *outage) mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = nil
}

func (s *outage) Save(ctx context.Context, sb sandbox.Sandbox) (sandbox.SyncMark, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return sandbox.SyncMark{}, s.err
	}
	return s.restorer.Save(ctx, sb)
}

// An owner whose sandbox is being deleted on another machine is waited for, not taken.
func TestEnsureWaitsForADeleteOnAnotherMachine(t *testing.T) {
	at := onPostgres(t)
	pinned := func(host string) func(*engine.Options) {
		return func(o *engine.Options) {
			withHelpers(new(manned))(o)
			o.Host, o.GoneWait = host, 100*time.Millisecond
		}
	}
	there, here := at.open(t, pinned("there")), at.open(t, pinned("here"))
	old := there.ensure(t, project("a"))
	if old.Host != "there" {
		t.Fatalf("pinned to %q", old.Host)
	}
	here.deleteBriefly(t, old)
	_, _, err := here.Ensure(t.Context(), engine.Request{Owner: project("a")})
	problem, _ := errors.AsType[*fault.Error](err)
	if problem == nil || problem.Code != api.CodeDeleting || !strings.Contains(err.Error(), "is on the machine there") || !strings.Contains(problem.Hint, "berth host forget there") {
		t.Errorf("%#v", err)
	}
	there.reconcile(t, func() error {
		sb, _, err := here.Ensure(t.Context(), engine.Request{Owner: project("a")})
		if err == nil && sb.Host != "here" {
			t.Errorf("pinned to %q", sb.Host)
		}
		return err
	})
}
