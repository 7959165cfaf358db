package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
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

// running are the calls under way in this process. Calls that other servers run are not among them.
type running struct {
	mu    sync.Mutex
	calls map[place]map[*oneCall]bool
}

type oneCall struct {
	id     string
	cancel context.CancelCauseFunc
}

// begin adds a call. Its context ends when it is cancelled, and with end.
func (r *running) begin(ctx context.Context, at place, id json.RawMessage) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	one := &oneCall{string(id), cancel}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[place]map[*oneCall]bool{}
	}
	if r.calls[at] == nil {
		r.calls[at] = map[*oneCall]bool{}
	}
	r.calls[at][one] = true
	return ctx, func() {
		cancel(nil)
		r.mu.Lock()
		defer r.mu.Unlock()
		if delete(r.calls[at], one); len(r.calls[at]) == 0 {
			delete(r.calls, at)
		}
	}
}

// cancel ends the call with the id. Where two calls have it, made by two clients with one key, it is not known
// which is meant, and none is ended.
func (r *running) cancel(at place, id json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var meant []*oneCall
	for one := range r.calls[at] {
		if one.id == string(id) {
			meant = append(meant, one)
		}
	}
	if len(meant) == 1 {
		meant[0].cancel(errCancelled)
	}
}

// cancelAll ends all calls of a place.
func (r *running) cancelAll(at place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for one := range r.calls[at] {
		one.cancel(errCancelled)
	}
}

// streams reports whether the answer to a request is a stream: it wants to be told of progress, takes streams, and
// its answer is not kept for a repeat.
func streams(r *http.Request, m message) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	return m.Method == "tools/call" && len(m.Params.Meta.ProgressToken) > 0 && r.Header.Get("Idempotency-Key") == "" && strings.Contains(accept, "text/event-stream")
}

// reportEvery is how often a caller that asked for it is told that its call goes on.
const reportEvery = time.Second

// report tells of a call's progress, in seconds, until it is stopped.
func (u *use) report(ctx context.Context, req *sdk.CallToolRequest) (stop func()) {
	token := req.Params.GetProgressToken()
	if !u.streams || token == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	begun, tick := time.Now(), time.NewTicker(reportEvery)
	wg.Go(func() {
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			took := time.Since(begun)
			err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: token, Progress: took.Seconds(), Message: fmt.Sprintf("%.100s has run for %s", req.Params.Name, took.Round(time.Second)),
			})
			if err != nil {
				return // the caller is gone, which ends the call as well
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}
