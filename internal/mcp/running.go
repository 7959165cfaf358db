package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/berthdev/berth/internal/store"
)

// errCancelled is the cause of a call's end that its caller asked for.
var errCancelled = errors.New("the call was cancelled")

// message is what must be known of a message before the protocol's implementation has it. One that cannot be read
// is empty, and that implementation says what is wrong.
type message struct {
	ID     json.RawMessage
	Method string
	Params struct {
		RequestID json.RawMessage
		Meta      struct{ ProgressToken json.RawMessage } `json:"_meta"`
	}
}

func messageIn(body []byte) (m message) {
	if json.Unmarshal(body, &m) != nil {
		return message{}
	}
	return m
}

// place is whose calls, and in which sandbox. There are no sessions: two clients with one key are one caller.
type place struct{ caller, path string }

// Calls records the calls of all servers that share a database, so that a notice ends a call that another server
// runs. The texts that it is given are digests.
type Calls interface {
	BeginToolCall(ctx context.Context, c store.ToolCall) error
	EndToolCall(ctx context.Context, id string) error
	CancelToolCall(ctx context.Context, client, request string) (ids []string, err error)
	CancelToolCalls(ctx context.Context, client string) (ids []string, err error)
	CancelledToolCalls(ctx context.Context, server string) (ids []string, err error)
	RenewToolCalls(ctx context.Context, server string) error
}

// running are the calls under way in this process.
type running struct {
	shared Calls  // nil: this is the only server
	server string // its name in shared

	mu       sync.Mutex
	calls    map[place]map[*oneCall]bool
	watching bool // a goroutine looks for notices that reached other servers
}

type oneCall struct {
	request string
	id      string // in shared; empty where it is not recorded
	cancel  context.CancelCauseFunc
}

// begin adds a call. Its context ends when it is cancelled, and with end.
func (r *running) begin(ctx context.Context, at place, request json.RawMessage) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	one := &oneCall{request: string(request), id: r.record(ctx, at, request), cancel: cancel}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[place]map[*oneCall]bool{}
	}
	if r.calls[at] == nil {
		r.calls[at] = map[*oneCall]bool{}
	}
	r.calls[at][one] = true
	if one.id != "" && !r.watching {
		r.watching = true
		go r.watch()
	}
	return ctx, func() {
		cancel(nil)
		r.remove(at, one)
		if one.id != "" {
			ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
			defer stop()
			_ = r.shared.EndToolCall(ctx, one.id) // else it is removed later
		}
	}
}

func (r *running) remove(at place, one *oneCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.calls[at], one); len(r.calls[at]) == 0 {
		delete(r.calls, at)
	}
}

// cancel ends the call with the id, on whichever server it runs. Where two calls have it, made by two clients with
// one key, it is not known which is meant, and none is ended.
func (r *running) cancel(ctx context.Context, at place, request json.RawMessage) error {
	if r.shared != nil {
		ids, err := r.shared.CancelToolCall(ctx, at.digest(), digest(string(request)))
		r.end(func(_ place, one *oneCall) bool { return slices.Contains(ids, one.id) })
		return err
	}
	same := func(of place, one *oneCall) bool { return of == at && one.request == string(request) }
	if r.count(same) == 1 {
		r.end(same)
	}
	return nil
}

// cancelAll ends all calls of a place.
func (r *running) cancelAll(ctx context.Context, at place) error {
	r.end(func(of place, _ *oneCall) bool { return of == at })
	if r.shared == nil {
		return nil
	}
	_, err := r.shared.CancelToolCalls(ctx, at.digest())
	return err
}

// each calls f for every call that matches.
func (r *running) each(matches func(place, *oneCall) bool, f func(*oneCall)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, calls := range r.calls {
		for one := range calls {
			if matches(at, one) {
				f(one)
			}
		}
	}
}

func (r *running) end(matches func(place, *oneCall) bool) {
	r.each(matches, func(one *oneCall) { one.cancel(errCancelled) })
}

func (r *running) count(matches func(place, *oneCall) bool) (n int) {
	r.each(matches, func(*oneCall) { n++ })
	return n
}

// streams reports whether the answer to a request is a stream: it asks for progress, takes streams, and
// its answer is not kept for a repeat.
func streams(r *http.Request, m message) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	return m.Method == "tools/call" && len(m.Params.Meta.ProgressToken) > 0 && r.Header.Get("Idempotency-Key") == "" && strings.Contains(accept, "text/event-stream")
}
