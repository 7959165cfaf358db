package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/berthdev/berth/api"
)

// source reads the events of a stream over one connection at a time. It can replace a lost connection.
type source struct {
	c        *Client
	ctx      context.Context
	patience time.Duration // maximum wait for the beginning of an answer

	body   io.Closer
	events *eventReader
	alive  *time.Timer // closes a connection that is silent for too long
}

// maxSilence is the time without data after which a connection counts as lost. On a stream of events, the server
// sends something every 15 seconds.
const maxSilence = 45 * time.Second

var (
	errSilent = errors.New("the server said nothing for too long")
	errNoMore = errors.New("there is nothing more to read")
)

// connect sends the call until a stream begins, and returns the headers of its answer.
func (s *source) connect(call call, header http.Header, key string, body []byte) (http.Header, error) {
	for attempt := 1; ; attempt++ {
		got, head, err := s.open(call, header, key, body)
		if err == nil {
			return head, nil
		}
		if attempt >= s.c.attempts || !retryable(err) || !pause(s.ctx, got.wait(attempt)) {
			return nil, ended(s.ctx, err)
		}
	}
}

// open sends the call once. If the answer is a stream, it becomes the current connection.
func (s *source) open(call call, header http.Header, key string, body []byte) (reply, http.Header, error) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	alive := time.AfterFunc(s.patience, func() { cancel(errSilent) })
	stop := func() { alive.Stop(); cancel(nil) }
	req, err := s.c.request(ctx, call, key, body)
	if err != nil {
		stop()
		return reply{}, nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Accept", "text/event-stream, application/problem+json")
	res, err := s.c.http.Do(req)
	if err != nil {
		stop()
		return reply{}, nil, s.c.unreachable(err)
	}
	got := reply{status: res.StatusCode, retryAfter: retryAfter(res.Header)}
	if res.StatusCode != http.StatusOK || mediaType(res) != "text/event-stream" {
		defer stop()
		defer res.Body.Close()
		return got, nil, s.noStream(res)
	}
	alive.Reset(maxSilence)
	s.alive, s.events = alive, newEventReader(res.Body, s.c.maxAnswer)
	s.body = closer(func() error { stop(); return res.Body.Close() })
	return got, res.Header, nil
}

// noStream returns the error for an answer that is not a stream. An answer without content means that there are no
// more events.
func (s *source) noStream(res *http.Response) error {
	switch {
	case res.StatusCode == http.StatusNoContent:
		return &fault{api.NewProblem(api.CodeNotFound, errNoMore.Error()), errNoMore}
	case res.StatusCode/100 == 2:
		return s.c.unexpectedAnswer(res, "its answer is no stream")
	}
	return s.c.problem(res)
}

// next reads one event from the current connection.
func (s *source) next(event any) (id string, err error) {
	return s.events.next(event, func() { s.alive.Reset(maxSilence) })
}

type closer func() error

func (c closer) Close() error { return c() }

func (s *source) disconnect() {
	if s.body != nil {
		_ = s.body.Close() // unread events come again on the next connection
		s.body = nil
	}
}
