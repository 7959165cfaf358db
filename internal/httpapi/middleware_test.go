package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/middleware"
	"github.com/berthdev/berth/internal/telemetry"
)

// through sends a request through the middlewares to h, inside an exchange with an id and a route.
func through(t *testing.T, r *http.Request, h http.HandlerFunc, all ...middleware.Middleware) answer {
	t.Helper()
	log := new(logBuffer)
	return throughWith(t, r, telemetry.NewLogger(log, "json", slog.LevelDebug, nil), h, all...)
}

func throughWith(t *testing.T, r *http.Request, log *slog.Logger, h http.HandlerFunc, all ...middleware.Middleware) answer {
	t.Helper()
	asked := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			exchange.Of(r.Context()).Route = &exchange.Route{Method: r.Method, Path: "/x/{id}", Scope: api.ScopeWrite}
			next.ServeHTTP(w, r)
		})
	}
	w := httptest.NewRecorder()
	front := []middleware.Middleware{middleware.Begin(log, func(s string) string { return s }), middleware.RecoverPanic, middleware.Identify, asked}
	middleware.Chain(h, append(front, all...)...).ServeHTTP(w, r)
	return answer{t, w.Code, w.Result().Header, w.Body.Bytes()}
}

func fine(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fine") }

func TestPanicIsAnswered(t *testing.T) {
	log := new(logBuffer)
	logger := telemetry.NewLogger(log, "json", slog.LevelDebug, nil)
	a := throughWith(t, httptest.NewRequest(http.MethodGet, "/x/1", nil), logger, func(http.ResponseWriter, *http.Request) { panic("the canary sings") })
	p := a.fails(api.CodeInternal)
	if strings.Contains(string(a.body), "canary") {
		t.Errorf("the panic's text leaked: %s", a.body)
	}
	lines := log.lines(t, "request panicked")
	if len(lines) != 1 || lines[0]["panic"] != "the canary sings" || lines[0]["request_id"] != p.RequestID || !strings.Contains(fmt.Sprint(lines[0]["stack"]), "middleware_test.go") {
		t.Errorf("log %v, want the panic with its stack and request id", lines)
	}
}

// An answer that was begun cannot become a problem: the client must see that it is cut.
func TestPanicMidwayCutsTheConnection(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"begun":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "half"); panic("midway") },
		"aborted": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"client gone": func(w http.ResponseWriter, r *http.Request) {
			exchange.Of(r.Context()).Broken = errors.New("connection reset")
			panic("write failed")
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if p := recover(); p != http.ErrAbortHandler {
					t.Errorf("recovered %v, want the connection cut", p)
				}
			}()
			through(t, httptest.NewRequest(http.MethodGet, "/x/1", nil), h)
		})
	}
}

func TestRequestID(t *testing.T) {
	for sent, kept := range map[string]bool{
		"abc-123_X.y:z": true, "": false, "a b": false, "a\nb": false, "ä": false,
		strings.Repeat("x", 128): true, strings.Repeat("x", 129): false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/x/1", nil)
		r.Header[requestIDHeader] = []string{sent}
		got := through(t, r, fine).header.Get(requestIDHeader)
		if kept != (got == sent) || got == "" || len(got) > 128 || strings.ContainsAny(got, " \nä") {
			t.Errorf("sent %q, got %q", sent, got)
		}
	}
}

