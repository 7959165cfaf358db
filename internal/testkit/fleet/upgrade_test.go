package fleet_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fleet"
)

// Servers built from the last commit before the newest migration are replaced, one after the other, by servers of this
// tree. The first new server migrates the database while the old servers still answer. The old servers notice the
// migration, report that they drain, and end. No answer is an internal error, no owner has two sandboxes, and no
// acknowledged effect is lost.
func TestRollingUpgradeFromBeforeTheNewestMigration(t *testing.T) {
	t.Parallel() // the test proves no requirement, because it is skipped in a tree without history
	before := testkit.BinaryBefore(t)
	t.Logf("the old servers are of %s; they notice a newer schema: %v", before.Commit, before.Drains)
	const servers = 3
	f := fleet.New(t, fleet.Options{
		Replicas: servers, Exe: before.Exe, LeaseTTL: 3 * time.Second,
		Local: talkingTemplate + "driver = \"local\"\n", Env: []string{"BERTH_DEFAULT_DRIVER=fake", "BERTH_OBJECT_STORE=none"},
	})
	l := newUpgradeLoad(t, f, servers)
	l.begin()
	l.progress("on the old servers")
	l.watchReady(0)
	l.watchReady(1)
	f.Upgrade(testkit.Binary(t))
	for _, step := range []struct {
		server int
		first  bool
	}{{2, true}, {1, false}, {0, false}} {
		if before.Drains && !step.first {
			l.wantDrained(step.server)
		} else if err := f.Stop(step.server); err != nil {
			t.Error(err)
		}
		if err := f.Start(step.server); err != nil {
			t.Fatal(err)
		}
		l.progress(fmt.Sprintf("with server %d replaced", step.server))
	}
	l.end()
}

// upgradeLoad is a set of clients that work while servers are replaced.
type upgradeLoad struct {
	*testing.T
	f        *fleet.Fleet
	watchers *watchers
	ctx      context.Context
	stop     context.CancelFunc
	clients  sync.WaitGroup

	mu    sync.Mutex
	owned map[string]string // last confirmed sandbox of each owner; empty: it was deleted
	steps int               // number of acknowledged creates and deletes
	turns int               // number of turns that were finished and compared with the log
	execs int               // number of commands that were run
	left  [3]bool           // whether each server has reported that it drains
}

func newUpgradeLoad(t *testing.T, f *fleet.Fleet, servers int) *upgradeLoad {
	l := &upgradeLoad{T: t, f: f, owned: map[string]string{}, watchers: &watchers{T: t, f: f, servers: servers}}
	l.ctx, l.stop = context.WithCancel(t.Context())
	t.Cleanup(l.stop)
	return l
}

func (l *upgradeLoad) begin() {
	ctx := l.ctx
	c := l.f.Any(client.WithAttempts(always))
	for i := range 4 {
		l.clients.Go(func() { l.useSandbox(ctx, c, fmt.Sprint("owner-", i)) })
	}
	box := conversations(l.T, c, 1)[0]
	conversation, err := c.Conversations.Get(l.Context(), box)
	if err != nil {
		l.Fatal(err)
	}
	for range 2 {
		l.clients.Go(func() { l.talk(ctx, c, conversation.SandboxID) })
	}
	l.clients.Go(func() { l.exec(ctx, c, conversation.SandboxID) })
}

// useSandbox makes, uses and deletes the sandbox of an owner, until ctx ends. The client retries lost and retryable
// requests.
func (l *upgradeLoad) useSandbox(ctx context.Context, c *client.Client, owner string) {
	for n := 0; ctx.Err() == nil; n++ {
		l.mu.Lock()
		was := l.owned[owner]
		l.mu.Unlock()
		id, err := "", error(nil)
		if n%3 == 2 {
			if err = c.Sandboxes.Delete(l.Context(), was); codeOf(err) == api.CodeDeleted {
				err = nil // an earlier attempt deleted it, and its answer was lost
			}
		} else {
			var s api.Sandbox
			s, _, err = c.Sandboxes.Create(l.Context(), api.CreateSandbox{Name: owner})
			id = s.ID
		}
		if err != nil {
			l.Errorf("%s during the upgrade: %v", owner, err)
			return
		}
		l.mu.Lock()
		if n%3 == 1 && id != was {
			l.Errorf("%s was confirmed to have %s, then %s", owner, was, id)
		}
		l.owned[owner] = id
		l.steps++
		l.mu.Unlock()
	}
}

