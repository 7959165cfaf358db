package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fleet"
)

// crowd is the set of clients for one seed, with their requests and answers.
type crowd struct {
	*testing.T
	f     *fleet.Fleet
	seed  uint64
	began time.Time

	mu      sync.Mutex
	known   map[string][]string // ids of sandboxes by owner, in the order of the first answers with them
	history map[string][]request
}

func newCrowd(t *testing.T, seed uint64, f *fleet.Fleet) *crowd {
	return &crowd{T: t, f: f, seed: seed, began: time.Now(), known: map[string][]string{}, history: map[string][]request{}}
}

// The clients use few owners at a time, so that requests meet. They move on to other owners, so that histories stay
// short.
const (
	ownersAtOnce = 10
	asksEach     = 8 // number of requests of one client before it moves on
)

func (c *crowd) work(faults func(*chaos)) {
	stop := c.begin(faults)
	defer stop()
	var wg sync.WaitGroup
	for i := range testkit.Size(c, "i13.clients") {
		wg.Go(func() {
			dice := rand.New(rand.NewPCG(c.seed, uint64(i)))
			api := c.f.Any(client.WithAttempts(1), client.WithTransport(once{c.f.Transport()}))
			for n := range testkit.Size(c, "i13.operations") {
				owner := fmt.Sprintf("owner-%d-%d", n/asksEach, dice.IntN(ownersAtOnce))
				c.ask(api, i, c.choose(dice, owner))
			}
		})
	}
	wg.Wait()
}

// once is a transport that removes the Idempotency-Key, so that no layer sends a request again.
type once struct{ via http.RoundTripper }

func (o once) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del("Idempotency-Key")
	return o.via.RoundTrip(req)
}

// verbs lists the kinds of requests. The number of entries of a kind is its probability in percent.
var verbs = slices.Concat(
	slices.Repeat([]string{"get"}, 68), slices.Repeat([]string{"ensure"}, 16), slices.Repeat([]string{"start"}, 5), slices.Repeat([]string{"stop"}, 4),
	slices.Repeat([]string{"delete"}, 3), slices.Repeat([]string{"terminate"}, 2), slices.Repeat([]string{"restart"}, 2),
)

// choose returns a random request, mostly for the owner's newest known sandbox.
func (c *crowd) choose(dice *rand.Rand, owner string) request {
	r := request{verb: verbs[dice.IntN(len(verbs))], owner: owner}
	if r.verb == "ensure" || r.verb == "get" && dice.IntN(2) == 0 {
		return r
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := c.known[owner]
	switch {
	case len(ids) == 0:
		r.verb = "ensure"
	case dice.IntN(4) == 0:
		r.id = ids[dice.IntN(len(ids))]
	default:
		r.id = ids[len(ids)-1]
	}
	return r
}

func (c *crowd) ask(to *client.Client, who int, r request) {
	ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
	defer cancel()
	r.client, r.call = who, int64(time.Since(c.began))
	row, err := c.send(ctx, to, &r)
	r.ret = int64(time.Since(c.began))
	r.row = seen{row.ID, row.State, row.Want, row.Instance, row.Incarnation, row.DeletedAt != nil}
	r.code = codeOf(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history[r.owner] = append(c.history[r.owner], r)
	if ids := c.known[r.owner]; row.ID != "" && !slices.Contains(ids, row.ID) {
		c.known[r.owner] = append(ids, row.ID)
	}
}

func (c *crowd) send(ctx context.Context, to *client.Client, r *request) (row api.Sandbox, err error) {
	ref := r.id
	if ref == "" {
		ref = r.owner
	}
	switch r.verb {
	case "ensure":
		row, r.made, err = to.Sandboxes.Create(ctx, api.CreateSandbox{Name: r.owner})
	case "get":
		row, err = to.Sandboxes.Get(ctx, ref)
	case "stop":
		row, err = to.Sandboxes.Stop(ctx, ref)
	case "start":
		row, err = to.Sandboxes.Start(ctx, ref)
	case "restart":
		row, err = to.Sandboxes.Restart(ctx, ref)
	case "terminate":
		row, err = to.Sandboxes.Terminate(ctx, ref)
	case "delete":
		err = to.Sandboxes.Delete(ctx, ref)
		r.done = err == nil
	}
	return row, err
}

// codeOf returns the code of an error, or "" for nil. An error without an answer counts as a timeout.
func codeOf(err error) api.Code {
	var p *api.Problem
	switch {
	case err == nil:
		return ""
	case errors.As(err, &p):
		return p.Code
	}
	return api.CodeTimeout
}

// readAll adds reads of all owners and all known sandboxes at the end.
func (c *crowd) readAll() {
	to := c.f.Any()
	for owner, ids := range c.known {
		c.ask(to, -1, request{verb: "get", owner: owner})
		for _, id := range ids {
			c.ask(to, -1, request{verb: "get", owner: owner, id: id})
		}
	}
}