func TestEveryRequestIsLoggedAndCounted(t *testing.T) {
	metrics, log := telemetry.NewMetrics("v"), new(logBuffer)
	logger := telemetry.NewLogger(log, "json", slog.LevelDebug, nil)
	for _, c := range []struct {
		h      http.HandlerFunc
		status float64
	}{
		{fine, 200},
		{func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusEarlyHints); w.WriteHeader(404) }, 404},
		{func(http.ResponseWriter, *http.Request) {}, 200},
		{func(http.ResponseWriter, *http.Request) { panic("x") }, 500},
	} {
		before := len(log.lines(t, "request"))
		r := httptest.NewRequest(http.MethodGet, "/x/1?token=canary", nil)
		r.Header.Set("Authorization", "Bearer canary")
		throughWith(t, r, logger, c.h, middleware.Observe(metrics))
		lines := log.lines(t, "request")[before:]
		if len(lines) != 1 || lines[0]["status"] != c.status || lines[0]["route"] != "/x/{id}" || lines[0]["path"] != "/x/1" || lines[0]["request_id"] == nil {
			t.Errorf("log %v, want one line with status %v", lines, c.status)
		}
	}
	w := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`berth_http_requests_total{method="GET",route="/x/{id}",status="2xx"} 2`,
		`berth_http_requests_total{method="GET",route="/x/{id}",status="4xx"} 1`,
		`berth_http_requests_total{method="GET",route="/x/{id}",status="5xx"} 1`,
		`berth_http_requests_in_flight 0`,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if strings.Contains(log.String(), "canary") {
		t.Error("the log holds a query or a header")
	}
}

func TestSecurityHeaders(t *testing.T) {
	a := through(t, httptest.NewRequest(http.MethodGet, "/x/1", nil), fine, middleware.SecurityHeaders)
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestHostMustBeOurs(t *testing.T) {
	for _, c := range []struct {
		listen, host, local string
		ok                  bool
	}{
		{"127.0.0.1:7070", "127.0.0.1:7070", "", true},
		{"127.0.0.1:7070", "localhost", "", true},
		{"127.0.0.1:7070", "LocalHost.:7070", "", true},
		{"127.0.0.1:7070", "[::1]:7070", "", true},
		{"127.0.0.1:7070", "127.9.9.9", "", true},
		{"127.0.0.1:7070", "berth.example.com", "", true},
		{"127.0.0.1:7070", "berth.example.com:443", "", true},
		{"10.0.0.5:7070", "10.0.0.5:7070", "", true},
		{"berth.local:7070", "berth.local", "", true},
		{"0.0.0.0:7070", "10.0.0.5:7070", "10.0.0.5:7070", true},
		{"[::]:7070", "10.0.0.5", "[::ffff:10.0.0.5]:7070", true},
		{":7070", "[fe80::1]", "[fe80::1%eth0]:7070", true},
		{"127.0.0.1:7070", "evil.test", "", false},
		{"127.0.0.1:7070", "127.0.0.1.evil.test", "", false},
		{"127.0.0.1:7070", "localhost.evil.test:7070", "", false},
		{"127.0.0.1:7070", "evil.berth.example.com", "", false},
		{"127.0.0.1:7070", "10.0.0.5", "10.0.0.5:7070", false},
		{"0.0.0.0:7070", "10.0.0.6", "10.0.0.5:7070", false},
		{"0.0.0.0:7070", "evil.test", "10.0.0.5:7070", false},
		{"0.0.0.0:7070", "0.0.0.0", "10.0.0.5:7070", false},
		{"0.0.0.0:7070", "10.0.0.5", "", false},
		{"0.0.0.0:7070", "10.0.0.5", "@socket", false},
		{"127.0.0.1:7070", "", "", false},
		{"nonsense", "evil.test", "", false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/x/1", nil)
		r.Host = c.host
		if c.local != "" {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, addr(c.local)))
		}
		err := middleware.NewHosts(c.listen, []string{"Berth.example.com"}).Check(r)
		if ok := err == nil; ok != c.ok || !ok && fault.CodeOf(err) != api.CodeWrongHostHeader {
			t.Errorf("listening on %s, host %q, local %q: %v, want %v", c.listen, c.host, c.local, err, c.ok)
		}
	}
}

type addr string

func (a addr) Network() string { return "tcp" }

func (a addr) String() string { return string(a) }

var _ net.Addr = addr("")

