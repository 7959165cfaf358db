package preview_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/preview"
)

const prefix = "/api/v1/sandboxes/box/ports/3000"

// other is the prefix of another port.
func other(port string) string { return strings.TrimSuffix(prefix, "3000") + port }

// proxied serves h as what listens in a sandbox, behind a proxy, and returns the proxy's address.
func proxied(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	inside := httptest.NewServer(h)
	t.Cleanup(inside.Close)
	return behind(t, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", inside.Listener.Addr().String())
	})
}

func behind(t *testing.T, dial func(ctx context.Context) (net.Conn, error)) string {
	t.Helper()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// What the server says of itself before anything is asked.
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("X-Frame-Options", "DENY")
		w.Header().Set("Content-Security-Policy", "default-src 'none'")
		w.Header().Set("X-Request-Id", "ours")
		w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
		preview.Proxy{Port: 3000, Prefix: prefix, Dial: dial, Fail: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}}.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return front.URL + prefix
}

var plain = http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func get(t *testing.T, address string) *http.Response {
	t.Helper()
	res, err := plain.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

func TestPagesAreKeptFromActingAsUs(t *testing.T) {
	forbidden := map[string]string{
		"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Credentials": "true", "Service-Worker-Allowed": "/",
		"Clear-Site-Data": `"*"`, "Strict-Transport-Security": "max-age=1", "Report-To": "{}", "Nel": "{}", "Alt-Svc": "h2=x",
		"Refresh": "0; url=//evil.test", "WWW-Authenticate": "Basic", "Timing-Allow-Origin": "*",
		"Accept-CH": "Sec-CH-UA-Model", "Critical-CH": "Sec-CH-UA-Model", "Set-Login": "logged-in", "Activate-Storage-Access": "load",
		"Use-As-Dictionary": `match="/*"`, "X-Accel-Redirect": "/internal", "X-Sendfile": "/etc/passwd", preview.DroppedLocation: "forged",
	}
	at := proxied(t, func(w http.ResponseWriter, r *http.Request) {
		for name, value := range forbidden {
			w.Header().Set(name, value)
		}
		w.Header().Set("Content-Security-Policy", "script-src 'self'")
		w.Header().Set("X-Request-Id", "theirs")
		w.Header().Set("Cross-Origin-Opener-Policy", "unsafe-none")
		w.Header().Set("X-Content-Type-Options", "sniff")
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<script>steal()</script>")
	})
	res := get(t, at+"/")
	for name := range forbidden {
		if got := res.Header.Get(name); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
	policies := res.Header.Values("Content-Security-Policy")
	sandboxed := slices.ContainsFunc(policies, func(p string) bool {
		return strings.HasPrefix(p, "sandbox ") && !strings.Contains(p, "allow-same-origin") && !strings.Contains(p, "allow-top-navigation")
	})
	if !sandboxed || !slices.Contains(policies, "script-src 'self'") || slices.Contains(policies, "default-src 'none'") {
		t.Errorf("policies %q", policies)
	}
	for name, want := range map[string][]string{
		"X-Request-Id": {"ours"}, "Cross-Origin-Opener-Policy": {"same-origin"}, "X-Content-Type-Options": {"nosniff"},
		"X-Frame-Options": nil, "Cache-Control": {"no-store"}, "Content-Type": {"text/html"},
	} {
		if got := res.Header.Values(name); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Cookies stay below the port's own path, and none is for other hosts (B4 29).
func TestCookiesStayWhereTheyAreFrom(t *testing.T) {
	for sent, want := range map[string]string{
		"a=1; Path=/; HttpOnly": "a=1; Path=" + prefix + "/; HttpOnly",
		"a=1":                   "a=1; Path=" + prefix + "/",
		"a=1; Path=/deep":       "a=1; Path=" + prefix + "/deep",
		"a=1; Path=deep":        "a=1; Path=" + prefix + "/",
		"a=1; Domain=evil.test": "a=1; Path=" + prefix + "/",
		"a=1; Domain=localhost": "a=1; Path=" + prefix + "/",
		"a=1; Domain=.x.test; Path=/deep; Secure": "a=1; Path=" + prefix + "/deep; Secure",
		"berth_session=x":                         "",
		"Berth=x; Path=/":                         "",
		"__Host-x=1; Secure; Path=/":              "",
		"__Secure-berth=1; Secure":                "",
		"=x":                                      "",
	} {
		at := proxied(t, func(w http.ResponseWriter, r *http.Request) { w.Header().Add("Set-Cookie", sent) })
		if got := get(t, at+"/").Header.Get("Set-Cookie"); got != want {
			t.Errorf("%q became %q, want %q", sent, got, want)
		}
	}
}

func TestRedirectsStayBelowThePrefix(t *testing.T) {
	for sent, want := range map[string]string{
		"/login":                          prefix + "/login",
		"/":                               prefix + "/",
		"/a%2Fb?x=%2F&y#z%20":             prefix + "/a%2Fb?x=%2F&y#z%20",
		"next":                            prefix + "/dir/next",
		"?q=1":                            prefix + "/dir/page?q=1",
		"../../../../../../keys":          prefix + "/keys",
		"http://localhost:3000/x":         prefix + "/x",
		"http://localhost:3000":           prefix + "/",
		"http://127.0.0.1:3000/x?y":       prefix + "/x?y",
		"https://accounts.example.test/o": "https://accounts.example.test/o",
		"http://localhost:3001/x":         other("3001") + "/x",
		"http://LOCALHOST:3000/x":         prefix + "/x",
		"http://[::1]:3000/x":             prefix + "/x",
		"http://[::]:3000/x":              prefix + "/x",
		"http://0.0.0.0:3000/x":           prefix + "/x",
		"http://127.8.8.8:3000/x":         prefix + "/x",
		"http://localhost/x":              other("80") + "/x",
		"http://[::1]/x":                  other("80") + "/x",
		"http://localhost:22/x":           "",
		"http://localhost.:3000/x":        prefix + "/x",
		"http://app.localhost:3000/x":     prefix + "/x",
		"http://[::ffff:127.0.0.1]:3000/": prefix + "/",
		"http://127.1:3000/x":             "",
		"http://0x7f000001:3000/x":        "",
		"http://2130706433:3000/x":        "",
		"http://127.0.0.0x1:3000/x":       "",
		"http://①②⑦.0.0.1:3000/x":         "",
		"http://[fe80::1%25eth0]/x":       "",
		"/%2e%2e/%2E%2e/.%2e/keys":        prefix + "/keys",
		"/a?x=%2e#%2e":                    prefix + "/a?x=%2e#%2e",
		prefix + "/login":                 prefix + "/login",
		prefix + "/../3001/x":             prefix + other("3001") + "/x",
		"http://10.0.0.1:3000/x":          "http://10.0.0.1:3000/x",
		"//evil.test/":                    "",
		"///evil.test":                    "",
		`/\evil.test`:                     "",
		`\\evil.test`:                     "",
		"/\tevil":                         "",
		"javascript:alert(1)":             "",
		"data:text/html,x":                "",
		"http://user:pass@evil.test/":     "",
		"https:evil.test":                 "",
		"https:///evil.test":              "",
		"/%zz":                            "",
	} {
		at := proxied(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Location"] = []string{sent}
			w.WriteHeader(http.StatusFound)
		})
		if got := get(t, at+"/dir/page").Header.Get("Location"); got != want {
			t.Errorf("%q became %q, want %q", sent, got, want)
		}
	}
}

// An address without a port is the one of its scheme.
func TestRedirectsToTheUsualPort(t *testing.T) {
	for _, c := range []struct {
		port       uint16
		sent, want string
	}{
		{80, "http://localhost/x", other("80") + "/x"},
		{80, "http://localhost:80/x", other("80") + "/x"},
		{80, "http://127.0.0.1", other("80") + "/"},
		{80, "http://[::1]/x", other("80") + "/x"},
		{80, "https://localhost/x", other("443") + "/x"},
		{443, "https://localhost/x", other("443") + "/x"},
		{443, "http://localhost/x", other("80") + "/x"},
	} {
		inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", c.sent)
			w.WriteHeader(http.StatusFound)
		}))
		defer inside.Close()
		res := httptest.NewRecorder()
		preview.Proxy{Port: c.port, Prefix: other(strconv.Itoa(int(c.port))), Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", inside.Listener.Addr().String())
		}}.ServeHTTP(res, httptest.NewRequest(http.MethodGet, other(strconv.Itoa(int(c.port)))+"/", nil))
		if got := res.Header().Get("Location"); got != c.want {
			t.Errorf("port %d: %q became %q, want %q", c.port, c.sent, got, c.want)
		}
	}
}

