package egress_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/testkit"
)

const inside = "127.0.0.1:8788"

// headersAt is a service with headers, and the requests that its upstream got.
func headersAt(t *testing.T, headers map[string]string) (s *egress.Service, at string, got chan *http.Request, log *logbook) {
	t.Helper()
	got, log = make(chan *http.Request, 1), new(logbook)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = r.Body.Read(make([]byte, 100)) // reads to the end: the trailers are there
		got <- r
	}))
	t.Cleanup(upstream.Close)
	s = service(t, upstream.URL)
	s.Headers, s.Log = new(egress.Headers), log.logger()
	s.Headers.Set(map[string]map[string]string{inside: headers})
	return s, serve(t, s), got, log
}

// A sandbox can neither see, nor replace, nor repeat the headers that a service sets.
func TestServiceSetsHeadersOutsideTheSandbox(t *testing.T) {
	testkit.Proves(t, "E7")
	s, at, got, log := headersAt(t, map[string]string{"x-api-key": "key-of-the-server"})
	for name, sent := range map[string]string{
		"no header":           "",
		"another value":       "X-Api-Key: mine\r\n",
		"two values":          "x-api-key: mine\r\nX-API-KEY: more\r\n",
		"the same underlined": "X_Api_Key: mine\r\n",
		"named by Connection": "Connection: X-Api-Key\r\nX-Api-Key: mine\r\n",
		"a trailer":           "Trailer: X-Api-Key\r\nTransfer-Encoding: chunked\r\n",
	} {
		body := ""
		if name == "a trailer" {
			body = "1\r\nx\r\n0\r\nX-Api-Key: mine\r\n\r\n"
		}
		if status, words := send(t, at, "POST / HTTP/1.1\r\nHost: x\r\n"+sent+"\r\n"+body); status != 200 {
			t.Fatalf("%s: %d %s", name, status, words)
		}
		r := <-got
		var values []string
		for _, all := range []http.Header{r.Header, r.Trailer} {
			for name, v := range all {
				if strings.EqualFold(strings.ReplaceAll(name, "_", "-"), "x-api-key") {
					values = append(values, v...)
				}
			}
		}
		if len(values) != 1 || values[0] != "key-of-the-server" {
			t.Errorf("%s: the upstream got %q", name, values)
		}
	}
	s.Headers.Set(map[string]map[string]string{inside: {"x-api-key": "rotated"}, "127.0.0.1:1": {"x-api-key": "of-another"}})
	if status, _ := send(t, at, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); status != 200 {
		t.Fatal(status)
	}
	if r := <-got; r.Header.Get("X-Api-Key") != "rotated" {
		t.Errorf("after the rotation: %v", r.Header)
	}
	if text := log.String(); strings.Contains(text, "key-of-the-server") || strings.Contains(text, "rotated") {
		t.Errorf("the log has the value: %s", text)
	}
}

func TestServiceWithoutTheValueOfAHeaderSendsNothing(t *testing.T) {
	for value, want := range map[string]string{"": "its value is not set", "two\nlines-of-a-key": "its value is not one line of text"} {
		_, at, got, log := headersAt(t, map[string]string{"x-api-key": value})
		status, words := send(t, at, "GET / HTTP/1.1\r\nHost: x\r\nX-Api-Key: mine\r\n\r\n")
		if status != 503 || !strings.Contains(words, "the header x-api-key, and "+want) || !strings.Contains(words, "berth secret set") {
			t.Errorf("%q: %d %s", value, status, words)
		}
		if len(got) > 0 {
			t.Errorf("%q: the upstream got a request", value)
		}
		if text := log.String(); !strings.Contains(text, want) || strings.Contains(text, "lines-of-a-key") {
			t.Errorf("%q: log: %s", value, text)
		}
	}
}

func TestHeadersOfTheConnectionAreRefused(t *testing.T) {
	for _, bad := range []string{"", "a b", "x:y", "host", "Content-Length", "transfer-encoding", "connection", "upgrade", "x\r\ny"} {
		if egress.CheckHeader(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	for _, good := range []string{"x-api-key", "Authorization", "anthropic-beta"} {
		if err := egress.CheckHeader(good); err != nil {
			t.Error(err)
		}
	}
}
