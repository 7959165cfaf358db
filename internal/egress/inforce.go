package egress

import (
	"context"
	"sync"
)

// inForce holds the rules of a proxy, which may change, and the requests that it serves.
type inForce struct {
	mu       sync.Mutex
	rules    Rules
	requests map[*underway]struct{}
}

// underway is a request that is being served.
type underway struct {
	target target
	end    context.CancelFunc
}

func newInForce(rules Rules) *inForce {
	return &inForce{rules: rules, requests: map[*underway]struct{}{}}
}

func (f *inForce) allow(t target) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rules.allow(t)
}

// begin registers a request if the rules allow its target. The context ends with done, or when the rules change and do
// not allow the target. The caller calls done at the end of the request.
func (f *inForce) begin(ctx context.Context, t target) (_ context.Context, done func(), ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.rules.allow(t) {
		return nil, nil, false
	}
	ctx, end := context.WithCancel(ctx)
	r := &underway{t, end}
	f.requests[r] = struct{}{}
	return ctx, func() {
		end()
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.requests, r)
	}, true
}

// change replaces the rules and ends the requests that the new ones do not allow.
func (f *inForce) change(rules Rules) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = rules
	for r := range f.requests {
		if !rules.allow(r.target) {
			r.end()
		}
	}
}
