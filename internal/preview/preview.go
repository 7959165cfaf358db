// Package preview is a reverse proxy from browsers to a port of a sandbox.
//
// The program in the sandbox is treated as hostile. So a [Proxy] does not send Berth's keys and cookies to the program, and
// restricts its answers. Without Origin, its pages are served from Berth's origin, below the path of the port: they get an
// opaque origin with the browser's sandbox policy, cookies and redirects stay below the path, and headers that affect the
// whole origin are dropped. With Origin, the port has an origin for itself, and the program works as on the machine itself:
// only what would affect other hosts is dropped. [Pool] keeps connections to programs between requests.
package preview

import (
	"context"
	"io"
	"log"
	"mime"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/fault"
)

const (
	dialTime    = 10 * time.Second
	headerBytes = 64 << 10 // the maximum size of an answer's header
	wayOut      = 3128     // the port of Berth's egress proxy
)

// Proxy serves one request to a port of a sandbox. It supports all methods, WebSockets and streams.
type Proxy struct {
	Port   uint16
	Prefix string                   // the escaped beginning of the request's path; it is removed before the program gets the path
	Ending context.Context          // ends when the server shuts down, and with it WebSockets and endless streams; nil: never
	Own    func(host string) bool   // reports whether a host, without its port, is one of the server's; nil: only the request's Host
	Origin func(port uint16) string // returns the origin of a port of the sandbox; nil: ports have no origins, and Prefix is used
	Keyed  bool                     // with Origin: the request carries a Berth key in a header
	Pool   http.RoundTripper        // sends requests, a Pool or an Exposed; nil: each request makes a connection with Dial
	Dial   func(ctx context.Context) (net.Conn, error)
	Fail   func(w http.ResponseWriter, r *http.Request, err error) // answers a request with an error
}

// reserved lists the ports of a sandbox that are not forwarded: the port of Berth's egress proxy, and ports of protocols
// that give control over a machine.
var reserved = map[uint16]string{wayOut: "the sandbox's way out", 22: "SSH", 2375: "Docker", 2376: "Docker"}

// ParsePort parses a port in a path. Only decimal digits without leading zeros are valid.
func ParsePort(text string) (uint16, error) {
	n, err := ParseAnyPort(text)
	if err != nil {
		return 0, err
	}
	if what, is := reserved[n]; is {
		return 0, refused("Serve on another port. For a shell there is the terminal, which is 'berth shell'.", "port %d is not served: it is for %s", n, what)
	}
	return n, nil
}

// ParseAnyPort is ParsePort for connections of any protocol. Only the sandbox's way out is refused.
func ParseAnyPort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != text {
		return 0, fault.Errorf("open port", api.CodeInvalidRequest, "a port is a decimal number from 1 to 65535")
	}
	if n == wayOut {
		return 0, refused("Serve on another port.", "port %d is not served: it is for %s", n, reserved[wayOut])
	}
	return uint16(n), nil
}

// refused returns an error with another hint than usual for the code: no key allows the request.
func refused(hint, format string, args ...any) error {
	e := fault.Errorf("open port", api.CodeForbidden, format, args...)
	e.Hint = hint
	return e
}

// host returns the Host header for the program in the sandbox.
func (p Proxy) host() string { return "localhost:" + strconv.Itoa(int(p.Port)) }

func (p Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Service-Worker") != "" && p.Origin == nil {
		p.Fail(w, r, refused("Build the page without its service worker.", "service workers are not served: they would live on our origin"))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	watched := func() bool { return true }
	defer func() { watched() }()
	proxy := httputil.ReverseProxy{
		Rewrite: func(out *httputil.ProxyRequest) {
			p.rewrite(out.In, out.Out)
			out.SetXForwarded()
			if p.Origin != nil {
				p.localise(out.In, out.Out)
			}
			if out.Out.Body != nil {
				out.Out.Body = &egress.RequestBody{ReadCloser: out.Out.Body}
			}
		},
		BufferPool:    buffers{},
		Transport:     p.transport(ctx),
		FlushInterval: -1,
		ModifyResponse: func(res *http.Response) error {
			if p.Origin != nil {
				p.contain(w.Header(), r, res)
			} else {
				p.harden(w.Header(), r, res)
			}
			if p.Ending != nil && endless(res) {
				watched = context.AfterFunc(p.Ending, cancel)
			}
			return nil
		},
		ErrorHandler: p.Fail,
		ErrorLog:     log.New(io.Discard, "", 0), // the log of requests has the answers that break off
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// endless reports whether an answer does not end until one side closes the connection.
func endless(res *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return res.StatusCode == http.StatusSwitchingProtocols || kind == "text/event-stream" || kind == "multipart/x-mixed-replace"
}

// newTransport returns a transport that makes its connections with dial.
func newTransport(dial func(context.Context) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTime)
			defer cancel()
			return dial(ctx)
		},
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: headerBytes,
	}
}

