// Package preview is the way into a sandbox from a browser: a reverse proxy to one of its ports.
//
// What listens there is hostile, and its pages are served from the server's own origin. So a [Proxy]
// gives it nothing of the caller's that is ours (keys, our cookies) and takes from it nothing that would
// let it act beyond its own path: its pages run in a sandbox of the browser with an origin of their own,
// its cookies and redirects stay below the port's prefix, and headers that speak for a whole origin are
// dropped.
package preview

import (
	"context"
	"mime"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

const (
	dialTime    = 10 * time.Second
	headerBytes = 64 << 10 // of an answer
)

// Proxy serves one request to a port of a sandbox, of any method, WebSockets and streams included.
type Proxy struct {
	Port   uint16
	Prefix string          // the path, as it was sent, that stands for the root of what listens there
	Ending context.Context // of the server: WebSockets and streams, which have no end of their own, end with it
	Dial   func(ctx context.Context) (net.Conn, error)
	Fail   func(w http.ResponseWriter, r *http.Request, err error) // answers when there is nothing to pass on
}

// reserved are ports of a sandbox that nobody is led to: Berth's own proxy, and those whose protocols are
// keys to a machine.
var reserved = map[uint16]string{3128: "the sandbox's way out", 22: "SSH", 2375: "Docker", 2376: "Docker"}

// ParsePort reads a port as it may stand in a path: decimal, and nothing else.
func ParsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != text {
		return 0, sandbox.Errorf("open port", api.CodeInvalidRequest, "a port is a decimal number from 1 to 65535")
	}
	if what, is := reserved[uint16(n)]; is {
		return 0, refused("Serve on another port. For a shell there is the terminal, which is 'berth shell'.", "port %d is not served: it is for %s", n, what)
	}
	return uint16(n), nil
}

// refused is what no key may do, so that the hint is not to use another.
func refused(hint, format string, args ...any) error {
	e := sandbox.Errorf("open port", api.CodeForbidden, format, args...)
	e.Hint = hint
	return e
}

// host is what listens there, by the name that it has for itself.
func (p Proxy) host() string { return "localhost:" + strconv.Itoa(int(p.Port)) }

func (p Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Service-Worker") != "" {
		p.Fail(w, r, refused("Build the page without its service worker.", "service workers are not served: they would live on our origin"))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	watched := func() bool { return true }
	defer func() { watched() }()
	proxy := httputil.ReverseProxy{
		Rewrite:       func(out *httputil.ProxyRequest) { p.rewrite(out.In, out.Out); out.SetXForwarded() },
		Transport:     p.transport(ctx),
		FlushInterval: -1,
		ModifyResponse: func(res *http.Response) error {
			p.harden(w.Header(), res)
			if p.Ending != nil && endless(res) {
				watched = context.AfterFunc(p.Ending, cancel)
			}
			return nil
		},
		ErrorHandler: p.Fail,
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// endless reports whether an answer goes on until somebody leaves.
func endless(res *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return res.StatusCode == http.StatusSwitchingProtocols || kind == "text/event-stream" || kind == "multipart/x-mixed-replace"
}

// transport makes one connection for one request.
func (p Proxy) transport(plain context.Context) http.RoundTripper {
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTime)
			defer cancel()
			return p.Dial(ctx)
		},
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: headerBytes,
	}
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		return t.RoundTrip(r.WithContext(untraced{r.Context(), plain}))
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// untraced hides the proxy's own tracing from the transport. The proxy would pass on informational
// answers with it, past all hardening.
type untraced struct {
	context.Context
	plain context.Context
}

func (u untraced) Value(key any) any { return u.plain.Value(key) }

// ours are the headers of a request that are not for the sandbox.
var ours = []string{"Authorization", "X-Api-Key", "X-Real-Ip", "Idempotency-Key"}

// rewrite makes the request that the sandbox sees.
func (p Proxy) rewrite(in, out *http.Request) {
	rest := strings.TrimPrefix(in.URL.EscapedPath(), p.Prefix)
	out.URL = &url.URL{Scheme: "http", Host: p.host(), RawQuery: in.URL.RawQuery, RawPath: rest}
	if path, err := url.PathUnescape(rest); err == nil {
		out.URL.Path = path
	}
	out.Host = p.host()
	for name := range out.Header {
		if strings.HasPrefix(name, "Proxy-") {
			out.Header.Del(name)
		}
	}
	for _, name := range ours {
		out.Header.Del(name)
	}
	filter(out.Header, "Cookie", "; ", func(cookie string) bool { return !ourCookie(cookie) })
	filter(out.Header, "Sec-Websocket-Protocol", ", ", func(name string) bool { return !strings.HasPrefix(name, api.TerminalKeyProtocol) })
	if origin, err := url.Parse(in.Header.Get("Origin")); err == nil && origin.Host == in.Host && origin.Host != "" {
		out.Header.Set("Origin", "http://"+p.host()) // it is asked from where it is served
	}
	if out.Header.Get("User-Agent") == "" {
		out.Header.Set("User-Agent", "") // not the proxy's
	}
	out.Header.Set("X-Forwarded-Prefix", p.Prefix)
}

// ourCookie reports whether a cookie's name is one that only Berth may give out.
func ourCookie(cookie string) bool {
	name := strings.ToLower(strings.TrimSpace(cookie))
	return strings.HasPrefix(name, "berth") || strings.HasPrefix(name, "__host-berth") || strings.HasPrefix(name, "__secure-berth")
}

// filter keeps those items of a header's list that may stay.
func filter(h http.Header, name, separator string, may func(item string) bool) {
	var kept []string
	for _, line := range h.Values(name) {
		for item := range strings.SplitSeq(line, separator[:1]) {
			if item = strings.TrimSpace(item); item != "" && may(item) {
				kept = append(kept, item)
			}
		}
	}
	h.Del(name)
	if len(kept) > 0 {
		h.Set(name, strings.Join(kept, separator))
	}
}
