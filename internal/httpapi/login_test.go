package httpapi

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/testkit"
)

// roots are the root secrets of a server in a test.
func roots(t *testing.T) []auth.Secret {
	t.Helper()
	s, err := auth.NewSecret("the root secret of tests")
	if err != nil {
		t.Fatal(err)
	}
	return []auth.Secret{s}
}

func withRoots(t *testing.T) func(*Options) {
	return func(o *Options) { o.Roots = roots(t) }
}

// signIn sends the form as a browser does, and returns the cookie.
func (s *site) signIn(key, next string) (a answer, cookie string) {
	s.t.Helper()
	form := url.Values{"key": {key}, "next": {next}}
	a = s.do(call{method: http.MethodPost, path: "/login", body: form.Encode(), header: map[string]string{
		"Content-Type": "application/x-www-form-urlencoded", "Origin": s.server.URL, "Sec-Fetch-Site": "same-origin",
	}})
	cookie, _, _ = strings.Cut(a.header.Get("Set-Cookie"), ";")
	return a, cookie
}

func TestSigningInWithAKey(t *testing.T) {
	testkit.Proves(t, "E2")
	s := newSite(t, withRoots(t))
	if a := s.do(call{path: "/login?next=/docs"}).is(http.StatusOK); !strings.Contains(string(a.body), `type="password"`) || a.header.Get("X-Frame-Options") != "DENY" || a.header.Get("Referrer-Policy") != "same-origin" {
		t.Errorf("%s", a.body)
	}
	made := into[api.NewKey](s.post(keysPath, `{"scope":"write"}`).is(http.StatusCreated))
	a, cookie := s.signIn(made.Secret, "/docs/problems")
	a.is(http.StatusSeeOther)
	if set := a.header.Get("Set-Cookie"); a.header.Get("Location") != "/docs/problems" || !strings.HasPrefix(cookie, "berth_session=") ||
		!strings.Contains(set, "HttpOnly") || !strings.Contains(set, "SameSite=Lax") || strings.Contains(set, "Domain") || strings.Contains(set, made.Secret) {
		t.Errorf("%v", a.header)
	}
	if page := s.do(call{path: "/login", header: map[string]string{"Cookie": cookie}}).is(http.StatusOK); !strings.Contains(string(page.body), "Sign out") || !strings.Contains(string(page.body), made.ID) {
		t.Errorf("%s", page.body)
	}
	own := map[string]string{"Cookie": cookie, "Origin": s.server.URL, "Sec-Fetch-Site": "same-origin"}
	s.do(call{path: sandboxesPath, header: map[string]string{"Cookie": cookie}}).is(http.StatusOK)
	s.do(call{method: http.MethodPost, path: sandboxesPath, body: `{"name":"box"}`, header: own}).is(http.StatusCreated)
	s.do(call{method: http.MethodPost, path: keysPath, body: `{}`, header: own}).fails(api.CodeForbidden) // its key may not
	s.remove(keysPath + "/" + made.ID).is(http.StatusNoContent)
	p := s.do(call{path: sandboxesPath, header: map[string]string{"Cookie": cookie}}).fails(api.CodeUnauthenticated)
	if !strings.Contains(p.Detail, "revoked") {
		t.Errorf("detail %q", p.Detail)
	}
	if out := s.do(call{method: http.MethodPost, path: "/logout", header: own}).is(http.StatusSeeOther); !strings.Contains(out.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("%v", out.header)
	}
}

func TestSigningInIsRefused(t *testing.T) {
	s := newSite(t, withRoots(t))
	for _, key := range []string{"", "short", auth.Generate(), `"><script>alert(1)</script>`} {
		a, cookie := s.signIn(key, "/")
		a.is(http.StatusUnauthorized)
		if cookie != "" || !strings.Contains(string(a.body), `role="alert"`) || strings.Contains(string(a.body), "<script") {
			t.Errorf("%q: %s, cookie %q", key, a.body, cookie)
		}
	}
	// The form of another site must not sign a browser in.
	s.do(call{method: http.MethodPost, path: "/login", body: "key=" + s.read, header: map[string]string{
		"Content-Type": "application/x-www-form-urlencoded", "Origin": "https://evil.test", "Sec-Fetch-Site": "cross-site",
	}}).fails(api.CodeForeignOrigin)
	for _, next := range []string{"//evil.test", "https://evil.test/", `/\evil.test`, "evil", "", "/\t/evil.test", "javascript:alert(1)"} {
		if a, _ := s.signIn(s.read, next); a.header.Get("Location") != "/" {
			t.Errorf("%q leads to %q", next, a.header.Get("Location"))
		}
	}
}