// transport returns a transport that makes one connection for one request, or that of the pool.
func (p Proxy) transport(plain context.Context) http.RoundTripper {
	t := p.Pool
	if t == nil {
		t = newTransport(p.Dial)
	}
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		res, err := t.RoundTrip(r.WithContext(untraced{r.Context(), plain}))
		if err != nil {
			return nil, err
		}
		// Reading the body stores trailers in res, after harden has run. The proxy gets a copy, which has none.
		passed := *res
		passed.Trailer = nil
		return &passed, nil
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// untraced hides the ReverseProxy's httptrace from the transport. ReverseProxy uses it to pass on informational (1xx)
// answers, whose headers harden does not check.
type untraced struct {
	context.Context
	plain context.Context
}

func (u untraced) Value(key any) any { return u.plain.Value(key) }

// ours returns the names of the headers of a request that are not sent to the sandbox.
func (p Proxy) ours(h http.Header) []string {
	if p.Origin == nil {
		return oursBelow
	}
	names := []string{"X-Real-Ip"}
	if p.Keyed || auth.CarriesKey(h.Get("Authorization")) {
		names = append(names, "Authorization")
	}
	if p.Keyed || auth.IsKey(h.Get("X-Api-Key")) {
		names = append(names, "X-Api-Key")
	}
	return names
}

// oursBelow lists them for requests to paths of Berth's origin.
var oursBelow = []string{"Authorization", "X-Api-Key", "X-Real-Ip", "Idempotency-Key"}

// rewrite changes the request to the one that is sent to the sandbox.
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
	for _, name := range p.ours(in.Header) {
		out.Header.Del(name)
	}
	filter(out.Header, "Cookie", "; ", func(cookie string) bool { return !ourCookie(cookie) })
	filter(out.Header, "Sec-Websocket-Protocol", ", ", func(name string) bool { return !strings.HasPrefix(name, api.TerminalKeyProtocol) })
	if origin, err := url.Parse(in.Header.Get("Origin")); err == nil && strings.EqualFold(origin.Host, in.Host) && origin.Host != "" {
		out.Header.Set("Origin", "http://"+p.host()) // the request is from a page of the same origin
	}
	if out.Header.Get("User-Agent") == "" {
		out.Header.Set("User-Agent", "") // otherwise ReverseProxy would send its default
	}
	if p.Origin == nil {
		out.Header.Set("X-Forwarded-Prefix", p.Prefix)
	}
	out.Header.Del("Te") // trailers are not passed on
}

// ourCookie reports whether a cookie has a name that is reserved for Berth.
func ourCookie(cookie string) bool {
	name := strings.ToLower(strings.TrimSpace(cookie))
	return strings.HasPrefix(name, "berth") || strings.HasPrefix(name, "__host-berth") || strings.HasPrefix(name, "__secure-berth")
}

// filter removes the items of a header's list for which keep returns false.
func filter(h http.Header, name, separator string, keep func(item string) bool) {
	var kept []string
	for _, line := range h.Values(name) {
		for item := range strings.SplitSeq(line, separator[:1]) {
			if item = strings.TrimSpace(item); item != "" && keep(item) {
				kept = append(kept, item)
			}
		}
	}
	h.Del(name)
	if len(kept) > 0 {
		h.Set(name, strings.Join(kept, separator))
	}
}
