package s3test

import (
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Faults sets the faults of a proxy. Each number is the share of requests with that fault, between 0 and 1.
type Faults struct {
	Error     float64 // the proxy answers 500, 502, 503 or 504; the server does not get the request
	Deaf      float64 // the connection breaks after part of the request's body; the server does not get the request
	Lost      float64 // the server handles the request, then the connection breaks without an answer
	Disowned  float64 // the server handles the request, then the proxy answers 500
	Truncated float64 // the connection breaks after part of the answer
	Empty     float64 // an answer that is not an object has no body, with a Content-Length of 0
	Slow      float64 // the proxy waits for Delay before it passes the request on
	Hung      float64 // the proxy does not answer; the next call of Set breaks the connection
	Missing   float64 // the proxy answers GET and HEAD with 404

	Delay time.Duration

	// Only reports whether a request may get a fault. Nil means that every request may.
	Only func(*http.Request) bool
}

// FaultProxy is an HTTP proxy in front of an S3 server. It makes some requests fail.
type FaultProxy struct {
	Endpoint string

	target string
	client *http.Transport
	mu     sync.Mutex
	faults Faults
	reset  chan struct{} // closed by Set
	hits   map[string]int
	total  int
}

// Proxy starts a proxy in front of the server at an endpoint. The proxy has no faults until Set is called.
func Proxy(t testing.TB, endpoint string) *FaultProxy {
	t.Helper()
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	p := &FaultProxy{target: u.Host, reset: make(chan struct{}), hits: map[string]int{}, client: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}
	server := httptest.NewServer(p)
	p.Endpoint = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		p.client.CloseIdleConnections()
	})
	return p
}

// Set replaces the faults and breaks the connections of hung requests.
func (p *FaultProxy) Set(f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = f
	close(p.reset)
	p.reset = make(chan struct{})
}

// Hits returns the number of requests with each fault, and the number of all requests.
func (p *FaultProxy) Hits() (spoilt map[string]int, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	spoilt = map[string]int{}
	for name, n := range p.hits {
		spoilt[name] = n
	}
	return spoilt, p.total
}

// draw chooses a fault for a request at random, or none.
func (p *FaultProxy) draw(r *http.Request) (fault string, f Faults, reset <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total++
	f, reset = p.faults, p.reset
	if f.Only != nil && !f.Only(r) {
		return "", f, reset
	}
	at := rand.Float64()
	for _, c := range []struct {
		name  string
		share float64
	}{{"error", f.Error}, {"deaf", f.Deaf}, {"lost", f.Lost}, {"disowned", f.Disowned}, {"truncated", f.Truncated}, {"empty", f.Empty}, {"slow", f.Slow}, {"hung", f.Hung}, {"missing", f.Missing}} {
		if c.name == "missing" && r.Method != http.MethodGet && r.Method != http.MethodHead {
			continue
		}
		if at < c.share {
			p.hits[c.name]++
			return c.name, f, reset
		}
		at -= c.share
	}
	return "", f, reset
}

// ServeHTTP passes a request on or applies a fault to it.
func (p *FaultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault, f, reset := p.draw(r)
	switch fault {
	case "error":
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader([]int{500, 502, 503, 504}[rand.IntN(4)])
		return
	case "deaf":
		_, _ = io.CopyN(io.Discard, r.Body, rand.Int64N(max(r.ContentLength, 1)))
		cut(w)
		return
	case "hung":
		select {
		case <-reset:
		case <-r.Context().Done():
		}
		cut(w)
		return
	case "missing":
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>`)
		return
	case "slow":
		select {
		case <-time.After(f.Delay):
		case <-r.Context().Done():
		}
	}
	answer, err := p.ask(r)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	p.pass(w, r, answer, fault)
}

func (p *FaultProxy) ask(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.RequestURI = "http", p.target, ""
	out.Host = r.Host // the request's signature covers the host
	if r.ContentLength == 0 {
		out.Body = nil
	}
	return p.client.RoundTrip(out)
}

func (p *FaultProxy) pass(w http.ResponseWriter, r *http.Request, answer *http.Response, fault string) {
	switch fault {
	case "lost":
		_, _ = io.Copy(io.Discard, answer.Body)
		cut(w)
		return
	case "disowned":
		_, _ = io.Copy(io.Discard, answer.Body)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	isObject := r.Method == http.MethodGet && answer.Header.Get("ETag") != ""
	if fault == "empty" && !isObject && r.Method != http.MethodHead {
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(answer.StatusCode)
		return
	}
	w.WriteHeader(answer.StatusCode)
	if fault != "truncated" {
		_, _ = io.Copy(w, answer.Body)
		return
	}
	length, _ := strconv.ParseInt(answer.Header.Get("Content-Length"), 10, 64)
	_, _ = io.CopyN(w, answer.Body, rand.Int64N(max(length, 1)))
	if c, ok := w.(http.Flusher); ok {
		c.Flush()
	}
	cut(w)
}

// cut resets the connection.
func cut(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
