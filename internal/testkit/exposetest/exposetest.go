// Package exposetest is a provider that serves ports of instances at its own, expiring URLs, over real HTTP.
//
// [New] starts its server. [Provider.For] returns the ability [driver.Exposer] for the instances of another driver, as a
// client of that server. The provider can be made to refuse, hang, lie and revoke.
package exposetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

// TokenHeader is the header in which requests to a link carry its token.
const TokenHeader = "X-Preview-Token"

// Fault is a way in which the provider fails to make URLs.
type Fault string

// The faults.
const (
	Works Fault = ""
	Cuts  Fault = "cuts"  // it cuts the connection
	Hangs Fault = "hangs" // it does not answer
	Lies  Fault = "lies"  // it answers garbage
	Stale Fault = "stale" // it answers URLs that have expired
)

// Provider is the server. The fields may be changed before its first use.
type Provider struct {
	URL string
	// LinksOnly makes it a provider that has only links with a token in a header; otherwise the token is in the URL.
	LinksOnly bool
	// Most limits the lifetime of URLs; zero: it is as asked for.
	Most time.Duration
	// Dial returns the address where a port of an instance is reached; nil: 127.0.0.1 and the port.
	Dial func(id driver.ID, port uint16) string

	done   chan struct{}
	mu     sync.Mutex
	fault  Fault
	asked  int
	served int
	grants map[string]grant // by token
}

type grant struct {
	instance driver.ID
	port     uint16
	expires  time.Time
}

// New starts a provider.
func New(t testing.TB) *Provider {
	p := &Provider{done: make(chan struct{}), grants: map[string]grant{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/signed-preview-url", p.expose(false))
	mux.HandleFunc("POST /v1/preview-link", p.expose(true))
	mux.HandleFunc("/at/{token}/", p.serve)
	srv := httptest.NewServer(mux)
	p.URL = srv.URL
	t.Cleanup(func() { close(p.done); srv.CloseClientConnections(); srv.Close() })
	return p
}

// Fail makes the provider fail from now on.
func (p *Provider) Fail(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

// Revoke ends all URLs.
func (p *Provider) Revoke() { p.end(func(grant) bool { return true }) }

func (p *Provider) end(which func(grant) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for token, g := range p.grants {
		if which(g) {
			delete(p.grants, token)
		}
	}
}

// Asked returns the number of requests for URLs, and Served that of requests to instances.
func (p *Provider) Asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// Served returns the number of requests to instances.
func (p *Provider) Served() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.served
}

// request and answer are the bodies of the calls that make URLs.
type request struct {
	Instance driver.ID `json:"instance"`
	Port     uint16    `json:"port"`
	Seconds  float64   `json:"seconds"`
}

type answer struct {
	URL       string    `json:"url"`
	Token     string    `json:"token,omitempty"`
	ExpiresAt time.Time `json:"expires_at"`
}

func (p *Provider) expose(link bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in request
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		p.mu.Lock()
		p.asked++
		fault := p.fault
		p.mu.Unlock()
		switch {
		case fault == Cuts:
			panic(http.ErrAbortHandler)
		case fault == Hangs:
			select {
			case <-r.Context().Done():
			case <-p.done:
			}
			return
		case fault == Lies:
			_, _ = w.Write([]byte(`{"url":"gopher://` + strings.Repeat("x", 1<<20) + `"}`))
			return
		case p.LinksOnly && !link:
			http.NotFound(w, r)
			return
		}
		life := time.Duration(in.Seconds * float64(time.Second))
		if p.Most > 0 {
			life = min(life, p.Most)
		}
		g := grant{in.Instance, in.Port, time.Now().Add(life)}
		if fault == Stale {
			g.expires = time.Now().Add(-time.Minute)
		}
		token := strings.ToLower(rand.Text())
		p.mu.Lock()
		p.grants[token] = g
		p.mu.Unlock()
		out := answer{URL: p.URL + "/at/" + token, ExpiresAt: g.expires}
		if link {
			out.URL, out.Token = p.URL+"/at/-", token
		}
		_ = json.NewEncoder(w).Encode(out)
	}
}

// serve passes a request on to the port of its token.
func (p *Provider) serve(w http.ResponseWriter, r *http.Request) {
	first := r.PathValue("token")
	token := first
	if first == "-" {
		token = r.Header.Get(TokenHeader)
	}
	p.mu.Lock()
	g, ok := p.grants[token]
	p.served++
	p.mu.Unlock()
	if !ok || !time.Now().Before(g.expires) {
		http.Error(w, "the provider knows no such preview", http.StatusUnauthorized)
		return
	}
	at := fmt.Sprintf("127.0.0.1:%d", g.port)
	if p.Dial != nil {
		at = p.Dial(g.instance, g.port)
	}
	proxy := httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(out *httputil.ProxyRequest) {
		out.SetURL(&url.URL{Scheme: "http", Host: at})
		out.Out.URL.Path = strings.TrimPrefix(out.In.URL.Path, "/at/"+first)
		out.Out.URL.RawPath = ""
		out.Out.Header.Del(TokenHeader)
	}}
	proxy.ServeHTTP(w, r)
}

// For returns the ability for the instances of d.
func (p *Provider) For(d driver.Driver) *Exposer { return &Exposer{d: d, p: p} }

// Exposer is a client of the provider.
type Exposer struct {
	d driver.Driver
	p *Provider
}

// Expose implements driver.Exposer. Versions of the provider have different names for the call, so it tries both.
func (e *Exposer) Expose(ctx context.Context, id driver.ID, port uint16, lifetime time.Duration) (driver.Exposure, error) {
	st, err := e.d.Inspect(ctx, id)
	switch {
	case err != nil:
		return driver.Exposure{}, err
	case st.Phase == driver.PhaseStopped:
		return driver.Exposure{}, driver.ErrNotRunning
	}
	out, err := e.call(ctx, "signed-preview-url", request{id, port, lifetime.Seconds()})
	if errors.Is(err, driver.ErrUnsupported) {
		out, err = e.call(ctx, "preview-link", request{id, port, lifetime.Seconds()})
	}
	return driver.Exposure{URL: out.URL, Header: TokenHeader, Token: out.Token, ExpiresAt: out.ExpiresAt}, err
}

func (e *Exposer) call(ctx context.Context, name string, in request) (out answer, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.p.URL+"/v1/"+name, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return out, &driver.TransientError{Err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return out, driver.ErrUnsupported
	default:
		return out, fmt.Errorf("the provider answers %s", resp.Status)
	}
	if err := json.NewDecoder(http.MaxBytesReader(nil, resp.Body, 64<<10)).Decode(&out); err != nil {
		return out, fmt.Errorf("read the provider's answer: %w", err)
	}
	return out, nil
}

// Destroyed ends the URLs of an instance, as a provider does when the instance is gone.
func (p *Provider) Destroyed(id driver.ID) { p.end(func(g grant) bool { return g.instance == id }) }