func TestServiceWorkersAreNotServed(t *testing.T) {
	reached := false
	at := proxied(t, func(http.ResponseWriter, *http.Request) { reached = true })
	r, err := http.NewRequest(http.MethodGet, at+"/sw.js", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Service-Worker", "script")
	res, err := plain.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusBadGateway || reached {
		t.Errorf("status %d, reached %v", res.StatusCode, reached)
	}
}

// raw answers every connection with the same bytes, as a server with no manners.
func raw(t *testing.T, answer string) string {
	t.Helper()
	return behind(t, func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			if _, err := http.ReadRequest(bufio.NewReader(theirs)); err == nil {
				_, _ = io.WriteString(theirs, answer)
			}
		}()
		return ours, nil
	})
}

func TestAnswersWithoutMannersAreBounded(t *testing.T) {
	for name, answer := range map[string]string{
		"no HTTP":       "SSH-2.0-x\r\n\r\n",
		"nothing":       "",
		"huge header":   "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n",
		"split header":  "HTTP/1.1 200 OK\r\nX\x00: y\r\n\r\n",
		"bad length":    "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
		"wrong upgrade": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\nConnection: upgrade\r\n\r\n",
	} {
		if res := get(t, raw(t, answer)+"/"); res.StatusCode != http.StatusBadGateway {
			t.Errorf("%s: %s", name, res.Status)
		}
	}
}

