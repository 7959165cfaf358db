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

type flightKey struct{}

// flight is a plain request on its way.
type flight struct {
	target target
	life   *watchdog
}

// plain serves a request with a whole URL. Redirects are answers like any other.
func (h *handler) plain(w http.ResponseWriter, r *http.Request, c *client, t target) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	life := watch(h.limits.Idle, func() {
		cancel()
		_ = c.Close()
	})
	defer life.stop()
	ctx = context.WithValue(ctx, flightKey{}, flight{t, life})
	h.forward.ServeHTTP(w, r.WithContext(ctx))
}

// forwarder sends plain requests on. Its transport goes out through the dialer alone and knows no proxy.
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
			res.Body = livingBody{res.Body, flightOf(res.Request).life}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			h.refuse(w, r, asRefusal(flightOf(r).target, err))
		},
	}
}

func flightOf(r *http.Request) flight { return r.Context().Value(flightKey{}).(flight) }

// rewrite makes the request that goes out. ReverseProxy has taken out what concerns the proxy alone.
func rewrite(pr *httputil.ProxyRequest) {
	f := flightOf(pr.In)
	pr.Out.URL.Host = f.target.String()
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery
	pr.Out.Host = f.target.authority()
	pr.Out.Header.Del("Connection")
	pr.Out.Header.Del("Upgrade")
	if pr.Out.Body != nil {
		pr.Out.Body = livingBody{pr.Out.Body, f.life}
	}
}

// livingBody is a body whose every byte is a sign of life.
type livingBody struct {
	io.ReadCloser
	life *watchdog
}

func (b livingBody) Read(p []byte) (int, error) {
	return livingReader{b.ReadCloser, b.life}.Read(p)
}

// asRefusal finds the refusal in an error, or says that the connection failed.
func asRefusal(t target, err error) *refusal {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	return unreachable(t, err)
}
