// Package mcp serves the tools of a sandbox over the Model Context Protocol: [Handler] returns an endpoint of its
// streamable HTTP transport.
//
// There are no sessions. The path of a request names its sandbox, and the answer is one JSON document, so any server can
// answer any request. A tool call that asks for progress is answered with a stream, which ends with the result. The
// features that need a session, requests and notifications from the server, are not offered.
//
// A call and its command in the sandbox end when the call's connection is closed, by notifications/cancelled, and by
// DELETE, which ends all calls of the caller in the sandbox. A load balancer may send these to another server than the
// one that runs the call, so [Calls] records the calls of all servers.
//
// Handler does not check keys, the Origin header or the Host header: the handler in front of it does.
package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/tool"
)

// Options configure an endpoint. All fields but Calls are required.
type Options struct {
	Tools   *tool.Set // the built-in tools, and the tools of MCP servers in the sandbox
	Version string    // the version of the server that clients see

	// Handle returns the sandbox of a request. It is called once for each request, before the request has an effect.
	Handle func(r *http.Request) (*engine.Handle, error)

	// Caller returns the identity of the caller. A caller can cancel only its own calls.
	Caller func(r *http.Request) string

	// Calls records the calls of all servers with this database; nil: this is the only server.
	Calls Calls

	// Problem converts an error to a problem for the caller, and logs the details that the caller may not see.
	Problem func(ctx context.Context, err error) *api.Problem

	// Fail answers a request with an error.
	Fail func(w http.ResponseWriter, r *http.Request, err error)
}

// maxBody is the maximum size of a request in bytes. The handlers in front of this one have a lower limit.
const maxBody = 64 << 20

// Handler returns the endpoint. It accepts POST for messages, and DELETE to end the caller's calls.
func Handler(o Options) http.Handler {
	server := newServer(o)
	protocol := func(json bool) http.Handler {
		return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
			Stateless: true, JSONResponse: json, MaxRequestBodyBytes: maxBody,
			// The protection refuses every Host but localhost on a loopback address. A proxy on the same
			// machine sends the public name there. The handler in front checks the Host header.
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
		if _, err := h.Handle(r); err != nil {
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
	switch {
	case answer.refused != 0:
		h.Fail(w, r, answer.err())
	case u.streams && r.Context().Err() != nil:
		h.breakOff(w, r, m.ID)
	}
}

// breakOff ends the stream of a call with an error, if the request ended before the call: the server shuts down or the
// key was revoked.
func (h *handler) breakOff(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
	message, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": id,
		"error": map[string]any{"code": jsonrpc.CodeInternalError, "message": words(h.Problem(r.Context(), r.Context().Err()))},
	})
	if err == nil {
		_, _ = fmt.Fprintf(w, "event: message\ndata: %s\n\n", message) // the client may be gone
	}
}

// prepare does the checks that the SDK does not do, and finds the sandbox.
func (h *handler) prepare(w http.ResponseWriter, r *http.Request) (*http.Request, message, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "DELETE, POST")
		return r, message{}, fault.Errorf("", api.CodeMethodNotAllowed, "this endpoint takes POST, and DELETE to end calls: it has no session and sends nothing by itself")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return r, message{}, unread(err)
	}
	// The protocol has no batches any more. A batch could make any number of calls with one request.
	if strings.HasPrefix(strings.TrimLeft(string(body[:min(len(body), 1000)]), " \t\r\n"), "[") {
		return r, message{}, fault.Errorf("", api.CodeInvalidRequest, "a request holds one message, not a list of them")
	}
	handle, err := h.Handle(r)
	if err != nil {
		return r, message{}, err
	}
	ctx := r.Context()
	one := r.Clone(context.WithValue(ctx, useKey{}, &use{ctx: ctx, handle: handle}))
	one.Body, one.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	lenient(one.Header)
	return one, messageIn(body), nil
}

// unread converts an error of reading the body of a request.
func unread(err error) error {
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fault.Errorf("", api.CodeBodyTooLarge, "the body is larger than %d bytes", large.Limit)
	}
	return fault.Errorf("", api.CodeInvalidRequest, "the body broke off: %w", err)
}

// lenient sets headers that clients often leave out. The protocol requires clients to accept streams, but a client that
// accepts only JSON can be answered too.
func lenient(h http.Header) {
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	accept := strings.Join(h.Values("Accept"), ",")
	if accept == "" || strings.Contains(accept, "application/json") {
		h.Set("Accept", "application/json, text/event-stream")
	}
}

// answer is a ResponseWriter that holds back the SDK's plain text errors, which are then sent as problems.
type answer struct {
	http.ResponseWriter
	refused int    // the status of the held back error, or 0
	text    []byte // the beginning of its text
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

// Unwrap returns the original ResponseWriter, for http.ResponseController.
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
	e := fault.Errorf("", code, "%s", text)
	e.Hint = "Send one JSON-RPC message of the Model Context Protocol; its client libraries do."
	return e
}

// useKey is the key of the use in a context. The SDK passes on the values of a request's context, but not its end.
type useKey struct{}

// use is one request for a sandbox.
type use struct {
	ctx     context.Context // the context of the request: the call ends when the caller closes the connection
	handle  *engine.Handle
	streams bool // the answer is a stream
}
