// Package login has the page on which a person signs in with an API key. The browser gets a cookie, which the API accepts
// in the place of the key.
package login

import (
	_ "embed"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/middleware"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/store"
)

// Options are the dependencies of the page.
type Options struct {
	Keys         middleware.Authenticator
	Sessions     *auth.Sessions
	Store        *store.DB
	AdvertiseURL string // with https, cookies are for HTTPS alone
}

type handlers struct{ Options }

//go:embed login.html
var text string

var page = template.Must(template.New("login").Parse(text))

// pagePolicy allows the style sheet of the documentation and the form of the page.
const pagePolicy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// Add adds the routes.
func Add(s *rest.Spec, o Options) {
	a, rs := &handlers{o}, s.Routes
	a.addLink(s)
	rs.Handle(exchange.Route{Method: http.MethodGet, Path: "/login", Name: "login", Hidden: true}, a.show)
	rs.Handle(exchange.Route{Method: http.MethodPost, Path: "/login", Name: "login", Hidden: true, Bytes: true}, a.signIn)
	rs.Handle(exchange.Route{Method: http.MethodPost, Path: "/logout", Name: "logout", Hidden: true, Bytes: true}, a.signOut)
}

// shown is the content of the page.
type shown struct {
	Key     string // the key of the session; empty: the browser has not signed in
	Problem string
	Next    string
}

func (a *handlers) show(w http.ResponseWriter, r *http.Request) {
	s := shown{Next: localPath(r.URL.Query().Get("next"))}
	if who, sent, err := middleware.BySession(a.Sessions).Find(r); sent && err == nil {
		s.Key = who.Actor()
	}
	write(w, http.StatusOK, s)
}

func (a *handlers) signIn(w http.ResponseWriter, r *http.Request) {
	form, err := readForm(r)
	if err != nil {
		exchange.Fail(w, r, exchange.InvalidField("body", "expected a form"))
		return
	}
	next := localPath(form.Get("next"))
	var who auth.Principal
	if token := form.Get("link"); token != "" {
		who, err = a.Sessions.OpenLink(r.Context(), a.Store, token)
	} else {
		who, err = a.Keys.Authenticate(r.Context(), strings.TrimSpace(form.Get("key")))
	}
	if err != nil {
		p := exchange.ProblemOf(r.Context(), err)
		write(w, p.Status, shown{Problem: p.Detail, Next: next})
		return
	}
	http.SetCookie(w, a.Sessions.Begin(who, a.secure(r)))
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (a *handlers) signOut(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, a.Sessions.End(a.secure(r)))
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// secure reports whether browsers reach the server over HTTPS.
func (a *handlers) secure(r *http.Request) bool {
	return r.TLS != nil || strings.HasPrefix(a.AdvertiseURL, "https:")
}

func readForm(r *http.Request) (url.Values, error) {
	if r.Body == nil {
		return url.Values{}, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	return url.ParseQuery(string(body))
}

// localPath returns a path of this server to continue at. Anything that a browser could take for another host becomes the
// default.
func localPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") ||
		strings.ContainsFunc(next, func(c rune) bool { return c <= ' ' || c == '\\' }) {
		return "/"
	}
	return next
}

func write(w http.ResponseWriter, status int, s shown) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers send the form with the origin "null"
	s.Problem = fault.Clip(s.Problem, 500)
	w.WriteHeader(status)
	_ = page.Execute(w, s) // the client may have disconnected
}
