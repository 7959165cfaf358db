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

// errCancelled is the cause of the end of a call that the caller cancelled.
var errCancelled = errors.New("the call was cancelled")

// message has the fields of a message that this package needs before the SDK reads the message. It is empty if the
// message is not valid; the SDK then reports the error.
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

// place identifies the calls of one caller in one sandbox. There are no sessions: two clients with one key are the same
// caller.
type place struct{ caller, path string }

// Calls records the calls of all servers that share a database, so that a server can cancel a call that another server
// runs. The arguments client and request are digests.
type Calls interface {
	Begin(ctx context.Context, c store.ToolCall) error
	End(ctx context.Context, id string) error
	Cancel(ctx context.Context, client, request string) (ids []string, err error)
	CancelAll(ctx context.Context, client string) (ids []string, err error)
	ListCancelled(ctx context.Context, server string) (ids []string, err error)
	Renew(ctx context.Context, server string) error
}

// running holds the calls in progress in this process.
type running struct {
	shared Calls  // nil: this is the only server
	server string // the id of this process in shared

	mu       sync.Mutex
	calls    map[place]map[*oneCall]bool
	watching bool // the goroutine of watch is running
}

type oneCall struct {
	request string // the id of the JSON-RPC request
	id      string // the id in shared; empty: the call is not recorded there
	cancel  context.CancelCauseFunc
}

// begin adds a call. The returned context ends when the call is cancelled or end is called.
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
			_ = r.shared.End(ctx, one.id) // after an error the record is removed later
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

// cancel ends the call with a request id, on any server. Two clients with one key may use the same id at once. Then it
// is not clear which call to end, and cancel ends neither.
func (r *running) cancel(ctx context.Context, at place, request json.RawMessage) error {
	if r.shared != nil {
		ids, err := r.shared.Cancel(ctx, at.digest(), digest(string(request)))
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
	_, err := r.shared.CancelAll(ctx, at.digest())
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

// streams reports whether the answer to a request is a stream: the request asks for progress, accepts streams, and has
// no Idempotency-Key, whose answers are stored.
func streams(r *http.Request, m message) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	return m.Method == "tools/call" && len(m.Params.Meta.ProgressToken) > 0 && r.Header.Get("Idempotency-Key") == "" && strings.Contains(accept, "text/event-stream")
}
