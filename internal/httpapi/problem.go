package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// problem is an api.Problem on its way out, with the headers that go with it. It is an error, so that
// handlers return it, and has the methods by which huma knows how to write it.
type problem struct {
	api.Problem
	headers http.Header
}

// GetStatus is the HTTP status to answer with.
func (p *problem) GetStatus() int { return p.Status }

// GetHeaders are the headers to answer with.
func (p *problem) GetHeaders() http.Header { return p.headers }

// ContentType is that of every problem, whatever the client accepts.
func (p *problem) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

// errShutdown is the cause of a context that the end of the server cancelled.
var errShutdown = errors.New("the server is shutting down")

// hidden are the codes whose causes hold addresses, queries and stacks: the log gets them, the client
// gets the code's own words.
var hidden = map[api.Code]string{
	api.CodeInternal:         "something went wrong that should not have",
	api.CodeStoreUnavailable: "the database did not answer this request",
}

// problemOf turns any error into the problem to answer with.
func problemOf(ctx context.Context, err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p.finish(ctx)
	}
	if late := interruption(ctx, err); late != nil {
		return late.finish(ctx)
	}
	e, ok := errors.AsType[*sandbox.Error](err)
	if !ok {
		e = &sandbox.Error{Code: api.CodeInternal, Err: err}
	}
	p := newProblem(e.Code, detailOf(e))
	p.Retryable = e.Retry
	if e.Hint != "" {
		p.Hint = e.Hint
	}
	if words, hide := hidden[p.Code]; hide {
		x := exchangeOf(ctx)
		x.log.ErrorContext(ctx, "request failed", "code", string(p.Code), "error", x.clean(err.Error()))
		p.Detail = words
	}
	return p.finish(ctx)
}

// newProblem fills a problem from the table of codes. Codes that only the command line shows are
// internal here.
func newProblem(code api.Code, detail string) *problem {
	p := &problem{Problem: *api.NewProblem(code, detail), headers: http.Header{}}
	if p.Status == 0 {
		p.Status = http.StatusInternalServerError
	}
	return p
}

func detailOf(e *sandbox.Error) string {
	if e.Err == nil {
		return e.Code.Info().Title
	}
	return e.Err.Error()
}

// interruption is the problem of a request whose time was over before its work was, or nil.
func interruption(ctx context.Context, err error) *problem {
	switch {
	case context.Cause(ctx) == errShutdown && (errors.Is(err, errShutdown) || errors.Is(err, context.Canceled)):
		return newProblem(api.CodeShuttingDown, "the server is shutting down and ended this request")
	case context.Cause(ctx) == errClaimLost:
		return newProblem(api.CodeKeyInFlight, "another server took this Idempotency-Key over and is doing the work")
	case errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return newProblem(api.CodeTimeout, "the work was not done within the time that a request may take")
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return newProblem(api.CodeTimeout, "the client went away before the answer")
	}
	return nil
}

// finish adds what the request at hand contributes.
func (p *problem) finish(ctx context.Context) *problem {
	x := exchangeOf(ctx)
	x.retryable = p.Retryable
	p.RequestID = x.id
	p.Detail = x.clean(p.Detail)
	if p.Retryable && p.headers.Get("Retry-After") == "" {
		p.headers.Set("Retry-After", "1")
	}
	if p.Status == http.StatusUnauthorized {
		p.headers.Set("WWW-Authenticate", `Bearer realm="berth"`)
	}
	return p
}

// fail answers a request with the problem that err is.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	problemOf(r.Context(), err).write(w)
}

// failWith answers a request with a problem of the given code.
func failWith(w http.ResponseWriter, r *http.Request, code api.Code, detail string) {
	newProblem(code, detail).finish(r.Context()).write(w)
}

func (p *problem) write(w http.ResponseWriter) {
	body := p.json()
	h := w.Header()
	for name, values := range p.headers {
		h[name] = values
	}
	h.Set("Content-Type", problemType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // a client that is gone has no use for another error
}

func (p *problem) json() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p.Problem); err != nil {
		panic(err) // a Problem holds nothing that JSON cannot
	}
	return b.Bytes()
}
