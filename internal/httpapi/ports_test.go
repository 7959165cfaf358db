package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// listening serves on a port of the helper's loopback, which is the machine's.
func (w *workshop) listening(h http.HandlerFunc) (path string) {
	w.t.Helper()
	inside := httptest.NewServer(h)
	w.t.Cleanup(inside.Close)
	u, err := url.Parse(inside.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.box + "/ports/" + u.Port()
}

func TestPortPassesRequestsOn(t *testing.T) {
	w := newWorkshop(t)
	at := w.listening(func(out http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		out.Header().Set("X-Own", "kept")
		out.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(out, "%s %s %s %q", r.Method, r.RequestURI, r.Host, body)
	})
	_, port, _ := strings.Cut(at, "/ports/")
	for _, c := range []struct{ method, path, want string }{
		{http.MethodGet, "/", "GET / localhost:" + port + ` ""`},
		{http.MethodGet, "/a/b?x=1&y=%2F", "GET /a/b?x=1&y=%2F localhost:" + port + ` ""`},
		{http.MethodGet, "/dir/", "GET /dir/ localhost:" + port + ` ""`},
		{http.MethodGet, "/a%2Fb/%C3%A4", "GET /a%2Fb/%C3%A4 localhost:" + port + ` ""`},
		{http.MethodPut, "/up", "PUT /up localhost:" + port + ` "body"`},
		{http.MethodPost, "/up", "POST /up localhost:" + port + ` "body"`},
		{http.MethodPatch, "/up", "PATCH /up localhost:" + port + ` "body"`},
		{http.MethodDelete, "/up", "DELETE /up localhost:" + port + ` ""`},
	} {
		ask := call{method: c.method, path: at + c.path, key: w.write, header: map[string]string{"Content-Type": "text/whatever"}}
		if strings.Contains(c.want, "body") {
			ask.body = "body"
		}
		a := w.do(ask).is(http.StatusTeapot)
		if string(a.body) != c.want || a.header.Get("X-Own") != "kept" || a.header.Get(requestIDHeader) == "" {
			t.Errorf("%s %s: %s", c.method, c.path, a.body)
		}
	}
	if a := w.do(call{path: at + "?q=1", key: w.write}).is(http.StatusPermanentRedirect); a.header.Get("Location") != at+"/?q=1" {
		t.Errorf("without a slash it leads to %q", a.header.Get("Location"))
	}
	w.do(call{method: http.MethodOptions, path: at + "/", key: w.write}).is(http.StatusNoContent)
	twin := strings.Replace(at, "/sandboxes/", "/sandbox/", 1)
	w.do(call{path: twin + "/", key: w.write}).is(http.StatusTeapot)
}

// The ports that listen in a sandbox are listed with the paths that lead to them. The list starts nothing, and a key that
// may only read gets it.
func TestPortsThatListenAreListed(t *testing.T) {
	w := newWorkshop(t)
	at := w.listening(func(http.ResponseWriter, *http.Request) {})
	_, port, _ := strings.Cut(at, "/ports/")
	list := func() []api.OpenPort {
		return into[api.List[api.OpenPort]](w.do(call{path: w.box + "/ports", key: w.read}).is(http.StatusOK)).Items
	}
	found := list()
	i := slices.IndexFunc(found, func(p api.OpenPort) bool { return fmt.Sprint(p.Port) == port })
	if i < 0 || found[i].Address != "127.0.0.1" || found[i].Path != sandboxesPath+"/"+w.id+"/ports/"+port+"/" {
		t.Fatalf("port %s is missing: %+v", port, found)
	}
	w.do(call{path: found[i].Path, key: w.write}).is(http.StatusOK)
	for _, p := range found[1:] {
		if p.Port == found[0].Port {
			t.Errorf("listed twice: %+v", p)
		}
	}
	w.post(w.box+"/stop", "").is(http.StatusOK)
	w.do(call{path: w.box + "/ports", key: w.read}).fails(api.CodeNotRunning)
	w.do(call{path: sandboxesPath + "/none/ports", key: w.read}).fails(api.CodeNotFound)
}

func TestPortNeedsAKeyThatMayWrite(t *testing.T) {
	w := newWorkshop(t)
	reached := false
	at := w.listening(func(http.ResponseWriter, *http.Request) { reached = true })
	w.do(call{path: at + "/"}).fails(api.CodeUnauthenticated)
	w.do(call{path: at + "/", key: w.read}).fails(api.CodeForbidden)
	w.do(call{method: http.MethodPost, path: at + "/", key: w.write, header: map[string]string{"Origin": "https://evil.test"}}).fails(api.CodeForeignOrigin)
	w.do(call{path: at + "/", key: w.write, host: "evil.test"}).fails(api.CodeWrongHostHeader)
	other := w.newKey("other", api.ScopeAdmin)
	w.do(call{path: strings.Replace(at, "/box/", "/"+w.id+"/", 1) + "/", key: other}).fails(api.CodeNotFound)
	if reached {
		t.Error("a refused request got through")
	}
}

// Nothing but a plain decimal port is one, and some are reserved (B4 25).
func TestPortsThatAreRefused(t *testing.T) {
	testkit.Proves(t, "E4")
	w := newWorkshop(t)
	for port, code := range map[string]api.Code{
		"0": api.CodeInvalidRequest, "65536": api.CodeInvalidRequest, "70000": api.CodeInvalidRequest, "3000@evil": api.CodeInvalidRequest,
		"0x50": api.CodeInvalidRequest, "+80": api.CodeInvalidRequest, "-1": api.CodeInvalidRequest, "080": api.CodeInvalidRequest,
		"80%20": api.CodeInvalidRequest, "8_0": api.CodeInvalidRequest, "localhost:80": api.CodeInvalidRequest, "%D9%A3": api.CodeInvalidRequest,
		"22": api.CodeForbidden, "2375": api.CodeForbidden, "2376": api.CodeForbidden, "3128": api.CodeForbidden,
	} {
		for _, rest := range []string{"", "/", "/x"} {
			p := w.do(call{path: w.box + "/ports/" + port + rest, key: w.write}).fails(code)
			if strings.Contains(p.Hint, "scope") {
				t.Errorf("port %s: no scope opens it, so %q is no help", port, p.Hint)
			}
		}
	}
	for _, rest := range []string{"/../../keys", "/%2e%2e/x", "/a//b", "//evil.test", "/a%00b", "/%ff"} {
		w.do(call{path: w.box + "/ports/8080" + rest, key: w.write}).fails(api.CodeInvalidPath)
	}
}

func TestPortWhereNobodyListens(t *testing.T) {
	w := newWorkshop(t)
	_, port, _ := net.SplitHostPort(testkit.RefusingAddress(t))
	a := w.do(call{path: w.box + "/ports/" + port + "/", key: w.write})
	if p := a.fails(api.CodePortUnreachable); !strings.Contains(p.Hint, "127.0.0.1") {
		t.Errorf("hint %q", p.Hint)
	}
	if got := a.header.Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'none'") {
		t.Errorf("our own answer has the policy %q", got)
	}
}

