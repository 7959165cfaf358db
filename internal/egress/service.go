package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"
)

// Service forwards a port inside a sandbox to one upstream. The server's configuration names the upstream, so it
// may be on the server's loopback.
type Service struct {
	Port     uint16   // on the loopback of the sandbox
	Upstream *url.URL // http, https or tcp
	Headers  *Headers // set on every request; may be nil

	Sandbox string // id for the log
	Log     *slog.Logger
	Meter   Meter // counts the bytes; may be nil
	Limits  Limits

	roots *x509.CertPool // trusted certificate authorities; nil: those of the machine
}

// succeed implements way.
func (s *Service) succeed(next way) succession {
	n, ok := next.(*Service)
	switch {
	case !ok || n.Upstream.String() != s.Upstream.String():
		return cut
	case n.Limits != s.Limits, (n.Headers == nil) != (s.Headers == nil):
		return drain
	case n.Headers != nil && n.Headers != s.Headers:
		s.Headers.Set(n.Headers.all()) // for the requests from now on, also on connections that are open
	}
	return keep
}

// Serve serves the listener as Proxy.Serve does.
func (s *Service) Serve(ctx context.Context, ln net.Listener) error {
	if s.Upstream.Scheme == "tcp" {
		return s.serveTCP(ctx, ln)
	}
	limits, j := s.Limits.orDefault(), newJournal(s.Log, s.Sandbox)
	h := s.reverse(limits, j)
	defer h.Transport.(*http.Transport).CloseIdleConnections()
	return server{limits: limits, journal: j, handler: checkPath(s.requireHeaders(j, h))}.serve(ctx, ln)
}

// inside returns the address of the service in the sandbox.
func (s *Service) inside() string { return fmt.Sprintf("127.0.0.1:%d", s.Port) }

// reverse returns the reverse proxy to the upstream. It replaces the host of each request by the upstream's.
func (s *Service) reverse(limits Limits, j *journal) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL.RawQuery = pr.In.URL.RawQuery
			pr.SetURL(s.Upstream)
			s.setHeaders(pr)
			if pr.Out.Body != nil {
				pr.Out.Body = &RequestBody{ReadCloser: pr.Out.Body}
			}
		},
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
				return s.dial(ctx, limits, address)
			},
			DisableCompression:     true,
			MaxIdleConnsPerHost:    16,
			IdleConnTimeout:        30 * time.Second,
			TLSClientConfig:        &tls.Config{RootCAs: s.roots},
			TLSHandshakeTimeout:    limits.DialTimeout,
			ExpectContinueTimeout:  time.Second,
			MaxResponseHeaderBytes: int64(limits.HeaderBytes),
		},
		FlushInterval: -1,
		BufferPool:    buffers,
		ErrorLog:      slog.NewLogLogger(j.log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			down := s.unavailable(err)
			if r.Context().Err() == nil {
				j.refused(r.Context(), down)
			}
			down.answer(w)
		},
	}
}

// RequestBody is the body of a request to a reverse proxy. It remembers that it was read to its end: http.Transport
// reads once more behind the end, and closes the connection with the answer if that read fails. It would fail, because
// http.Server closes such a body as soon as the answer begins.
type RequestBody struct {
	io.ReadCloser
	ended bool
}

func (b *RequestBody) Read(p []byte) (n int, err error) {
	if b.ended {
		return 0, io.EOF
	}
	n, err = b.ReadCloser.Read(p)
	b.ended = err == io.EOF
	return n, err
}

// checkPath refuses CONNECT, and paths with which a request could leave the upstream's path.
func checkPath(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodConnect:
			badRequest("this is a service, not the proxy.").answer(w)
		case !strings.HasPrefix(r.URL.Path, "/") || hasParentDir(r.URL.Path):
			badRequest("the path is not one below /.").answer(w)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// decodeAgain decodes dots and slashes that an upstream may decode a second time, and replaces backslashes, which
// some systems use as separators.
var decodeAgain = strings.NewReplacer("%2e", ".", "%2f", "/", "%5c", "/", "\\", "/")

// hasParentDir reports whether an upstream could find a parent directory ("..") in a decoded path.
func hasParentDir(path string) bool {
	for part := range strings.SplitSeq(decodeAgain.Replace(strings.ToLower(path)), "/") {
		if name, _, _ := strings.Cut(part, ";"); name == ".." {
			return true
		}
	}
	return false
}

func (s *Service) unavailable(err error) *refusal {
	_, words := failure(err)
	return &refusal{
		status: http.StatusBadGateway,
		words:  fmt.Sprintf("the service behind %s does not answer: %s.", s.inside(), words),
		target: s.Upstream.Host,
		cause:  err.Error(),
	}
}

func (s *Service) dial(ctx context.Context, limits Limits, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: limits.DialTimeout}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return countBytes(c, s.Meter), nil
}

// serveTCP forwards TCP connections. It closes a connection if the upstream is down: TCP has no other answer.
func (s *Service) serveTCP(ctx context.Context, ln net.Listener) error {
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	limits := s.Limits.orDefault()
	inside := limitListener(ln, limits.Conns, false)
	g := &gate{max: limits.Conns}
	defer context.AfterFunc(serving, func() { _ = inside.Close() })()
	err := s.acceptTCP(serving, inside, g, limits)
	if errors.Is(err, net.ErrClosed) {
		g.close() // the listener was closed; connections go on
	}
	cancel()
	_ = inside.Close()
	g.close()
	if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (s *Service) acceptTCP(ctx context.Context, inside *limitedListener, g *gate, limits Limits) error {
	j := newJournal(s.Log, s.Sandbox)
	for {
		c, err := inside.Accept()
		if err != nil {
			return err
		}
		if g.enter() != nil {
			_ = c.Close()
			continue
		}
		go func() {
			defer g.leave()
			s.forwardTCP(ctx, c, j, limits)
		}()
	}
}

func (s *Service) forwardTCP(ctx context.Context, inside net.Conn, j *journal, limits Limits) {
	outside, err := s.dial(ctx, limits, s.Upstream.Host)
	if err != nil {
		if ctx.Err() == nil {
			j.refused(ctx, s.unavailable(err))
		}
		_ = inside.Close()
		return
	}
	tunnel(ctx, inside, nil, outside, limits.Idle)
}
