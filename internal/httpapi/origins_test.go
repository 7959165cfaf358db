package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

const previewDomain = "preview.localhost"

// gallery is a workshop whose ports have origins.
type gallery struct {
	*workshop
	port, host string // of the program in the sandbox
}

func newGallery(t *testing.T, program http.HandlerFunc) *gallery {
	t.Helper()
	g := &gallery{workshop: newWorkshop(t, withRoots(t), func(o *Options) { o.PreviewDomain = previewDomain })}
	_, g.port, _ = strings.Cut(g.listening(program), "/ports/")
	g.host = g.hostOf(g.port, g.id)
	return g
}

func (g *gallery) hostOf(port, id string) string {
	u, _ := url.Parse(g.server.URL)
	return port + "-" + id + "." + previewDomain + ":" + u.Port()
}

// sign makes a signed URL and returns it with the parts of a request for it.
func (g *gallery) sign(body string) (made api.PortURL, open call) {
	g.t.Helper()
	made = into[api.PortURL](g.do(call{method: http.MethodPost, path: g.box + "/ports/" + g.port + "/url", key: g.write, body: body}).is(http.StatusCreated))
	u, err := url.Parse(made.URL)
	if err != nil {
		g.t.Fatal(err)
	}
	return made, call{path: u.RequestURI(), host: u.Host}
}

// enter opens a signed URL as a browser does and returns its cookie.
func (g *gallery) enter() (made api.PortURL, cookie string) {
	g.t.Helper()
	made, open := g.sign(`{}`)
	a := g.do(open).is(http.StatusSeeOther)
	cookie, _, _ = strings.Cut(a.header.Get("Set-Cookie"), ";")
	return made, cookie
}

// ask sends a request to the port's origin with headers.
func (g *gallery) ask(path string, header map[string]string) answer {
	g.t.Helper()
	return g.do(call{path: path, host: g.host, header: header})
}

