package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"

	"github.com/berthdev/berth/api"
)

// mostProblem is more than any problem document needs.
const mostProblem = 256 << 10

// fault is a problem that the client found itself, with its cause.
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

// unreachable says that no whole answer came back.
func (c *Client) unreachable(cause error) error {
	// The outer url.Error repeats method and address.
	var u *url.Error
	if errors.As(cause, &u) {
		cause = u.Err
	}
	p := api.NewProblem(api.CodeServerUnreachable, fmt.Sprintf("no answer from %s: %v", c.Server(), cause))
	return &fault{p, cause}
}

// strange says that something answered, but not as a Berth server does.
func (c *Client) strange(res *http.Response, why string) *fault {
	p := api.NewProblem(api.CodeServerUnreachable, fmt.Sprintf("%s answered %s, but %s", c.Server(), res.Status, why))
	p.Hint = "Check that --server (BERTH_SERVER) is the address of a Berth server and not of something in between."
	p.Status, p.Retryable = res.StatusCode, false
	p.RequestID = res.Header.Get(requestID)
	return &fault{p, nil}
}

const requestID = "X-Request-Id"

// problem reads the error answer: the server's own problem document, or a stand-in for what a
// proxy, a redirect or another program sent.
func (c *Client) problem(res *http.Response) error {
	if location := res.Header.Get("Location"); res.StatusCode/100 == 3 {
		return c.strange(res, fmt.Sprintf("a redirect to %q, which is not followed", location))
	}
	if p, ok := readProblem(res); ok {
		return p
	}
	strange := c.strange(res, "not as a Berth server does (content type "+quoteType(res)+")")
	strange.problem.Retryable = passing(res.StatusCode)
	return strange
}

func readProblem(res *http.Response) (*api.Problem, bool) {
	if mediaType(res) != "application/problem+json" {
		return nil, false
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, mostProblem))
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

// passing are the statuses with which proxies and overloaded servers say "later".
func passing(status int) bool {
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