// What listens in a sandbox sees nothing of the caller's that is ours (B4 31).
func TestPortSeesNoSecretOfOurs(t *testing.T) {
	testkit.Proves(t, "E4", "E5")
	w := newWorkshop(t)
	var got http.Header
	at := w.listening(func(out http.ResponseWriter, r *http.Request) { got = r.Header.Clone() })
	w.do(call{path: at + "/page", key: w.write, header: map[string]string{
		"X-API-Key": w.write, "Proxy-Authorization": "Basic x", "Proxy-Connection": "x", "Cookie": "berth_session=s; theirs=1; Berth-Console=c",
		"X-Forwarded-For": "6.6.6.6", "Forwarded": "for=6.6.6.6", "X-Real-Ip": "6.6.6.6", idempotencyHeader: "k", "Accept": "text/html",
	}}).is(http.StatusOK)
	for _, name := range []string{"Authorization", "X-Api-Key", "Proxy-Authorization", "Proxy-Connection", "Forwarded", "X-Real-Ip", idempotencyHeader} {
		if got.Get(name) != "" {
			t.Errorf("%s: %q got through", name, got.Get(name))
		}
	}
	for name, want := range map[string]string{
		"Cookie": "theirs=1", "X-Forwarded-Prefix": at, "X-Forwarded-For": "127.0.0.1", "Accept": "text/html",
	} {
		if got.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.Get(name), want)
		}
	}
	if text := fmt.Sprint(got); strings.Contains(text, w.write) {
		t.Error("the key is somewhere in the headers")
	}
}