func TestForeignPagesAreRefused(t *testing.T) {
	for _, c := range []struct {
		method          string
		origin, site    string
		upgrade, passes bool
	}{
		{"POST", "", "", false, true},
		{"POST", "http://localhost:7070", "", false, true},
		{"POST", "http://localhost:7070", "same-origin", false, true},
		{"DELETE", "", "none", false, true},
		{"GET", "https://evil.test", "cross-site", false, true},
		{"OPTIONS", "https://evil.test", "", false, true},
		{"POST", "https://evil.test", "", false, false},
		{"POST", "https://evil.test", "same-origin", false, false},
		{"POST", "", "cross-site", false, false},
		{"POST", "", "same-site", false, false},
		{"POST", "null", "", false, false},
		{"PUT", "http://localhost:7070.evil.test", "", false, false},
		{"DELETE", "http://localhost:9", "", false, false},
		{"POST", "%zz", "none", false, false},
		{"GET", "https://evil.test", "", true, false},
		{"GET", "null", "", true, false},
		{"GET", "http://localhost:7070", "", true, true},
	} {
		r := httptest.NewRequest(c.method, "/x/1", nil)
		r.Host = "localhost:7070"
		for name, value := range map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if c.upgrade {
			r.Header.Set("Upgrade", "websocket")
		}
		err := middleware.CheckOrigin(r)
		if passes := err == nil; passes != c.passes || !passes && fault.CodeOf(err) != api.CodeForeignOrigin {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestPathsThatMeanSomethingElseAreRefused(t *testing.T) {
	for target, ok := range map[string]bool{
		"/": true, "/docs": true, "/api/v1/sandboxes/box": true, "/files/%C3%A4": true, "/a%20b": true, "/a..b/...": true, "/%252e": true,
		"/..": false, "/a/../b": false, "/a/./b": false, "/%2e%2e/etc": false, "/%2E/x": false, "/..%2f..%2fetc%2fpasswd": false,
		"/a%2fb": false, "/a%5cb": false, "/..%5c": false, "//etc/passwd": false, "/a//b": false, "/....//x": false, "/a/": false,
		"/a%00b": false, "/a%0ab": false, "/a%7f": false, "/%ff": false, "/" + strings.Repeat("x", 5000): false,
	} {
		r := httptest.NewRequest(http.MethodGet, target, nil)
		err := middleware.CheckPath(r)
		if passes := err == nil; passes != ok || !passes && fault.CodeOf(err) != api.CodeInvalidPath {
			t.Errorf("%.40s: %v, want %v", target, err, ok)
		}
	}
	backslash := httptest.NewRequest(http.MethodGet, "/x", nil)
	backslash.URL.Path = `/..\etc`
	asterisk := httptest.NewRequest(http.MethodOptions, "/x", nil)
	asterisk.URL.Path = "*"
	broken := httptest.NewRequest(http.MethodGet, "/x", nil)
	broken.URL.Path, broken.URL.RawPath = "/a\x00", "/a%00"
	for _, r := range []*http.Request{backslash, asterisk, broken} {
		if err := middleware.CheckPath(r); fault.CodeOf(err) != api.CodeInvalidPath {
			t.Errorf("%q: %v", r.URL.Path, err)
		}
	}
}

func TestScopes(t *testing.T) {
	for _, c := range []struct {
		have, need api.Scope
		ok         bool
	}{
		{"read", "read", true}, {"read", "write", false}, {"read", "admin", false},
		{"write", "read", true}, {"write", "write", true}, {"write", "admin", false},
		{"admin", "admin", true}, {"", "read", false},
	} {
		a := through(t, httptest.NewRequest(http.MethodGet, "/x/1", nil), fine, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				x := exchange.Of(r.Context())
				x.Route.Scope, x.Principal = c.need, auth.Principal{KeyID: "k", Scope: c.have}
				next.ServeHTTP(w, r)
			})
		}, middleware.Guard(middleware.Authorize))
		if c.ok {
			a.is(http.StatusOK)
		} else if p := a.fails(api.CodeForbidden); !strings.Contains(p.Detail, string(c.need)) {
			t.Errorf("detail %q does not name the scope that is needed", p.Detail)
		}
	}
}

func TestTimeIsLimitedByRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			exchange.Fail(w, r, fmt.Errorf("wait: %w", r.Context().Err()))
		}
		for own, want := range map[time.Duration]time.Duration{0: time.Minute, time.Hour: time.Hour} {
			start := time.Now()
			through(t, httptest.NewRequest(http.MethodGet, "/x/1", nil), wait, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					exchange.Of(r.Context()).Route.Timeout = own
					next.ServeHTTP(w, r)
				})
			}, middleware.LimitTime(time.Minute)).fails(api.CodeTimeout)
			if took := time.Since(start); took != want {
				t.Errorf("ended after %v, want %v", took, want)
			}
		}
	})
}

