package preview

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// idleTime is the time for which a connection waits for its next request. It is shorter than that of common servers,
	// so that a request rarely meets a connection that is about to close.
	idleTime   = 2 * time.Second
	mostIdle   = 64
	bufferSize = 32 << 10
)

// Pool sends requests to one port of a sandbox and keeps connections between them.
type Pool struct{ kept, single *http.Transport }

// NewPool returns a pool whose connections are made with dial.
func NewPool(dial func(context.Context) (net.Conn, error)) *Pool {
	kept := newTransport(dial)
	kept.DisableKeepAlives, kept.IdleConnTimeout = false, idleTime
	kept.MaxIdleConns, kept.MaxIdleConnsPerHost = mostIdle, mostIdle
	return &Pool{kept: kept, single: newTransport(dial)}
}

// RoundTrip implements http.RoundTripper. A request that may not be sent twice gets a new connection: a kept one may close
// while the request is on its way.
func (p *Pool) RoundTrip(r *http.Request) (*http.Response, error) {
	if (r.Method == http.MethodGet || r.Method == http.MethodHead) && (r.Body == nil || r.Body == http.NoBody) && r.Header.Get("Upgrade") == "" {
		return p.kept.RoundTrip(r)
	}
	return p.single.RoundTrip(r)
}

// CloseIdle closes the connections that wait.
func (p *Pool) CloseIdle() { p.kept.CloseIdleConnections() }

// buffers keeps the buffers of copies between requests.
type buffers struct{}

var spare = sync.Pool{New: func() any { return new([bufferSize]byte) }}

func (buffers) Get() []byte { return spare.Get().(*[bufferSize]byte)[:] }

func (buffers) Put(b []byte) { spare.Put((*[bufferSize]byte)(b)) }