func TestWebSocketsPassThePort(t *testing.T) {
	w := newWorkshop(t)
	var offered, origin string
	at := w.listening(func(out http.ResponseWriter, r *http.Request) {
		offered, origin = r.Header.Get("Sec-WebSocket-Protocol"), r.Header.Get("Origin")
		ws, err := websocket.Accept(out, r, &websocket.AcceptOptions{Subprotocols: []string{"chat"}})
		if err != nil {
			return
		}
		defer ws.CloseNow()
		for {
			kind, data, err := ws.Read(r.Context())
			if err != nil || ws.Write(r.Context(), kind, append([]byte("echo "), data...)) != nil {
				return
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, w.server.URL+at+"/ws", &websocket.DialOptions{
		Subprotocols: []string{"chat", api.TerminalKeyProtocol + w.write}, HTTPHeader: http.Header{"Origin": {w.server.URL}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	for _, text := range []string{"one", "two"} {
		if err := ws.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, data, err := ws.Read(ctx); err != nil || string(data) != "echo "+text {
			t.Errorf("%q, %v", data, err)
		}
	}
	_, port, _ := strings.Cut(at, "/ports/")
	if offered != "chat" || origin != "http://localhost:"+port || ws.Subprotocol() != "chat" {
		t.Errorf("inside the protocols %q of the origin %q were seen", offered, origin)
	}
	_, res, err := websocket.Dial(ctx, w.server.URL+at+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"https://evil.test"}, "Authorization": {"Bearer " + w.write}}})
	if err == nil || res == nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("a foreign page: %v", err)
	}
}

func TestStreamsPassThePortAsTheyCome(t *testing.T) {
	w := newWorkshop(t)
	more := make(chan struct{})
	at := w.listening(func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(out, "data: 1\n\n")
		_ = http.NewResponseController(out).Flush()
		<-more
		fmt.Fprint(out, "data: 2\n\n")
	})
	s := w.watch(http.MethodGet, at+"/events", "")
	lines := bufio.NewReader(s.res.Body)
	if line, err := lines.ReadString('\n'); line != "data: 1\n" {
		t.Errorf("%q, %v", line, err)
	}
	close(more)
	if rest, err := io.ReadAll(lines); string(rest) != "\ndata: 2\n\n" {
		t.Errorf("%q, %v", rest, err)
	}
}

// A large body passes without a limit of ours and without being kept.
func TestLargeBodiesPassThePort(t *testing.T) {
	w := newWorkshop(t)
	at := w.listening(func(out http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(out, n)
	})
	a := w.do(call{method: http.MethodPut, path: at + "/", key: w.write, body: strings.Repeat("x", 5<<20), header: map[string]string{"Content-Encoding": "br"}}).is(http.StatusOK)
	if string(a.body) != fmt.Sprint(5<<20) {
		t.Errorf("%s bytes arrived", a.body)
	}
}

// A preview that stays open is not what a server waits for before it goes, and a download is.
func TestDrainEndsEndlessPreviews(t *testing.T) {
	w := newWorkshop(t)
	more := make(chan struct{})
	at := w.listening(func(out http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ws":
			if ws, err := websocket.Accept(out, r, nil); err == nil {
				_, _, _ = ws.Read(r.Context())
				_ = ws.CloseNow()
			}
			return
		case "/events":
			out.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		}
		fmt.Fprint(out, "data: 1\n\n")
		_ = http.NewResponseController(out).Flush()
		if r.URL.Path == "/events" {
			<-r.Context().Done()
			return
		}
		<-more
		fmt.Fprint(out, "rest")
	})
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, w.server.URL+at+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + w.write}}})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	events, download := w.watch(http.MethodGet, at+"/events", ""), w.watch(http.MethodGet, at+"/file", "")
	w.Drain()
	if _, err := io.ReadAll(events.res.Body); err == nil || ctx.Err() != nil {
		t.Errorf("the events ended with %v", err)
	}
	if _, _, err := ws.Read(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("the WebSocket ended with %v", err)
	}
	close(more)
	if text, err := io.ReadAll(download.res.Body); err != nil || string(text) != "data: 1\n\nrest" {
		t.Errorf("a download became %q, %v", text, err)
	}
}
