package client

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"

	"github.com/berthdev/berth/api"
)

// maxProblemBytes is the maximum size of a problem document.
const maxProblemBytes = 256 << 10

// fault is a problem that the client itself detected, with its cause.
type fault struct {
	problem *api.Problem
	cause   error
}

func (f *fault) Error() string { return f.problem.Error() }

func (f *fault) Unwrap() []error {
	if f.cause == nil {
		return []error{f.problem}
	}
	return []error{f.problem, f.cause}
}

// unreachable returns the error for a call that got no complete answer.
func (c *Client) unreachable(cause error) error {
	// The outer url.Error only repeats the method and the address.
	var u *url.Error
	if errors.As(cause, &u) {
		cause = u.Err
	}
	p := api.NewProblem(api.CodeServerUnreachable, fmt.Sprintf("no answer from %s: %v", c.Server(), cause))
	var distrusted *tls.CertificateVerificationError
	if errors.As(cause, &distrusted) {
		p.Retryable = false
		p.Hint = "The server's certificate is not trusted, or is for another name. Name the authority that signed it with BERTH_CA_FILE, or use the name that it is for."
	}
	return &fault{p, cause}
}

// unexpectedAnswer returns the error for an answer that is not an answer of a Berth server.
func (c *Client) unexpectedAnswer(res *http.Response, why string) *fault {
	p := api.NewProblem(api.CodeServerUnreachable, fmt.Sprintf("%s answered %s, but %s", c.Server(), res.Status, why))
	p.Hint = "Check that --server (BERTH_SERVER) is the address of a Berth server and not of something in between."
	p.Status, p.Retryable = res.StatusCode, false
	p.RequestID = res.Header.Get(requestID)
	return &fault{p, nil}
}

const requestID = "X-Request-Id"

// problem returns the error of an answer: the server's problem document, or a new problem if a proxy, a redirect or
// another program answered.
func (c *Client) problem(res *http.Response) error {
	if location := res.Header.Get("Location"); res.StatusCode/100 == 3 {
		return c.unexpectedAnswer(res, fmt.Sprintf("a redirect to %q, which is not followed", location))
	}
	if p, ok := readProblem(res); ok {
		return p
	}
	unexpected := c.unexpectedAnswer(res, "not as a Berth server does (content type "+quoteType(res)+")")
	unexpected.problem.Retryable = isTemporary(res.StatusCode)
	return unexpected
}

func readProblem(res *http.Response) (*api.Problem, bool) {
	if mediaType(res) != "application/problem+json" {
		return nil, false
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxProblemBytes))
	if err != nil {
		return nil, false
	}
	p := new(api.Problem)
	if json.Unmarshal(data, p) != nil || p.Code == "" {
		return nil, false
	}
	p.Status = res.StatusCode
	if p.RequestID == "" {
		p.RequestID = res.Header.Get(requestID)
	}
	return p, true
}

// isTemporary reports whether a proxy or an overloaded server uses the status for temporary failures.
func isTemporary(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

func mediaType(res *http.Response) string {
	mt, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return mt
}

func quoteType(res *http.Response) string {
	if mt := mediaType(res); mt != "" {
		return mt
	}
	return "missing or unreadable"
}
