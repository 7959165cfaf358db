package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

// script answers the nth request with its nth entry and the last one for ever after.
type script struct {
	steps []func() (*http.Response, error)
	keys  []string
	at    []time.Time
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	step := s.steps[min(len(s.keys), len(s.steps)-1)]
	s.keys = append(s.keys, r.Header.Get("Idempotency-Key"))
	s.at = append(s.at, time.Now())
	res, err := step()
	if res != nil {
		res.Request = r
	}
	return res, err
}

func respond(status int, contentType string, body any, header ...string) func() (*http.Response, error) {
	data, _ := json.Marshal(body)
	return func() (*http.Response, error) {
		h := http.Header{"Content-Type": {contentType}}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: h, Body: io.NopCloser(strings.NewReader(string(data)))}, nil
	}
}

func refusal(code api.Code, header ...string) func() (*http.Response, error) {
	p := api.NewProblem(code, "")
	return respond(p.Status, "application/problem+json", p, header...)
}

var (
	made    = respond(http.StatusCreated, "application/json", api.Sandbox{ID: "1"})
	refused = func() (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
)

func scripted(t *testing.T, steps ...func() (*http.Response, error)) (*client.Client, *script) {
	t.Helper()
	s := &script{steps: steps}
	return dial(t, "http://berth.test", client.WithTransport(s)), s
}

func TestCreateIsSentAgainUnderOneKey(t *testing.T) {
	past := "Fri, 01 Jan 1999 00:00:00 GMT" // a bubble begins in 2000
	for name, first := range map[string]func() (*http.Response, error){
		"connection refused":        refused,
		"first request in flight":   refusal(api.CodeKeyInFlight),
		"rate limited":              refusal(api.CodeRateLimited, "Retry-After", "2"),
		"store unavailable":         refusal(api.CodeStoreUnavailable),
		"retry-after in the past":   refusal(api.CodeShuttingDown, "Retry-After", past),
		"retry-after is nonsense":   refusal(api.CodeShuttingDown, "Retry-After", "soon"),
		"proxy without its backend": respond(http.StatusBadGateway, "text/html", "x"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, s := scripted(t, first, first, made)
				sandbox, isNew, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{})
				if err != nil || sandbox.ID != "1" || !isNew {
					t.Fatalf("Create = %+v, %v, %v", sandbox, isNew, err)
				}
				if len(s.keys) != 3 || s.keys[0] == "" || s.keys[0] != s.keys[1] || s.keys[1] != s.keys[2] {
					t.Errorf("keys %q, want the same three times", s.keys)
				}
			})
		})
	}
}

func TestCallsHaveKeysOfTheirOwn(t *testing.T) {
	c, s := scripted(t, made)
	for range 2 {
		if _, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{}); err != nil {
			t.Fatal(err)
		}
	}
	if s.keys[0] == s.keys[1] {
		t.Error("two calls share an Idempotency-Key")
	}
}

func TestWhatWillNotChangeIsSentOnce(t *testing.T) {
	for _, code := range []api.Code{
		api.CodeQuotaExceeded, api.CodeSpecMismatch, api.CodeKeyReused, api.CodeUnauthenticated, api.CodeInternal,
	} {
		c, s := scripted(t, refusal(code, "Retry-After", "1"))
		_, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{})
		if p := problemOf(t, err); p.Code != code || len(s.keys) != 1 {
			t.Errorf("%s: %v after %d requests", code, p, len(s.keys))
		}
	}
}

// The server has waited for its store already. Each repeat would wait as long again.
func TestStoreThatTheServerWaitedForIsAskedOnce(t *testing.T) {
	for _, code := range []api.Code{api.CodeBlobUnreachable, api.CodeSyncFailed, api.CodeMessageStore, api.CodeTurnRunning} {
		c, s := scripted(t, refusal(code))
		_, err := c.Sandboxes.Terminate(t.Context(), "box")
		if p := problemOf(t, err); p.Code != code || len(s.keys) != 1 {
			t.Errorf("%s: %v after %d requests", code, p, len(s.keys))
		}
	}
}

func TestAttemptsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := scripted(t, refused)
		_, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{})
		if !errors.Is(err, syscall.ECONNREFUSED) || len(s.keys) != 5 {
			t.Errorf("%v after %d requests, want 5", err, len(s.keys))
		}
		for i, least := range []time.Duration{50, 100, 200, 400} {
			gap := s.at[i+1].Sub(s.at[i])
			if least *= time.Millisecond; gap < least || gap > 2*least {
				t.Errorf("pause %d was %v, want %v to %v", i+1, gap, least, 2*least)
			}
		}
	})
}

