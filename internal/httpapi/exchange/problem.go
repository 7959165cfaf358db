package exchange

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
)

// Clip shortens text from a client for use in a message.
func Clip(s string) string { return fault.Clip(s, 80) }

// Problem is an api.Problem with the headers of its answer. Handlers return it as an error. With the methods
// GetStatus, GetHeaders and ContentType, huma can write it.
type Problem struct {
	api.Problem
	Headers http.Header `json:"-"`
}

// GetStatus returns the HTTP status of the answer.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders returns the headers of the answer.
func (p *Problem) GetHeaders() http.Header { return p.Headers }

// ContentType returns the content type of problems. It ignores the Accept header.
func (p *Problem) ContentType(string) string { return ProblemType }

// ProblemType is the content type of problems.
const ProblemType = "application/problem+json"

// ErrShutdown is the cause of a context that was cancelled because the server shuts down.
var ErrShutdown = errors.New("the server is shutting down")

// ErrClaimLost is the cause of a context whose claim on an Idempotency-Key another server took over.
var ErrClaimLost = errors.New("the claim on the Idempotency-Key was lost")

// HiddenDetails maps codes to the details that clients get. The causes of errors with these codes may contain
// addresses, queries and stacks; they are only logged.
var HiddenDetails = map[api.Code]string{
	api.CodeInternal:         "something went wrong that should not have",
	api.CodeStoreUnavailable: "the database did not answer this request",
}

// ProblemOf converts any error to the problem to answer with.
func ProblemOf(ctx context.Context, err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Finish(ctx)
	}
	if late := interruption(ctx, err); late != nil {
		return late.Finish(ctx)
	}
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		e = &fault.Error{Code: api.CodeInternal, Err: err}
	}
	p := NewProblem(e.Code, DetailOf(e))
	p.Retryable = e.Retry
	if e.Hint != "" {
		p.Hint = e.Hint
	}
	if words, hide := HiddenDetails[p.Code]; hide {
		x := Of(ctx)
		x.Log.ErrorContext(ctx, "request failed", "code", string(p.Code), "error", x.Clean(err.Error()))
		p.Detail = words
	}
	return p.Finish(ctx)
}

// NewProblem returns a problem with the values of the table of codes. A code that only the command line uses gets the
// status of an internal error.
func NewProblem(code api.Code, detail string) *Problem {
	p := &Problem{Problem: *api.NewProblem(code, detail), Headers: http.Header{}}
	if p.Status == 0 {
		p.Status = http.StatusInternalServerError
	}
	return p
}

// DetailOf returns the text of an error, or the title of its code.
func DetailOf(e *fault.Error) string {
	if e.Err == nil {
		return e.Code.Info().Title
	}
	return e.Err.Error()
}

// interruption returns the problem of a request that was cancelled or has exceeded its time, or nil.
func interruption(ctx context.Context, err error) *Problem {
	ended := KeyEnded(ctx)
	switch {
	case ended != nil && (errors.Is(err, errKeyEnded) || errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded)):
		return NewProblem(ended.Code, DetailOf(ended))
	case context.Cause(ctx) == ErrShutdown && (errors.Is(err, ErrShutdown) || errors.Is(err, context.Canceled)):
		return NewProblem(api.CodeShuttingDown, "the server is shutting down and ended this request")
	case context.Cause(ctx) == ErrClaimLost:
		return NewProblem(api.CodeKeyInFlight, "another server took this Idempotency-Key over and is doing the work")
	case errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return NewProblem(api.CodeTimeout, "the work was not done within the time that a request may take")
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return NewProblem(api.CodeTimeout, "the client went away before the answer")
	}
	return nil
}

// mostDetail is the maximum size of a detail in bytes. A detail may repeat what the client sent.
const mostDetail = 16 << 10

// Finish adds the request's id and the standard headers, removes secrets and limits the size.
func (p *Problem) Finish(ctx context.Context) *Problem {
	x := Of(ctx)
	x.Retryable = p.Retryable
	p.RequestID = x.ID
	p.Errors = p.Errors[:min(len(p.Errors), MostErrors)]
	for i, f := range p.Errors {
		p.Errors[i] = bounded(f)
	}
	p.Detail = fault.Clip(sandbox.PublicIDs(x.Clean(p.Detail)), mostDetail)
	if p.Retryable && p.Headers.Get("Retry-After") == "" {
		p.Headers.Set("Retry-After", "1")
	}
	if p.Status == http.StatusUnauthorized {
		p.Headers.Set("WWW-Authenticate", `Bearer realm="berth"`)
	}
	return p
}

// Fail answers a request with the problem of err.
func Fail(w http.ResponseWriter, r *http.Request, err error) {
	ProblemOf(r.Context(), err).Write(w)
}

// FailWith answers a request with a problem of the given code.
func FailWith(w http.ResponseWriter, r *http.Request, code api.Code, detail string) {
	NewProblem(code, detail).Finish(r.Context()).Write(w)
}

func (p *Problem) Write(w http.ResponseWriter) {
	body := p.JSON()
	h := w.Header()
	for name, values := range p.Headers {
		h[name] = values
	}
	h.Set("Content-Type", ProblemType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // the client may have disconnected
}

// JSON returns the body of the answer.
func (p *Problem) JSON() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p.Problem); err != nil {
		panic(err) // every Problem can be encoded as JSON
	}
	return b.Bytes()
}
