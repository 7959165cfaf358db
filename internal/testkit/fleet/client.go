package fleet

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/berthdev/berth/client"
)

// Client calls the i-th server, wherever it listens by then.
func (f *Fleet) Client(i int, opts ...client.Option) *client.Client {
	return f.client(f.replicas[i:i+1], opts)
}

// Any calls a server that runs, each request the next one: a call that is repeated after a lost answer, or
// after one that says it may be, goes to another server.
func (f *Fleet) Any(opts ...client.Option) *client.Client { return f.client(f.replicas, opts) }

func (f *Fleet) client(among []*replica, opts []client.Option) *client.Client {
	opts = append([]client.Option{client.WithTransport(f.balance(among))}, opts...)
	c, err := client.New("http://fleet.invalid", Key, opts...)
	if err != nil {
		panic(err) // address and key are constants
	}
	return c
}

// Transport sends requests to servers that run, in turn.
func (f *Fleet) Transport() http.RoundTripper { return f.balance(f.replicas) }

// balancer sends requests to servers in turn.
type balancer struct {
	among []*replica
	turn  atomic.Int64
	via   http.RoundTripper
}

// balance begins anywhere, so that many clients do not all begin with the same server.
func (f *Fleet) balance(among []*replica) *balancer {
	b := &balancer{among: among, via: f.transport}
	b.turn.Store(rand.Int64N(int64(len(among))))
	return b
}

var errNobody = errors.New("no server of the fleet runs")

// RoundTrip implements http.RoundTripper.
func (b *balancer) RoundTrip(req *http.Request) (*http.Response, error) {
	for range b.among {
		to, via := b.among[int(b.turn.Add(1))%len(b.among)].reach(b.via)
		if to == "" {
			continue
		}
		req = req.Clone(req.Context())
		req.URL.Host, req.Host = to, to
		return via.RoundTrip(req)
	}
	if req.Body != nil {
		_ = req.Body.Close()
	}
	return nil, errNobody
}

// reach is where and how requests get to the server.
func (r *replica) reach(network http.RoundTripper) (addr string, via http.RoundTripper) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sys != nil {
		return r.addr, r.sys
	}
	return r.addr, network
}

// transport keeps connections of all the clients of a fleet, and none beyond it.
func transport(t testing.TB) http.RoundTripper {
	via := &http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: patience}
	t.Cleanup(via.CloseIdleConnections)
	return via
}