// page has the headers with which a browser opens an address.
func page(cookie string) map[string]string {
	return map[string]string{"Cookie": cookie, "Accept": "text/html,*/*;q=0.8", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none"}
}

func TestSignedURLOpensAPort(t *testing.T) {
	testkit.Proves(t, "E4")
	var got *http.Request
	g := newGallery(t, func(out http.ResponseWriter, r *http.Request) {
		got = r.Clone(context.Background())
		out.Header().Set("Content-Type", "text/html")
		http.SetCookie(out, &http.Cookie{Name: "own", Value: "1", Path: "/app", Domain: previewDomain})
		http.SetCookie(out, &http.Cookie{Name: "berth_preview", Value: "forged"})
		out.Header().Set("Clear-Site-Data", `"cookies"`)
		fmt.Fprintf(out, "%s %s", r.Method, r.RequestURI)
	})
	made, open := g.sign(`{"path":"/app/?x=1&y=%2F"}`)
	if left := time.Until(made.ExpiresAt); made.Origin != "http://"+g.host || made.SandboxID != g.id || left < 59*time.Minute || left > time.Hour || open.host != g.host {
		t.Errorf("%+v", made)
	}
	a := g.do(open).is(http.StatusSeeOther)
	set := a.header.Get("Set-Cookie")
	if a.header.Get("Location") != "/app/?x=1&y=%2F" || !strings.HasPrefix(set, "berth_preview=") || strings.Contains(set, "Domain") ||
		!strings.Contains(set, "HttpOnly") || !strings.Contains(set, "SameSite=Lax") || !strings.Contains(set, "Path=/;") {
		t.Errorf("%v", a.header)
	}
	cookie, _, _ := strings.Cut(set, ";")
	header := page("theirs=1; " + cookie)
	header["Authorization"], header["X-API-Key"], header["Referer"] = "Basic theirs", "theirs", "http://"+g.host+"/from?x"
	a = g.ask("/app/?x=1&y=%2F", header).is(http.StatusOK)
	if string(a.body) != "GET /app/?x=1&y=%2F" || got.Host != "localhost:"+g.port || got.Header.Get("Cookie") != "theirs=1" ||
		got.Header.Get("Authorization") != "Basic theirs" || got.Header.Get("X-Api-Key") != "theirs" || got.Header.Get("X-Forwarded-Host") != "" ||
		got.Header.Get("X-Forwarded-For") != "127.0.0.1" || got.Referer() != "http://localhost:"+g.port+"/from?x" {
		t.Errorf("%s; inside %s %v", a.body, got.Host, got.Header)
	}
	if cookies := a.header.Values("Set-Cookie"); len(cookies) != 1 || cookies[0] != "own=1; Path=/app" || a.header.Get("Clear-Site-Data") != "" ||
		a.header.Get("Cache-Control") != "private" || a.header.Get("X-Frame-Options") != "" {
		t.Errorf("%v", a.header)
	}
	// A POST with the URL itself, as from a webhook.
	open.method, open.body = http.MethodPost, "{}"
	if a := g.do(open).is(http.StatusOK); string(a.body) != "POST /app/?x=1&y=%2F" {
		t.Errorf("%s", a.body)
	}
	// A program with a key needs no URL, and its key stays here.
	g.do(call{path: "/k", host: g.host, key: g.write}).is(http.StatusOK)
	if got.Header.Get("Authorization") != "" || got.RequestURI != "/k" {
		t.Errorf("the key was sent on: %v", got.Header)
	}
	g.ask("/", map[string]string{"Cookie": cookie, "Authorization": "Bearer " + g.read}).is(http.StatusOK)
	if got.Header.Get("Authorization") != "" {
		t.Error("a key beside the cookie was sent on")
	}
}

func TestSignedURLsThatAreRefused(t *testing.T) {
	testkit.Proves(t, "E4")
	reached := false
	g := newGallery(t, func(http.ResponseWriter, *http.Request) { reached = true })
	_, open := g.sign(`{}`)
	path, token, _ := strings.Cut(open.path, "=")
	other := into[api.Sandbox](g.post(sandboxesPath, `{"name":"other"}`).is(http.StatusCreated))
	short, soon := g.sign(`{"expires_in_seconds":1}`)
	testkit.Eventually(t, long, func() error {
		if time.Now().Unix() <= short.ExpiresAt.Unix() {
			return fmt.Errorf("it has not expired")
		}
		return nil
	})
	flipped := "A"
	if token[3] == 'A' {
		flipped = "B"
	}
	for _, c := range []struct {
		name, path, host string
		code             api.Code
	}{
		{"none", "/", g.host, api.CodeUnauthenticated},
		{"tampered", path + "=" + token[:3] + flipped + token[4:], g.host, api.CodeUnauthenticated},
		{"cut", path + "=" + token[:len(token)-1], g.host, api.CodeUnauthenticated},
		{"empty", path + "=", g.host, api.CodeUnauthenticated},
		{"of another sandbox", open.path, g.hostOf(g.port, other.ID), api.CodeForbidden},
		{"of another port", open.path, g.hostOf("4444", g.id), api.CodeForbidden},
		{"expired", soon.path, g.host, api.CodeURLExpired},
		{"no sandbox", open.path, g.hostOf(g.port, "box"), api.CodeNotFound},
		{"a reserved port", open.path, g.hostOf("3128", g.id), api.CodeForbidden},
		{"a port in another form", open.path, g.hostOf("0"+g.port, g.id), api.CodeInvalidRequest},
	} {
		a := g.do(call{path: c.path, host: c.host, header: page("")})
		if want := c.code.Info().Status; a.status != want || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") || a.header.Get("Cache-Control") != "no-store" ||
			a.header.Get("Set-Cookie") != "" || a.header.Get("Www-Authenticate") != "" || strings.Contains(string(a.body), token) {
			t.Errorf("%s: status %d, want %d: %v %s", c.name, a.status, want, a.header, a.body)
		}
		g.do(call{path: c.path, host: c.host}).fails(c.code)
		_, query, _ := strings.Cut(c.path, "=")
		if c.code != api.CodeNotFound && c.code != api.CodeInvalidRequest && query != "" {
			g.do(call{path: "/", host: c.host, header: map[string]string{"Cookie": "berth_preview=" + query}}).fails(c.code)
		}
	}
	g.do(call{path: "/", host: g.host, key: g.read}).fails(api.CodeForbidden)
	g.do(call{path: "/", host: g.host, key: g.newKey("globex", api.ScopeAdmin)}).fails(api.CodeNotFound)
	if reached {
		t.Error("a refused request got through")
	}
}

// A server remembers for a moment that a sandbox runs; that is no right to use it.
func TestKeysOfOthersAtAKnownSite(t *testing.T) {
	g := newGallery(t, func(out http.ResponseWriter, r *http.Request) { fmt.Fprint(out, "the program") })
	other := g.newKey("globex", api.ScopeAdmin)
	for range 5 {
		g.do(call{path: "/", host: g.host, key: g.write}).is(http.StatusOK)
		g.do(call{path: "/", host: g.host, key: other}).fails(api.CodeNotFound)
	}
}

// The API is not at the origins of ports, and ports are not at the API's.
func TestOriginsAreApart(t *testing.T) {
	g := newGallery(t, func(out http.ResponseWriter, r *http.Request) { fmt.Fprint(out, "the program") })
	_, cookie := g.enter()
	if a := g.ask(sandboxesPath, map[string]string{"Cookie": cookie}).is(http.StatusOK); string(a.body) != "the program" {
		t.Errorf("%s", a.body)
	}
	_, session := g.signIn(g.admin, "/")
	g.ask(sandboxesPath, map[string]string{"Cookie": session}).fails(api.CodeUnauthenticated)
	g.do(call{path: sandboxesPath, header: map[string]string{"Cookie": cookie}}).fails(api.CodeUnauthenticated)
	g.do(call{path: sandboxesPath, header: map[string]string{"Cookie": strings.Replace(cookie, "berth_preview", "berth_session", 1)}}).fails(api.CodeUnauthenticated)
	g.do(call{path: "/", host: previewDomain}).fails(api.CodeWrongHostHeader)
}

// Pages of other sandboxes are of the same site: cookies go along with their requests.
func TestOtherPagesDoNotReachAPort(t *testing.T) {
	testkit.Proves(t, "E4")
	reached := 0
	g := newGallery(t, func(out http.ResponseWriter, r *http.Request) { reached++ })
	_, cookie := g.enter()
	sibling := "http://" + g.hostOf(g.port, "01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10")
	for name, header := range map[string]map[string]string{
		"fetch":            {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "empty"},
		"fetch with CORS":  {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Origin": sibling},
		"an image":         {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
		"a frame":          {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
		"an older browser": {"Origin": sibling},
		"an opaque origin": {"Origin": "null"},
		"a WebSocket":      {"Sec-Fetch-Site": "same-site", "Origin": sibling, "Connection": "Upgrade", "Upgrade": "websocket"},
		"one without name": {"Connection": "Upgrade", "Upgrade": "websocket"},
	} {
		header["Cookie"] = cookie
		if a := g.ask("/", header); a.status != http.StatusForbidden {
			t.Errorf("%s: status %d", name, a.status)
		}
	}
	for name, header := range map[string]map[string]string{
		"a form":           {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Origin": sibling},
		"an older browser": {"Origin": sibling},
		"says nothing":     {},
	} {
		header["Cookie"] = cookie
		if a := g.do(call{method: http.MethodPost, path: "/", host: g.host, header: header, body: "{}"}); a.status != http.StatusForbidden {
			t.Errorf("%s: status %d", name, a.status)
		}
	}
	if reached != 0 {
		t.Errorf("%d requests of other pages got through", reached)
	}
	link := page(cookie)
	link["Sec-Fetch-Site"] = "cross-site"
	g.ask("/", link).is(http.StatusOK)
	own := map[string]string{"Cookie": "berth_preview=tossed; " + cookie, "Origin": "http://" + g.host, "Sec-Fetch-Site": "same-origin"}
	g.do(call{method: http.MethodPost, path: "/", host: g.host, header: own, body: "{}"}).is(http.StatusOK)
	a := g.ask("/", map[string]string{"Cookie": cookie}).is(http.StatusOK)
	if a.header.Get("Cross-Origin-Resource-Policy") != "same-origin" || !strings.Contains(a.header.Get("Content-Security-Policy"), "frame-ancestors 'self'") {
		t.Errorf("%v", a.header)
	}
}

func TestRevokedURLsEnd(t *testing.T) {
	testkit.Proves(t, "E4")
	g := newGallery(t, func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			out.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(out).Flush()
			<-r.Context().Done()
		}
	})
	stream := func(cookie string) *bufio.Reader {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.server.URL+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = g.host
		r.Header.Set("Cookie", cookie)
		res, err := client.Do(r)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res, err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return bufio.NewReader(res.Body)
	}
	kept, keptCookie := g.enter()
	one, cookie := g.enter()
	g.ask("/", map[string]string{"Cookie": cookie}).is(http.StatusOK)
	open := stream(cookie)
	at := g.box + "/ports/" + g.port + "/url"
	g.remove(at + "?url=" + one.ID).is(http.StatusNoContent)
	if _, err := open.ReadByte(); err == nil {
		t.Error("its stream goes on")
	}
	g.ask("/", map[string]string{"Cookie": cookie}).fails(api.CodeURLRevoked)
	g.ask("/", map[string]string{"Cookie": keptCookie}).is(http.StatusOK)
	g.remove(at + "?url=" + one.ID).fails(api.CodeNotFound)
	g.remove(at).is(http.StatusNoContent)
	g.ask("/", map[string]string{"Cookie": keptCookie}).fails(api.CodeURLRevoked)
	u, _ := url.Parse(kept.URL)
	g.ask(u.RequestURI(), nil).fails(api.CodeURLRevoked)

	made := into[api.NewKey](g.post(keysPath, `{"scope":"write"}`).is(http.StatusCreated))
	g.write = made.Secret
	_, cookie = g.enter()
	open = stream(cookie)
	g.remove(keysPath + "/" + made.ID).is(http.StatusNoContent)
	g.ask("/", map[string]string{"Cookie": cookie}).fails(api.CodeURLRevoked)
	if _, err := open.ReadByte(); err == nil {
		t.Error("the stream of a revoked key goes on")
	}
}

// Another server has revoked it: this one reads that in the database.
func TestURLsRevokedElsewhereEnd(t *testing.T) {
	testkit.Proves(t, "E4")
	g := newGallery(t, func(out http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(out).Flush()
		if r.URL.Path == "/events" {
			<-r.Context().Done()
		}
	})
	made, cookie := g.enter()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.server.URL+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = g.host
	r.Header.Set("Cookie", cookie)
	open, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Body.Close()
	port, _ := strconv.ParseUint(g.port, 10, 16)
	if ids, err := g.db.In("acme").Keys().URLs().Revoke(t.Context(), g.id, uint16(port), made.ID); err != nil || len(ids) != 1 {
		t.Fatal(ids, err)
	}
	ended := make(chan error, 1)
	go func() { _, err := io.ReadAll(open.Body); ended <- err }()
	select {
	case <-ended:
	case <-time.After(long):
		t.Error("its stream goes on")
	}
	testkit.Eventually(t, long, func() error {
		if a := g.ask("/", map[string]string{"Cookie": cookie}); a.status != http.StatusUnauthorized {
			return fmt.Errorf("status %d", a.status)
		}
		return nil
	})
}

func TestURLRequestsThatAreRefused(t *testing.T) {
	g := newGallery(t, func(http.ResponseWriter, *http.Request) {})
	at := g.box + "/ports/" + g.port + "/url"
	g.do(call{method: http.MethodPost, path: at, key: g.read}).fails(api.CodeForbidden)
	g.do(call{method: http.MethodPost, path: at, key: g.newKey("globex", api.ScopeAdmin)}).fails(api.CodeNotFound)
	for _, body := range []string{`{"expires_in_seconds":-1}`, `{"expires_in_seconds":999999999}`, `{"path":"x"}`, `{"path":"//evil.test"}`, `{"path":"https://evil.test"}`, `{"path":"/a b"}`, `{"path":"/a#b"}`, `{"other":1}`} {
		g.post(at, body).fails(api.CodeInvalidRequest)
	}
	g.post(g.box+"/ports/99999/url", `{}`).fails(api.CodeInvalidRequest)
	g.post(g.box+"/ports/22/url", `{}`).fails(api.CodeForbidden)
	g.post(sandboxesPath+"/nobox/ports/80/url", `{}`).fails(api.CodeNotFound)
	once := call{method: http.MethodPost, path: at, key: g.write, body: `{}`, header: map[string]string{idempotencyHeader: "k"}}
	g.do(once).is(http.StatusCreated)
	if p := into[api.Problem](g.do(once)); p.Code != api.CodeNotReplayable {
		t.Errorf("again: %+v", p)
	}
	none := newWorkshop(t, withRoots(t))
	if p := none.post(none.box+"/ports/80/url", `{}`).fails(api.CodeUnsupported); !strings.Contains(p.Hint, "preview_domain") {
		t.Errorf("hint %q", p.Hint)
	}
}

func TestRedirectsAtAnOrigin(t *testing.T) {
	g := newGallery(t, func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("Location", r.URL.Query().Get("to"))
		out.WriteHeader(http.StatusFound)
	})
	_, cookie := g.enter()
	_, own, _ := strings.Cut(g.host, ":")
	for to, want := range map[string]string{
		"/login?x=1":                             "/login?x=1",
		"next":                                   "/dir/next",
		"http://localhost:" + g.port + "/a":      "/a",
		"https://127.0.0.1:" + g.port + "/a#b":   "/a#b",
		"http://localhost:" + g.port + "//evil":  "/.//evil",
		"http://localhost:8000/a":                "http://" + g.hostOf("8000", g.id) + "/a",
		"http://" + g.host + "/a":                "/a",
		"https://accounts.test/oauth?x=1":        "https://accounts.test/oauth?x=1",
		"http://" + g.hostOf("9000", g.id) + "/": "http://" + g.hostOf("9000", g.id) + "/",
		"http://localhost:3128/":                 "",
		"javascript:alert(1)":                    "",
	} {
		a := g.ask("/dir/page?to="+url.QueryEscape(to), map[string]string{"Cookie": cookie}).is(http.StatusFound)
		if got := a.header.Get("Location"); got != want {
			t.Errorf("%s became %s, want %s (port %s)", to, got, want, own)
		}
	}
	a := g.do(call{path: "/?to=https://evil.test/", host: g.host, key: g.write}).is(http.StatusFound)
	if a.header.Get("Location") != "" {
		t.Errorf("a request with a key was sent to %s", a.header.Get("Location"))
	}
}

func TestWebSocketsAtAnOrigin(t *testing.T) {
	var origin string
	g := newGallery(t, func(out http.ResponseWriter, r *http.Request) {
		origin = r.Header.Get("Origin")
		ws, err := websocket.Accept(out, r, &websocket.AcceptOptions{Subprotocols: []string{"vite-hmr"}})
		if err != nil {
			return
		}
		defer ws.CloseNow()
		kind, data, err := ws.Read(r.Context())
		if err == nil {
			_ = ws.Write(r.Context(), kind, append([]byte("echo "), data...))
		}
		_, _, _ = ws.Read(r.Context())
	})
	made, cookie := g.enter()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	dial := func(cookie string) (*websocket.Conn, error) {
		ws, _, err := websocket.Dial(ctx, g.server.URL+"/?token=x", &websocket.DialOptions{
			Host: g.host, Subprotocols: []string{"vite-hmr"}, HTTPHeader: http.Header{"Cookie": {cookie}, "Origin": {"http://" + g.host}},
		})
		return ws, err
	}
	ws, err := dial(cookie)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	if err := ws.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, data, err := ws.Read(ctx); err != nil || string(data) != "echo hello" || origin != "http://localhost:"+g.port || ws.Subprotocol() != "vite-hmr" {
		t.Errorf("%q, %v; origin %s", data, err, origin)
	}
	g.remove(g.box + "/ports/" + g.port + "/url?url=" + made.ID).is(http.StatusNoContent)
	if _, _, err := ws.Read(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("the WebSocket of a revoked URL ends with %v", err)
	}
}

// A browser that opens a page of a stopped sandbox sees that it is being started, and then the page.
func TestPagesWakeASandbox(t *testing.T) {
	g := newGallery(t, func(out http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(out, "here I am") })
	_, cookie := g.enter()
	g.ask("/", page(cookie)).is(http.StatusOK)
	g.post(g.box+"/stop", "").is(http.StatusOK)
	testkit.Eventually(t, long, func() error {
		a := g.ask("/", page(cookie))
		switch {
		case a.status == http.StatusOK && string(a.body) == "here I am":
			return nil
		case a.status != http.StatusServiceUnavailable || !strings.Contains(string(a.body), `http-equiv="refresh"`) || a.header.Get("Retry-After") == "":
			t.Fatalf("status %d: %s", a.status, a.body)
		}
		return fmt.Errorf("it is not there: %s", a.body)
	})
}

func TestPageOfAPortWithoutProgram(t *testing.T) {
	g := newGallery(t, func(http.ResponseWriter, *http.Request) {})
	_, g.port, _ = strings.Cut(testkit.RefusingAddress(t), ":")
	g.host = g.hostOf(g.port, g.id)
	_, cookie := g.enter()
	a := g.ask("/", page(cookie)).is(http.StatusBadGateway)
	if !strings.Contains(string(a.body), "Nothing listens") || !strings.Contains(string(a.body), `http-equiv="refresh"`) {
		t.Errorf("%s", a.body)
	}
	g.ask("/", map[string]string{"Cookie": cookie}).fails(api.CodePortUnreachable)
}

// Tenants choose ids on their own; the origins of two sandboxes with one id differ.
func TestOriginsOfChosenIDs(t *testing.T) {
	g := newGallery(t, func(out http.ResponseWriter, r *http.Request) { fmt.Fprint(out, "here") })
	const chosen = "0b8f2f6e-2f0b-4c5e-9a55-0d6a3c1f9a10"
	origins := map[string]string{}
	for _, tenant := range []string{"acme", "globex"} {
		key := g.newKey(store.TenantID(tenant), api.ScopeAdmin)
		g.do(call{method: http.MethodPost, path: sandboxesPath, key: key, body: `{"id":"` + chosen + `"}`}).is(http.StatusCreated)
		made := into[api.PortURL](g.do(call{method: http.MethodPost, path: sandboxesPath + "/" + chosen + "/ports/" + g.port + "/url", key: key, body: `{}`}).is(http.StatusCreated))
		if made.SandboxID != chosen {
			t.Errorf("%+v", made)
		}
		origins[made.Origin] = made.URL
	}
	if len(origins) != 2 {
		t.Fatalf("the origins are %v", origins)
	}
	for at := range origins {
		for origin, address := range origins {
			u, _ := url.Parse(address)
			want := http.StatusForbidden
			if at == origin {
				want = http.StatusSeeOther
			}
			if a := g.do(call{path: u.RequestURI(), host: strings.TrimPrefix(at, "http://")}); a.status != want {
				t.Errorf("the URL of %s at %s: %d", origin, at, a.status)
			}
			if a := g.do(call{method: http.MethodPost, path: u.RequestURI(), host: u.Host}); a.status != http.StatusOK || string(a.body) != "here" {
				t.Errorf("%s: %d, %s", address, a.status, a.body)
			}
		}
	}
}

// Behind a proxy that speaks HTTPS, browsers get its scheme, and cookies that no other host can set.
func TestOriginsBehindAProxy(t *testing.T) {
	var got http.Header
	w := newWorkshop(t, withRoots(t), func(o *Options) {
		o.PreviewDomain, o.AdvertiseURL = "preview.example.net", "https://berth.example.com:8443"
	})
	at := w.listening(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Clone() })
	made := into[api.PortURL](w.post(at+"/url", `{}`).is(http.StatusCreated))
	_, port, _ := strings.Cut(at, "/ports/")
	if want := "https://" + port + "-" + w.id + ".preview.example.net:8443"; made.Origin != want {
		t.Errorf("origin %s, want %s", made.Origin, want)
	}
	u, _ := url.Parse(made.URL)
	set := w.do(call{path: u.RequestURI(), host: u.Host}).is(http.StatusSeeOther).header.Get("Set-Cookie")
	if !strings.HasPrefix(set, "__Host-berth_preview=") || !strings.Contains(set, "; Secure") {
		t.Errorf("cookie %s", set)
	}
	cookie, _, _ := strings.Cut(set, ";")
	w.do(call{path: "/", host: u.Host, header: map[string]string{"Cookie": cookie, "Origin": made.Origin}}).is(http.StatusOK)
	if got.Get("X-Forwarded-Proto") != "https" || got.Get("Origin") != "http://localhost:"+port {
		t.Errorf("inside %v", got)
	}
	w.do(call{path: "/", host: u.Host, header: map[string]string{"Cookie": strings.TrimPrefix(cookie, "__Host-")}}).fails(api.CodeUnauthenticated)
}

// A connection that is open keeps the sandbox from being idle.
func TestOpenPagesHoldTheSandbox(t *testing.T) {
	g := newGallery(t, func(out http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(out).Flush()
		<-r.Context().Done()
	})
	_, cookie := g.enter()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.server.URL+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = g.host
	r.Header.Set("Cookie", cookie)
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	testkit.Eventually(t, long, func() error {
		if g.holds.Load() != 1 {
			return fmt.Errorf("%d holds", g.holds.Load())
		}
		return nil
	})
	leave()
	testkit.Eventually(t, long, func() error {
		if g.holds.Load() != 0 {
			return fmt.Errorf("%d holds", g.holds.Load())
		}
		return nil
	})
}
