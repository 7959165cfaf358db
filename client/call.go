package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
)

// call is one request of the API, sent as often as it takes.
type call struct {
	op     string // "verb noun", for errors
	method string
	path   path
	query  url.Values
	body   any                   // sent as JSON, or as it is if it is raw
	accept func(status int) bool // statuses besides 2xx whose body is an answer, not a problem
}

// path is a route and then what comes from outside, one segment each.
type path []string

// on puts the path behind the server's address. A segment that is empty or made of dots would mean
// another resource than the one named, whatever its encoding, so it is refused here.
func (p path) on(base *url.URL) (*url.URL, error) {
	target := base.String() + p[0]
	for _, segment := range p[1:] {
		if strings.Trim(segment, ".") == "" {
			return nil, api.NewProblem(api.CodeInvalidID, fmt.Sprintf("%q is neither an id nor a name", segment))
		}
		target += "/" + url.PathEscape(segment)
	}
	return url.Parse(target)
}

// do sends the call until it is answered for good and decodes the answer into out, unless that is
// nil. It returns the status and how often the call was sent.
func (c *Client) do(ctx context.Context, call call, out any) (reply, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	body, err := encode(call.body)
	if err != nil {
		return reply{}, fmt.Errorf("%s: encode the request: %w", call.op, err)
	}
	key, lost := rand.Text(), false
	for attempt := 1; ; attempt++ {
		got, err := c.once(ctx, call, key, body, out)
		got.attempts, got.lost = attempt, lost
		if err == nil {
			return got, nil
		}
		if attempt >= c.attempts || !retryable(err) || !pause(ctx, got.wait(attempt)) {
			return got, fmt.Errorf("%s: %w", call.op, ended(ctx, err))
		}
		lost = lost || hasCode(err, api.CodeServerUnreachable)
	}
}

// bounded gives a context without a deadline the client's own.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has || c.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}

// reply is what came back besides the decoded answer.
type reply struct {
	status     int
	attempts   int
	lost       bool // an earlier attempt got no answer, and may have been done
	retryAfter time.Duration
}

// once sends the call a single time.
func (c *Client) once(ctx context.Context, call call, key string, body []byte, out any) (reply, error) {
	req, err := c.request(ctx, call, key, body)
	if err != nil {
		return reply{}, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return reply{}, c.unreachable(err)
	}
	defer res.Body.Close()
	got := reply{status: res.StatusCode, retryAfter: retryAfter(res.Header)}
	if ok := res.StatusCode/100 == 2; !ok && (call.accept == nil || !call.accept(res.StatusCode)) {
		return got, c.problem(res)
	}
	return got, c.decode(res, out)
}

func (c *Client) request(ctx context.Context, call call, key string, body []byte) (*http.Request, error) {
	target, err := call.path.on(c.base)
	if err != nil {
		return nil, err
	}
	target.RawQuery = call.query.Encode()
	req, err := http.NewRequestWithContext(ctx, call.method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Accept", "application/json, application/problem+json")
	req.Header.Set("User-Agent", c.agent)
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if call.body != nil {
		req.Header.Set("Content-Type", contentType(call.body))
	}
	if call.method == http.MethodPost {
		req.Header.Set("Idempotency-Key", key)
	}
	return req, nil
}

// raw is a body that is sent as it is.
type raw []byte

func encode(body any) ([]byte, error) {
	switch body := body.(type) {
	case nil:
		return nil, nil
	case raw:
		return body, nil
	}
	return json.Marshal(body)
}

func contentType(body any) string {
	if _, is := body.(raw); is {
		return "application/octet-stream"
	}
	return "application/json"
}

// decode reads an answer whole before it looks at it, so that a cut one is never half taken.
func (c *Client) decode(res *http.Response, out any) error {
	data, err := io.ReadAll(io.LimitReader(res.Body, c.most+1))
	switch {
	case err != nil:
		return c.unreachable(fmt.Errorf("the answer broke off: %w", err))
	case int64(len(data)) > c.most:
		tooLarge := c.strange(res, fmt.Sprintf("its answer is larger than %d bytes", c.most))
		tooLarge.cause = errTooLarge
		return tooLarge
	case out == nil || res.StatusCode == http.StatusNoContent:
		return nil
	case !strings.HasPrefix(mediaType(res), "application/json"):
		return c.strange(res, "its answer is not JSON")
	}
	if err := json.Unmarshal(data, out); err != nil {
		return c.strange(res, "its answer cannot be read: "+err.Error())
	}
	return nil
}

// errTooLarge is the cause of a problem with an answer beyond the client's bound.
var errTooLarge = errors.New("answer too large")

// ended adds the context's own error when it cut the wait for another attempt short.
func ended(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w while waiting to try again: %w", cause, err)
}
