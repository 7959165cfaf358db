// Package mcp serves the tools of a sandbox over the Model Context Protocol: [Handler] is one endpoint of
// streamable HTTP.
//
// It keeps no session. Every request stands for itself, names its sandbox by its address and is answered
// with one JSON document, so that any replica can answer any of them. A tool call that asks for progress is answered
// with a stream, which ends with the result. What a session would be for, calls and notices from the server, is
// not offered.
//
// A call ends, with what it runs in the sandbox, when its connection is closed, by notifications/cancelled, and by
// DELETE, which ends all calls of the caller in the sandbox. Behind a balancer these may come to another server than
// the one that runs the call: [Calls] has the calls of all of them.
//
// Who may call, from which page and under which name of this host, is for whoever stands in front to check.
package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/tool"
)

// Options are what an endpoint is made of. All of them are needed.
type Options struct {
	Tools   *tool.Set // with those of MCP servers in the sandbox, under names of their own
	Version string    // what the server says it is

	// Box finds the sandbox that a request is for. It is asked once for each, before anything is done.
	Box func(r *http.Request) (tool.Box, error)

	// Caller names who makes a request: calls are cancelled by the caller that made them.
	Caller func(r *http.Request) string

	// Calls are those of all servers with this database; nil where this is the only one.
	Calls Calls

	// Problem puts an error into the words that a caller may read, and logs what it may not.
	Problem func(ctx context.Context, err error) *api.Problem

	// Fail answers a request with the problem that an error is.
	Fail func(w http.ResponseWriter, r *http.Request, err error)
}

// maxBody is how large a request may be; whoever stands in front takes less.
const maxBody = 64 << 20

// Handler is the endpoint. Its requests are POSTs, and DELETEs that end the caller's calls.
func Handler(o Options) http.Handler {
	server := newServer(o)
	protocol := func(json bool) http.Handler {
		return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
			Stateless: true, JSONResponse: json, MaxRequestBodyBytes: maxBody,
			// It refuses every name but localhost on a loopback address, where a proxy of the same machine
			// passes the server's own name on. The one in front knows which names are ours.
			DisableLocalhostProtection: true,
		})
	}
	return &handler{Options: o, protocol: protocol(true), stream: protocol(false), calls: running{shared: o.Calls, server: store.NewID()}}
}

type handler struct {
	Options
	protocol http.Handler // answers with one document
	stream   http.Handler // answers with a stream
	calls    running
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := place{h.Caller(r), r.URL.Path}
	if r.Method == http.MethodDelete {
		if _, err := h.Box(r); err != nil {
			h.Fail(w, r, err)
			return
		}
		if err := h.calls.cancelAll(r.Context(), at); err != nil {
			h.Fail(w, r, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	r, m, err := h.prepare(w, r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	protocol, u := h.protocol, r.Context().Value(useKey{}).(*use)
	switch m.Method {
	case "notifications/cancelled":
		if err := h.calls.cancel(r.Context(), at, m.Params.RequestID); err != nil {
			h.Fail(w, r, err)
			return
		}
	case "tools/call":
		var end func()
		u.ctx, end = h.calls.begin(u.ctx, at, m.ID)
		defer end()
		if u.streams = streams(r, m); u.streams {
			protocol = h.stream
		}
	}
	answer := &answer{ResponseWriter: w}
	protocol.ServeHTTP(answer, r)
	if answer.refused != 0 {
		h.Fail(w, r, answer.err())
	}
}

// prepare checks what the protocol's implementation leaves open, and finds the sandbox.
func (h *handler) prepare(w http.ResponseWriter, r *http.Request) (*http.Request, message, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "DELETE, POST")
		return r, message{}, sandbox.Errorf("", api.CodeMethodNotAllowed, "this endpoint takes POST, and DELETE to end calls: it has no session and sends nothing by itself")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return r, message{}, unread(err)
	}
	// Batches are gone from the protocol. They would have one request do any number of things at once.
	if strings.HasPrefix(strings.TrimLeft(string(body[:min(len(body), 1000)]), " \t\r\n"), "[") {
		return r, message{}, sandbox.Errorf("", api.CodeInvalidRequest, "a request holds one message, not a list of them")
	}
	box, err := h.Box(r)
	if err != nil {
		return r, message{}, err
	}
	ctx := r.Context()
	one := r.Clone(context.WithValue(ctx, useKey{}, &use{ctx: ctx, box: box}))
	one.Body, one.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	lenient(one.Header)
	return one, messageIn(body), nil
}

func unread(err error) error {
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return sandbox.Errorf("", api.CodeBodyTooLarge, "the body is larger than %d bytes", large.Limit)
	}
	return sandbox.Errorf("", api.CodeInvalidRequest, "the body broke off: %w", err)
}

// lenient fills in the headers that people leave out. Clients have to accept a stream, too, which never
// comes: who takes JSON can be answered.
func lenient(h http.Header) {
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	accept := strings.Join(h.Values("Accept"), ",")
	if accept == "" || strings.Contains(accept, "application/json") {
		h.Set("Accept", "application/json, text/event-stream")
	}
}

// answer is a response whose refusals, which are plain text, are kept back to become problems.
type answer struct {
	http.ResponseWriter
	refused int
	text    []byte
}

func (a *answer) WriteHeader(status int) {
	if status >= http.StatusBadRequest && strings.HasPrefix(a.Header().Get("Content-Type"), "text/plain") {
		a.refused = status
		return
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	if a.refused == 0 {
		return a.ResponseWriter.Write(p)
	}
	const enough = 500
	a.text = append(a.text, p[:min(len(p), enough-len(a.text))]...)
	return len(p), nil
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) err() error {
	code := api.CodeInvalidRequest
	switch a.refused {
	case http.StatusUnsupportedMediaType:
		code = api.CodeUnsupportedMedia
	case http.StatusInternalServerError:
		code = api.CodeInternal
	}
	text := strings.TrimPrefix(strings.TrimSpace(strings.ToValidUTF8(string(a.text), "")), "Bad Request: ")
	e := sandbox.Errorf("", code, "%s", text)
	e.Hint = "Send one JSON-RPC message of the Model Context Protocol; its client libraries do."
	return e
}

// useKey finds the use in a context: the protocol's implementation passes values on, and no end.
type useKey struct{}

// use is one request's sandbox.
type use struct {
	ctx     context.Context // of the request: a caller that is gone ends what it asked for
	box     tool.Box
	streams bool // its answer is a stream
}
