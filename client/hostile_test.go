package client_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

// TestAnswersOfSomethingElse holds what proxies, other programs and broken servers send.
func TestAnswersOfSomethingElse(t *testing.T) {
	page := "<html><body>502 Bad Gateway</body></html>"
	cases := []struct {
		name      string
		handler   http.HandlerFunc
		detail    string
		attempts  int32
		retryable bool
	}{
		{"HTML page of a proxy", raw(502, "text/html", page), "502 Bad Gateway, but not as a Berth server does (content type text/html)", 2, true},
		{"HTML page with status 200", raw(200, "text/html", page), "its answer is not JSON", 1, false},
		{"HTML page that calls itself JSON", raw(200, "application/json", page), "cannot be read", 1, false},
		{"no content type", raw(500, "", "x"), "content type missing", 1, false},
		{"cut JSON", raw(200, "application/json", `{"id":"1","na`), "cannot be read", 1, false},
		{"JSON of another shape", raw(200, "application/json", `{"id":7}`), "cannot be read", 1, false},
		{"problem without a code", raw(400, "application/problem+json", `{"title":"x"}`), "not as a Berth server does", 1, false},
		{"problem that is not JSON", raw(400, "application/problem+json", page), "not as a Berth server does", 1, false},
		{"body beyond the bound", raw(200, "application/json", `{"id":"`+strings.Repeat("x", 5000)+`"}`), "larger than 4096 bytes", 1, false},
		{"connection cut in the answer", cut, "broke off", 2, true},
		{"connection cut before the answer", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF", 2, true},
		{"empty answer", raw(200, "application/json", ""), "cannot be read", 1, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var sent atomic.Int32
			cl := serve(t, func(w http.ResponseWriter, r *http.Request) { sent.Add(1); c.handler(w, r) },
				client.WithAttempts(2), client.WithMaxAnswer(4096))
			_, err := cl.Sandboxes.Get(t.Context(), "x")
			p := problemOf(t, err)
			if p.Code != api.CodeServerUnreachable || p.Retryable != c.retryable || !strings.Contains(p.Detail, c.detail) {
				t.Errorf("problem %+v, want detail %q, retryable %v", p, c.detail, c.retryable)
			}
			if sent.Load() != c.attempts {
				t.Errorf("sent %d times, want %d", sent.Load(), c.attempts)
			}
		})
	}
}

func raw(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		if contentType != "" {
			w.Header().Set("Content-Type", contentType)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// cut promises more bytes than it sends.
func cut(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, `{"id":"1"}`)
}

func TestCutProblemIsNotTaken(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"code":"not_found"}`)
	})
	_, err := c.Sandboxes.Get(t.Context(), "x")
	if p := problemOf(t, err); p.Code != api.CodeServerUnreachable {
		t.Errorf("problem %+v", p)
	}
}

// TestEndlessAnswerIsCutOff would not end if the client read on.
func TestEndlessAnswerIsCutOff(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		block := []byte(strings.Repeat(" ", 64<<10))
		for {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}, client.WithMaxAnswer(1<<20))
	_, err := c.Sandboxes.Get(t.Context(), "x")
	if p := problemOf(t, err); !strings.Contains(p.Detail, "larger than 1048576 bytes") {
		t.Errorf("problem %+v", p)
	}
}

// TestRedirectIsNotFollowed proves that the key reaches no host but the one named, whichever way it
// is sent on.
func TestRedirectIsNotFollowed(t *testing.T) {
	var leaked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leaked.Add(1) }))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/take", status)
		})
		_, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{})
		p := problemOf(t, err)
		if want := fmt.Sprintf("a redirect to %q, which is not followed", other.URL+"/take"); !strings.Contains(p.Detail, want) || p.Retryable {
			t.Errorf("%d: problem %+v, want detail %q", status, p, want)
		}
	}
	if leaked.Load() != 0 {
		t.Errorf("%d requests reached the other host", leaked.Load())
	}
}