func TestProblemsOfEveryOrigin(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	ending, end := context.WithCancelCause(t.Context())
	end(exchange.ErrShutdown)
	late, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	hinted := fault.Errorf("op", api.CodeConflict, "two of them")
	hinted.Hint, hinted.Retry = "do this", true
	for _, c := range []struct {
		name   string
		ctx    context.Context
		err    error
		code   api.Code
		detail string
	}{
		{"our own, deep down", t.Context(), fmt.Errorf("a: %w", fmt.Errorf("b: %w", fault.Errorf("op", api.CodeNameTaken, "taken by x"))), api.CodeNameTaken, "taken by x"},
		{"our own without words", t.Context(), &fault.Error{Op: "op", Code: api.CodeBusy}, api.CodeBusy, api.CodeBusy.Info().Title},
		{"anything else", t.Context(), errors.New("dial 10.0.0.1: canary"), api.CodeInternal, exchange.HiddenDetails[api.CodeInternal]},
		{"the store's", t.Context(), fault.Errorf("op", api.CodeStoreUnavailable, "dial 10.0.0.1: canary"), api.CodeStoreUnavailable, exchange.HiddenDetails[api.CodeStoreUnavailable]},
		{"one for the command line", t.Context(), fault.Errorf("op", api.CodeDataDirLocked, "locked"), api.CodeDataDirLocked, "locked"},
		{"time over", late, late.Err(), api.CodeTimeout, "the work was not done within the time that a request may take"},
		{"time over, reported by the store", late, fault.Errorf("op", api.CodeStoreUnavailable, "x: %w", context.DeadlineExceeded), api.CodeTimeout, "the work was not done within the time that a request may take"},
		{"another's time over", t.Context(), context.DeadlineExceeded, api.CodeInternal, exchange.HiddenDetails[api.CodeInternal]},
		{"client gone", gone, gone.Err(), api.CodeTimeout, "the client went away before the answer"},
		{"server going", ending, fmt.Errorf("x: %w", ending.Err()), api.CodeShuttingDown, "the server is shutting down and ended this request"},
		{"hinted", t.Context(), hinted, api.CodeConflict, "two of them"},
	} {
		p := exchange.ProblemOf(c.ctx, c.err)
		if p.Code != c.code || p.Detail != c.detail || p.Status < 400 {
			t.Errorf("%s: %s (%d) %q, want %s %q", c.name, p.Code, p.Status, p.Detail, c.code, c.detail)
		}
	}
	if p := exchange.ProblemOf(t.Context(), hinted); p.Hint != "do this" || !p.Retryable || p.Headers.Get("Retry-After") != "1" {
		t.Errorf("hint %q, retryable %v, headers %v", p.Hint, p.Retryable, p.Headers)
	}
}

// hanging never answers by itself.
type hanging struct{}

func (hanging) Authenticate(ctx context.Context, _ string) (auth.Principal, error) {
	<-ctx.Done()
	return auth.Principal{}, ctx.Err()
}

// A database that hangs is reported after seconds, however long a request may take.
func TestKeyLookupThatHangs(t *testing.T) {
	for _, limit := range []time.Duration{time.Minute, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			h := New(Options{Engine: struct{ access.Engine }{}, Keys: hanging{}, RequestTimeout: limit})
			r := httptest.NewRequest(http.MethodGet, sandboxesPath, nil)
			r.Host = "localhost"
			r.Header.Set("X-API-Key", "k")
			w := httptest.NewRecorder()
			start := time.Now()
			h.ServeHTTP(w, r)
			answer{t, w.Code, w.Header(), w.Body.Bytes()}.fails(api.CodeStoreUnavailable)
			if took := time.Since(start); took != min(limit, 5*time.Second) {
				t.Errorf("answered after %v", took)
			}
		})
	}
}