// Browsers send cookies with requests that other pages make.
func TestSessionsDoNotServeOtherPages(t *testing.T) {
	testkit.Proves(t, "E2")
	w := newWorkshop(t, withRoots(t))
	at := w.listening(func(http.ResponseWriter, *http.Request) { t.Error("a session reached a port by its path") })
	_, cookie := w.signIn(w.write, "/")
	for name, header := range map[string]map[string]string{
		"another site":            {"Origin": "https://evil.test", "Sec-Fetch-Site": "cross-site"},
		"another port":            {"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"},
		"a page without origin":   {"Origin": "null"},
		"a browser that says not": {},
	} {
		t.Log(name)
		header["Cookie"] = cookie
		w.do(call{method: http.MethodPost, path: sandboxesPath, body: `{}`, header: header}).fails(api.CodeForeignOrigin)
		header["Connection"], header["Upgrade"], header["Sec-WebSocket-Version"], header["Sec-WebSocket-Key"] = "Upgrade", "websocket", "13", "AAAAAAAAAAAAAAAAAAAAAA=="
		w.do(call{path: w.box + "/terminal", header: header}).fails(api.CodeForeignOrigin)
	}
	w.do(call{path: at + "/", header: map[string]string{"Cookie": cookie}}).fails(api.CodeUnauthenticated)
}

// A link signs one browser in, once.
func TestSigningInWithALink(t *testing.T) {
	testkit.Proves(t, "E2", "X6")
	s := newSite(t, withRoots(t))
	link := into[api.SignInLink](s.do(call{method: http.MethodPost, path: "/api/v1/caller/link", key: s.read}).is(http.StatusOK))
	_, token, _ := strings.Cut(link.Path, "/#/sign-in/")
	use := func(token string) (answer, string) {
		a := s.do(call{method: http.MethodPost, path: "/login", body: url.Values{"link": {token}}.Encode(), header: map[string]string{
			"Content-Type": "application/x-www-form-urlencoded", "Origin": s.server.URL, "Sec-Fetch-Site": "same-origin",
		}})
		cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
		return a, cookie
	}
	a, cookie := use(token)
	a.is(http.StatusSeeOther)
	who := into[api.Caller](s.do(call{path: "/api/v1/caller", header: map[string]string{"Cookie": cookie}}).is(http.StatusOK))
	if who.Tenant != "acme" || who.Scope != api.ScopeRead {
		t.Errorf("%+v", who)
	}
	for name, bad := range map[string]string{"again": token, "cut": token[1:], "a session": strings.TrimPrefix(cookie, "berth_session="), "nothing": "x.y"} {
		if a, cookie := use(bad); a.status != http.StatusUnauthorized || cookie != "" {
			t.Errorf("%s: %d, %q", name, a.status, cookie)
		}
	}
	if _, _, found := strings.Cut(s.log.String(), token); found {
		t.Error("the token is in the log")
	}
}

// The console is a page of this server alone, and its absence says how to build it.
func TestConsoleIsServed(t *testing.T) {
	s := newSite(t)
	a := s.do(call{path: "/"}).is(http.StatusOK)
	policy := a.header.Get("Content-Security-Policy")
	if !strings.Contains(string(a.body), "Berth") || a.header.Get("X-Frame-Options") != "DENY" || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "script-src 'self'") {
		t.Errorf("%v\n%s", a.header, a.body)
	}
	s.do(call{path: "/assets/none.js"}).is(http.StatusNotFound)
}
