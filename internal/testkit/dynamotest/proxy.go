package dynamotest

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Proxy is an HTTP proxy in front of a server. A rule decides which requests fail.
type Proxy struct {
	Endpoint string

	mu      sync.Mutex
	rule    func(op string) Fate
	calls   map[string]int
	givenUp int           // requests with Fate.Hang that their callers gave up
	over    chan struct{} // closed when the test ends
}

// Fate is the treatment of a request by the proxy. The zero Fate passes the request on.
type Fate struct {
	Status int    // HTTP status of the proxy's own answer; 0: no own answer
	Code   string // name of a DynamoDB error in the proxy's answer, such as ThrottlingException; may be empty
	Body   string // body of the proxy's answer
	Type   string // content type of the proxy's answer; empty: DynamoDB's
	Cut    bool   // break the connection without passing the request on
	Hang   bool   // read the request and do not answer until the caller gives up
	Lost   bool   // pass the request on and break the connection instead of returning the answer
}

// Before starts a proxy in front of a table's server. Until Set is called it passes all requests on.
func Before(t testing.TB, b Table) (*Proxy, Table) {
	t.Helper()
	target, err := url.Parse(b.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	pass := &httputil.ReverseProxy{
		// The request's signature covers the host.
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p := &Proxy{calls: map[string]int{}, over: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, pass) }))
	t.Cleanup(func() {
		close(p.over)
		server.CloseClientConnections()
		server.Close()
	})
	p.Endpoint, b.Endpoint = server.URL, server.URL
	return p, b
}

// Set installs a rule that decides the fate of each request from now on. The rule gets the operation's name, such as
// PutItem. A nil rule passes all requests on.
func (p *Proxy) Set(rule func(op string) Fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = rule
}

// Calls returns the number of requests for an operation so far.
func (p *Proxy) Calls(op string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[op]
}

// GivenUp returns the number of requests with Fate.Hang that their callers gave up so far.
func (p *Proxy) GivenUp() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.givenUp
}

func (p *Proxy) fate(op string) (f Fate) {
	p.mu.Lock()
	p.calls[op]++
	rule := p.rule
	p.mu.Unlock()
	if rule != nil {
		f = rule(op)
	}
	return f
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request, pass http.Handler) {
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	switch f := p.fate(op); {
	case f.Cut:
		panic(http.ErrAbortHandler)
	case f.Hang:
		_, _ = io.Copy(io.Discard, r.Body) // net/http notices a closed connection only after the body is read
		select {
		case <-r.Context().Done():
			p.mu.Lock()
			p.givenUp++
			p.mu.Unlock()
		case <-p.over:
		}
		panic(http.ErrAbortHandler)
	case f.Lost:
		pass.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	case f.Status != 0:
		w.Header().Set("Content-Type", cmp.Or(f.Type, "application/x-amz-json-1.0"))
		w.WriteHeader(f.Status)
		_, _ = io.WriteString(w, f.Body)
		if f.Code != "" {
			fmt.Fprintf(w, `{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"as the test wants it"}`, f.Code)
		}
	default:
		pass.ServeHTTP(w, r)
	}
}