func TestRetryAfterIsObeyed(t *testing.T) {
	for name, header := range map[string]func() string{
		"seconds": func() string { return "7" },
		"date":    func() string { return time.Now().Add(7 * time.Second).UTC().Format(http.TimeFormat) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, s := scripted(t, refusal(api.CodeRateLimited, "Retry-After", header()), made)
				if _, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{}); err != nil {
					t.Fatal(err)
				}
				if gap := s.at[1].Sub(s.at[0]); gap != 7*time.Second {
					t.Errorf("sent again after %v, want 7s", gap)
				}
			})
		})
	}
}

func TestLongerWaitThanIsLeftEndsAtOnce(t *testing.T) {
	for name, wait := range map[string]string{"beyond the deadline": "30", "beyond all patience": "99999999999"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				start := time.Now()
				c, s := scripted(t, refusal(api.CodeRateLimited, "Retry-After", wait))
				_, _, err := c.Sandboxes.Create(ctx, api.CreateSandbox{})
				if p := problemOf(t, err); p.Code != api.CodeRateLimited || len(s.keys) != 1 || time.Since(start) != 0 {
					t.Errorf("%v after %d requests and %v", err, len(s.keys), time.Since(start))
				}
			})
		})
	}
}

func TestCancelEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		c, _ := scripted(t, refusal(api.CodeStoreUnavailable, "Retry-After", "30"))
		start := time.Now()
		_, _, err := c.Sandboxes.Create(ctx, api.CreateSandbox{})
		if !errors.Is(err, context.Canceled) || problemOf(t, err).Code != api.CodeStoreUnavailable || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestCanceledCallIsNotSentAgain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, s := scripted(t, func() (*http.Response, error) { cancel(); return nil, ctx.Err() })
	_, err := c.Sandboxes.Get(ctx, "x")
	if !errors.Is(err, context.Canceled) || len(s.keys) != 1 {
		t.Errorf("%v after %d requests", err, len(s.keys))
	}
}

func TestDeleteWhoseAnswerWasLostSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF }
		c, _ := scripted(t, lost, refusal(api.CodeDeleted))
		if err := c.Sandboxes.Delete(t.Context(), "x"); err != nil {
			t.Errorf("delete after a lost answer: %v", err)
		}
		c, _ = scripted(t, refusal(api.CodeDeleted))
		if p := problemOf(t, c.Sandboxes.Delete(t.Context(), "x")); p.Code != api.CodeDeleted {
			t.Errorf("delete of what was deleted before: %v", p)
		}
		c, _ = scripted(t, lost, refusal(api.CodeNotFound))
		if err := c.Projects.Delete(t.Context(), "x"); err != nil {
			t.Errorf("delete by a name that is free after a lost answer: %v", err)
		}
		c, _ = scripted(t, refusal(api.CodeStoreUnavailable), refusal(api.CodeNotFound))
		if p := problemOf(t, c.Projects.Delete(t.Context(), "x")); p.Code != api.CodeNotFound {
			t.Errorf("delete of what never was, at the second try: %v", p)
		}
	})
}

func TestOneAttemptNeverRepeats(t *testing.T) {
	s := &script{steps: []func() (*http.Response, error){refused}}
	c := dial(t, "http://berth.test", client.WithTransport(s), client.WithAttempts(0))
	if _, err := c.Sandboxes.Get(t.Context(), "x"); err == nil || len(s.keys) != 1 {
		t.Errorf("%v after %d requests", err, len(s.keys))
	}
}

func TestDeleteWaitsUntilNothingIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		going := respond(http.StatusAccepted, "application/json", api.Sandbox{ID: "1", State: "terminating"})
		there := respond(http.StatusOK, "application/json", api.Sandbox{ID: "1", State: "terminating"})
		c, s := scripted(t, going, there, there, refusal(api.CodeDeleted))
		if err := c.Sandboxes.Delete(t.Context(), "box"); err != nil || len(s.at) != 4 {
			t.Errorf("%v after %d requests", err, len(s.at))
		}
		c, _ = scripted(t, going, there)
		err := c.Sandboxes.Delete(t.Context(), "box")
		if p := problemOf(t, err); p.Code != api.CodeTimeout || !strings.Contains(p.Detail, "still being deleted") {
			t.Errorf("one that never goes: %v", err)
		}
		c, _ = scripted(t, going, refusal(api.CodeForbidden))
		if p := problemOf(t, c.Sandboxes.Delete(t.Context(), "box")); p.Code != api.CodeForbidden {
			t.Errorf("one that may not be watched: %v", p)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		c, _ = scripted(t, going, there)
		if err := c.Sandboxes.Delete(ctx, "box"); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}
