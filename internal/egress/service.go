package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"
)

// Service leads a port inside a sandbox to one upstream, and to nothing else. The server's configuration
// names the upstream, so it may be on the server's own loopback.
type Service struct {
	Port     uint16   // inside
	Upstream *url.URL // http, https or tcp

	Sandbox string // named in the log
	Log     *slog.Logger
	Meter   Meter // told of what passes; may be nil
	Limits  Limits

	roots *x509.CertPool // nil: the machine's
}

// Serve serves the listener as Proxy.Serve does.
func (s *Service) Serve(ctx context.Context, ln net.Listener) error {
	if s.Upstream.Scheme == "tcp" {
		return s.serveTCP(ctx, ln)
	}
	limits, j := s.Limits.orDefault(), newJournal(s.Log, s.Sandbox)
	h := s.reverse(limits, j)
	defer h.Transport.(*http.Transport).CloseIdleConnections()
	return server{limits: limits, journal: j, handler: sane(h)}.serve(ctx, ln)
}

// reverse forwards HTTP. What the upstream sees is the sandbox's request with the upstream's own host.
func (s *Service) reverse(limits Limits, j *journal) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL.RawQuery = pr.In.URL.RawQuery
			pr.SetURL(s.Upstream)
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
			down := s.down(err)
			if r.Context().Err() == nil {
				j.refused(r.Context(), down)
			}
			down.answer(w)
		},
	}
}

// sane keeps out requests that would not stay below the upstream's path.
func sane(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodConnect:
			badRequest("this is a service, not the proxy.").answer(w)
		case !strings.HasPrefix(r.URL.Path, "/") || climbs(r.URL.Path):
			badRequest("the path is not one below /.").answer(w)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// twice undoes what a second decoding, or another system's idea of paths, would undo.
var twice = strings.NewReplacer("%2e", ".", "%2f", "/", "%5c", "/", "\\", "/")

// climbs reports whether somebody could read a path, decoded already, as one with a parent in it.
func climbs(path string) bool {
	for part := range strings.SplitSeq(twice.Replace(strings.ToLower(path)), "/") {
		if name, _, _ := strings.Cut(part, ";"); name == ".." {
			return true
		}
	}
	return false
}

func (s *Service) down(err error) *refusal {
	_, words := failure(err)
	return &refusal{
		status: http.StatusBadGateway,
		words:  fmt.Sprintf("the service behind 127.0.0.1:%d does not answer: %s.", s.Port, words),
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
	return meter(c, s.Meter), nil
}

// serveTCP forwards bytes. An upstream that is down closes the connection: there is no other way to say so.
func (s *Service) serveTCP(ctx context.Context, ln net.Listener) error {
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	limits := s.Limits.orDefault()
	inside := bound(ln, limits.Conns, false)
	g := &gate{max: limits.Conns}
	defer context.AfterFunc(serving, func() { _ = inside.Close() })()
	err := s.acceptTCP(serving, inside, g, limits)
	cancel()
	_ = inside.Close()
	g.close()
	if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (s *Service) acceptTCP(ctx context.Context, inside *bounded, g *gate, limits Limits) error {
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
			j.refused(ctx, s.down(err))
		}
		_ = inside.Close()
		return
	}
	tunnel(ctx, inside, nil, outside, limits.Idle)
}
