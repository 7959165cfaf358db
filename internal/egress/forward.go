package egress

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"time"
)

type plainRequestKey struct{}

// plainRequest is a plain HTTP request that is being forwarded.
type plainRequest struct {
	target target
	idle   *watchdog
}

// forwardPlain forwards a request with a whole URL. It does not follow redirects: the client gets them as answers.
func (h *handler) forwardPlain(w http.ResponseWriter, r *http.Request, c *client, t target) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	idle := newWatchdog(h.limits.Idle, func() {
		cancel()
		_ = c.Close()
	})
	defer idle.stop()
	ctx = context.WithValue(ctx, plainRequestKey{}, plainRequest{t, idle})
	h.forward.ServeHTTP(w, r.WithContext(ctx))
}

// forwarder returns the reverse proxy for plain requests. Its transport connects only through the dialer and uses no
// other proxy.
func (h *handler) forwarder() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: rewrite,
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
				t, err := parseTarget(address, 0)
				if err != nil {
					return nil, err
				}
				return h.dialer.connect(ctx, t)
			},
			DisableCompression:     true,
			MaxIdleConnsPerHost:    4,
			MaxIdleConns:           16,
			IdleConnTimeout:        30 * time.Second,
			ExpectContinueTimeout:  time.Second,
			MaxResponseHeaderBytes: int64(h.limits.HeaderBytes),
		},
		FlushInterval: -1,
		BufferPool:    buffers,
		ErrorLog:      slog.NewLogLogger(h.journal.log.Handler(), slog.LevelDebug),
		ModifyResponse: func(res *http.Response) error {
			res.Body = watchedBody{res.Body, plainRequestOf(res.Request).idle}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			h.refuse(w, r, asRefusal(plainRequestOf(r).target, err))
		},
	}
}

func plainRequestOf(r *http.Request) plainRequest {
	return r.Context().Value(plainRequestKey{}).(plainRequest)
}

// rewrite prepares the outgoing request. ReverseProxy has already removed the hop-by-hop headers.
func rewrite(pr *httputil.ProxyRequest) {
	f := plainRequestOf(pr.In)
	pr.Out.URL.Host = f.target.String()
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery
	pr.Out.Host = f.target.authority()
	pr.Out.Header.Del("Connection")
	pr.Out.Header.Del("Upgrade")
	if pr.Out.Body != nil {
		pr.Out.Body = watchedBody{pr.Out.Body, f.idle}
	}
}

// watchedBody is a body that restarts the watchdog's idle time at each read of data.
type watchedBody struct {
	io.ReadCloser
	idle *watchdog
}

func (b watchedBody) Read(p []byte) (int, error) {
	return watchedReader{b.ReadCloser, b.idle}.Read(p)
}

// asRefusal returns the *refusal that err wraps, or else a new one that describes err as a failed connection to t.
func asRefusal(t target, err error) *refusal {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	return unreachable(t, err)
}