// Informational answers would pass by everything that hardens the answer.
func TestEarlyHintsAreNotPassedOn(t *testing.T) {
	at := raw(t, "HTTP/1.1 103 Early Hints\r\nSet-Cookie: berth=x\r\nLink: </x>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", u.Path)
	text, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 200") || strings.Contains(string(text), "berth=x") || !strings.Contains(string(text), "nosniff") {
		t.Errorf("%v %s", err, text)
	}
}

// lateConn stops its writer behind the given number of bytes until the answer has begun.
type lateConn struct {
	net.Conn
	bytes           int
	answered, wrote chan struct{}
}

func (l *lateConn) Write(p []byte) (int, error) {
	n, err := l.Conn.Write(p)
	if l.bytes -= n; l.bytes <= 0 {
		<-l.answered
		close(l.wrote)
	}
	return n, err
}

// An answer that begins before the writer of its request has returned is not cut off.
func TestPromptAnswerIsNotCutOff(t *testing.T) {
	const asked, answered = 64 << 10, 32 << 20
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(make([]byte, answered))
	}))
	defer inside.Close()
	late := &lateConn{bytes: asked, answered: make(chan struct{}), wrote: make(chan struct{})}
	address := behind(t, func(ctx context.Context) (_ net.Conn, err error) {
		late.Conn, err = new(net.Dialer).DialContext(ctx, "tcp", inside.Listener.Addr().String())
		return late, err
	})
	res, err := plain.Post(address, "text/plain", strings.NewReader(strings.Repeat("x", asked)))
	close(late.answered)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	<-late.wrote
	if n, err := io.Copy(io.Discard, res.Body); err != nil || n != answered {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestDialThatFailsIsToldToTheCaller(t *testing.T) {
	at := behind(t, func(context.Context) (net.Conn, error) { return nil, errors.New("no answer") })
	res := get(t, at+"/")
	text, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusBadGateway || !strings.Contains(string(text), "no answer") || res.Header.Get("Content-Security-Policy") != "default-src 'none'" {
		t.Errorf("%s %s %v", res.Status, text, res.Header)
	}
}

func TestPorts(t *testing.T) {
	for _, n := range []int{1, 80, 3000, 65535} {
		if got, err := preview.ParsePort(strconv.Itoa(n)); err != nil || int(got) != n {
			t.Errorf("%d: %d, %v", n, got, err)
		}
	}
	for text, code := range map[string]api.Code{
		"": api.CodeInvalidRequest, "0": api.CodeInvalidRequest, "65536": api.CodeInvalidRequest, "+80": api.CodeInvalidRequest, "0x50": api.CodeInvalidRequest,
		"3000@evil": api.CodeInvalidRequest, "08": api.CodeInvalidRequest, " 80": api.CodeInvalidRequest, "-0": api.CodeInvalidRequest,
		"22": api.CodeForbidden, "2375": api.CodeForbidden, "2376": api.CodeForbidden, "3128": api.CodeForbidden,
	} {
		if _, err := preview.ParsePort(text); fault.CodeOf(err) != code {
			t.Errorf("%q: %v, want %s", text, err, code)
		}
	}
}