// talk runs turns one after the other, each in a new conversation. The streams are cut off and resumed at another
// server.
func (l *upgradeLoad) talk(ctx context.Context, c *client.Client, box string) {
	for ctx.Err() == nil {
		conversation, _, err := c.Conversations.Create(l.Context(), api.CreateConversation{Template: "talking", SandboxID: box})
		if err == nil {
			err = l.watchers.watch(conversation.ID)
		}
		if err != nil {
			l.Errorf("a turn during the upgrade: %v", err)
			return
		}
		l.mu.Lock()
		l.turns++
		l.mu.Unlock()
	}
}

func (l *upgradeLoad) exec(ctx context.Context, c *client.Client, box string) {
	for n := 0; ctx.Err() == nil; n++ {
		res, err := c.Sandboxes.Exec(l.Context(), box, api.Exec{Command: api.Shell(fmt.Sprint("echo ", n))})
		if err != nil || res.Stdout != fmt.Sprintln(n) {
			l.Errorf("a command during the upgrade: %+v, %v", res, err)
			return
		}
		l.mu.Lock()
		l.execs++
		l.mu.Unlock()
	}
}

func (l *upgradeLoad) done() [3]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return [3]int{l.steps, l.turns, l.execs}
}

// progress waits until every kind of client has made some progress.
func (l *upgradeLoad) progress(when string) {
	l.Helper()
	at := l.done()
	testkit.Eventually(l, 2*time.Minute, func() error {
		now := l.done()
		if l.Failed() {
			l.FailNow()
		}
		for i, least := range [3]int{10, 2, 5} {
			if now[i] < at[i]+least {
				return fmt.Errorf("%s: owners, turns and commands done: %v, then %v", when, at, now)
			}
		}
		return nil
	})
	l.Logf("%s: owners, turns and commands done: %v", when, l.done())
}

// watchReady records that a server reports that it drains.
func (l *upgradeLoad) watchReady(server int) {
	c := l.f.Client(server, client.WithAttempts(1))
	l.clients.Go(func() {
		for l.ctx.Err() == nil {
			if ready, err := c.Ready(l.ctx); err == nil && ready.Status == "draining" {
				l.mu.Lock()
				l.left[server] = true
				l.mu.Unlock()
				return
			}
			<-time.After(20 * time.Millisecond)
		}
	})
}

// wantDrained waits until an old server has ended by itself. The server must have reported that it drains, and its log
// must name the newer version.
func (l *upgradeLoad) wantDrained(server int) {
	l.Helper()
	code, log, err := l.f.Await(server)
	if err != nil || code != 125 || !strings.Contains(log, "newer Berth") {
		l.Errorf("the old server %d ended with %d, %v:\n%s", server, code, err, log)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.left[server] {
		l.Errorf("the readiness of the old server %d did not say that it drains", server)
	}
}

// end stops the clients and checks the final state.
func (l *upgradeLoad) end() {
	l.stop()
	l.clients.Wait()
	if found := fleet.Overlaps(l.f.Lives(), nil); len(found) > 0 {
		l.Errorf("an owner had two at once: %v", found)
	}
	testkit.Eventually(l, 2*time.Minute, l.settled)
}

// settled compares the confirmed sandboxes of the owners with the driver's instances.
func (l *upgradeLoad) settled() error {
	live, err := l.f.Driver.Live()
	if err != nil {
		return err
	}
	have, want := map[string]int{}, map[string]int{}
	for _, st := range live {
		have[st.Key.Sandbox]++
	}
	for _, id := range l.owned {
		if id != "" {
			want[id] = 1
		}
	}
	if !maps.Equal(have, want) {
		return fmt.Errorf("owners have %v; the driver has %v", want, have)
	}
	return nil
}
