package fleet

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/berthdev/berth/client"
)

// Client returns a client of the i-th server. It finds the server's current address for each request.
func (f *Fleet) Client(i int, opts ...client.Option) *client.Client {
	return f.client(f.replicas[i:i+1], opts)
}

// Any returns a client of all running servers. Each request goes to the next server, so that a retry reaches another
// server than the first attempt.
func (f *Fleet) Any(opts ...client.Option) *client.Client { return f.client(f.replicas, opts) }

func (f *Fleet) client(among []*replica, opts []client.Option) *client.Client {
	opts = append([]client.Option{client.WithTransport(f.balance(among))}, opts...)
	c, err := client.New("http://fleet.invalid", Key, opts...)
	if err != nil {
		panic(err) // address and key are constants
	}
	return c
}

// Transport returns a transport that sends each request to the next running server.
func (f *Fleet) Transport() http.RoundTripper { return f.balance(f.replicas) }

// balancer sends requests to servers in turn.
type balancer struct {
	among []*replica
	turn  atomic.Int64
	via   http.RoundTripper
}

// balance returns a balancer that starts with a random server, so that clients do not all start with the same one.
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

// reach returns the server's address and the transport for requests to it.
func (r *replica) reach(network http.RoundTripper) (addr string, via http.RoundTripper) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sys != nil {
		return r.addr, r.sys
	}
	return r.addr, network
}

// transport returns a transport for all clients of a fleet. Its idle connections are closed when the test ends.
func transport(t testing.TB) http.RoundTripper {
	via := &http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: patience}
	t.Cleanup(via.CloseIdleConnections)
	return via
}
