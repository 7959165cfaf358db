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

// Proxy stands before a server.
type Proxy struct {
	Endpoint string

	mu    sync.Mutex
	rule  func(op string) Fate
	calls map[string]int
	over  chan struct{} // closed when the test ends
}

// Fate is what becomes of a request. The zero Fate is that it is passed on.
type Fate struct {
	Status int    // answered by the proxy with this status, and a code if there is one
	Code   string // DynamoDB's name of an error, as ThrottlingException
	Body   string // what is answered instead
	Type   string // its content type; empty: DynamoDB's
	Cut    bool   // not passed on, and not answered
	Hang   bool   // accepted, and not answered until the caller gives up
	Lost   bool   // passed on, and done by the server, but not answered
}

// Before starts a proxy before a table's server. It spoils nothing yet.
func Before(t testing.TB, b Table) (*Proxy, Table) {
	t.Helper()
	target, err := url.Parse(b.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	pass := &httputil.ReverseProxy{
		// The signature is for the host that the client knows.
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

// Set makes a rule that decides about each request from now on; op is as PutItem. Nil: all are passed on.
func (p *Proxy) Set(rule func(op string) Fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = rule
}

// Calls is how many requests there were for an operation.
func (p *Proxy) Calls(op string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[op]
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
		_, _ = io.Copy(io.Discard, r.Body) // the end of the connection is seen only behind the body
		select {
		case <-r.Context().Done():
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
