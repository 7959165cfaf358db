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

// call describes one request to the API. It may be sent several times.
type call struct {
	op     string // "verb noun", for errors
	method string
	path   path
	query  url.Values
	body   any                   // sent as JSON; a value of type raw is sent unchanged
	accept func(status int) bool // reports whether another status than 2xx has an answer, not a problem
}

// path is a route, followed by ids and names: one element for each further segment.
type path []string

// on appends the path to the server's address. It refuses segments that are empty or consist of dots: even
// percent-encoded, they would name another resource.
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

// do sends the call until it succeeds or must not be repeated, and decodes the answer into out if out is not nil.
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

// bounded adds the client's timeout to a context without a deadline.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has || c.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}

// reply describes an answer and the attempts that it took.
type reply struct {
	status     int
	attempts   int
	lost       bool // an earlier attempt got no answer; the server may have executed it
	retryAfter time.Duration
}

// once sends the call a single time.
func (c *Client) once(ctx context.Context, call call, key string, body []byte, out any) (reply, error) {
	req, err := c.request(ctx, call, key, body)
	if err != nil {
		return reply{}, err
	}
	res, err := c.roundTrip(req)
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

// raw is a body that is sent unchanged.
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

// decode reads the whole answer before it decodes it: out never gets a part of an incomplete answer.
func (c *Client) decode(res *http.Response, out any) error {
	data, err := io.ReadAll(io.LimitReader(res.Body, c.maxAnswer+1))
	switch {
	case err != nil:
		return c.unreachable(fmt.Errorf("the answer broke off: %w", err))
	case int64(len(data)) > c.maxAnswer:
		tooLarge := c.unexpectedAnswer(res, fmt.Sprintf("its answer is larger than %d bytes", c.maxAnswer))
		tooLarge.cause = errTooLarge
		return tooLarge
	case out == nil || res.StatusCode == http.StatusNoContent:
		return nil
	case !strings.HasPrefix(mediaType(res), "application/json"):
		return c.unexpectedAnswer(res, "its answer is not JSON")
	}
	if err := json.Unmarshal(data, out); err != nil {
		return c.unexpectedAnswer(res, "its answer cannot be read: "+err.Error())
	}
	return nil
}

// errTooLarge is the cause of the error for an answer that is larger than the client's limit.
var errTooLarge = errors.New("answer too large")

// ended adds the context's error if the end of the context prevented another attempt.
func ended(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w while waiting to try again: %w", cause, err)
}
