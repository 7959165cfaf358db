package fleet_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fleet"
)

// load is a set of clients that work: each requests the sandbox of one owner after the other, and of earlier owners
// again. The clients retry requests up to a limit.
type load struct {
	*testing.T
	f    *fleet.Fleet
	told *answers
	sent counter

	calls  atomic.Int64 // create calls without an error
	owners atomic.Int64 // owners whose sandbox was new
	end    func()
}

// startLoad starts clients that work until finish is called. Each sends a request at most the given number of attempts.
func startLoad(t *testing.T, f *fleet.Fleet, clients, attempts int) *load {
	l := &load{T: t, f: f, told: newAnswers()}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() { l.work(ctx, i, attempts) })
	}
	l.end = func() { cancel(); wg.Wait() }
	t.Cleanup(l.end)
	return l
}

func (l *load) work(ctx context.Context, worker, attempts int) {
	c := l.f.Any(client.WithAttempts(attempts), client.WithTransport(&counting{l.f.Transport(), &l.sent}), client.WithTimeout(3*time.Minute))
	for n := 0; ctx.Err() == nil; n++ {
		// The requests do not use ctx, so that the end of the load does not break them off.
		for _, owner := range []string{fmt.Sprintf("owner-%d-%d", worker, n), fmt.Sprintf("owner-%d-%d", worker, n/2)} {
			s, made, err := c.Sandboxes.Create(l.Context(), api.CreateSandbox{Name: owner})
			if err != nil {
				l.Errorf("%s: %v", owner, err)
				return
			}
			if made {
				l.owners.Add(1)
			}
			l.told.add(owner, s, made)
			l.calls.Add(1)
			if err := l.use(c, s.ID, n); err != nil {
				l.Errorf("%s: %v", owner, err)
				return
			}
		}
	}
}

// use reads the sandbox, and sometimes stops or restarts it.
func (l *load) use(c *client.Client, id string, n int) error {
	_, err := c.Sandboxes.Get(l.Context(), id)
	if err == nil && n%4 == 0 {
		_, err = c.Sandboxes.Stop(l.Context(), id)
	}
	if err == nil && n%4 == 1 {
		_, err = c.Sandboxes.Restart(l.Context(), id)
	}
	return err
}

// finish ends the load and checks the sandboxes against the answers that clients got.
func (l *load) finish() {
	l.Helper()
	l.end()
	testkit.Eventually(l, 2*time.Minute, func() error { return l.f.Unsettled(l.Context()) })
	l.told.oneEach(l.T, int(l.owners.Load()))
	rows := 0
	for s, err := range l.f.Any().Sandboxes.List(l.Context(), client.SandboxFilter{}) {
		if err != nil {
			l.Fatal(err)
		}
		if !l.told.ids[s.Owner.ID][s.ID] {
			l.Errorf("%s has %s, which nobody was told of", s.Owner.ID, s.ID)
		}
		rows++
	}
	if rows != int(l.owners.Load()) {
		l.Errorf("there are %d sandboxes, and %d owners were told that they have one", rows, l.owners.Load())
	}
	if found := fleet.Doubles(l.f.Calls()); len(found) > 0 {
		l.Error(found)
	}
	l.Logf("%d owners, %d calls, %s", l.owners.Load(), l.calls.Load(), &l.sent)
}

// counter counts answers by status.
type counter struct {
	mu    sync.Mutex
	codes map[string]int
}

func (c *counter) add(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.codes == nil {
		c.codes = map[string]int{}
	}
	c.codes[code]++
}

func (c *counter) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.codes)
}

// counting is a transport that counts answers by status.
type counting struct {
	via  http.RoundTripper
	sent *counter
}

func (c *counting) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := c.via.RoundTrip(req)
	if err != nil {
		c.sent.add("no answer")
		return nil, err
	}
	c.sent.add(res.Status)
	return res, nil
}
