package ports

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/sandbox"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// pagePolicy allows the page's own style and nothing else.
const pagePolicy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// shown is the content of a page of Berth at the origin of a port.
type shown struct {
	Title, Detail, Hint string
	Again               int // seconds after which the browser asks again; zero: never
	Waiting             bool
}

// starting is the error of a page whose sandbox is not there yet.
type starting struct {
	state sandbox.State
	since time.Time
}

func (s *starting) Error() string { return "the sandbox is being started" }

// progress names what happens to a sandbox until it runs.
func (s *starting) progress() string {
	what := map[sandbox.State]string{
		sandbox.Pending: "It is in the queue", sandbox.Creating: "It is being made, and its files are restored", sandbox.Starting: "It is starting",
		sandbox.Stopping: "It is still stopping", sandbox.Stopped: "It was stopped, and is asked to start", sandbox.Running: "It runs, and is being checked",
	}[s.state]
	if what == "" {
		what = "It is " + string(s.state)
	}
	if s.since.IsZero() { // another request has just found it running
		return what
	}
	return fmt.Sprintf("%s (%d s)", what, int(time.Since(s.since).Seconds()))
}

// fail answers with an error: a plain page for a browser that opens one, else a problem.
func (a *Origins) fail(w http.ResponseWriter, r *http.Request, err error) {
	ownHeaders(w.Header())
	wait, waiting := errors.AsType[*starting](err)
	if waiting {
		w.Header().Set("Retry-After", "1")
		write(w, http.StatusServiceUnavailable, shown{Title: "Waking the sandbox", Detail: wait.progress(), Hint: "This page continues by itself.", Again: 1, Waiting: true})
		return
	}
	p := exchange.ProblemOf(r.Context(), err)
	if !opensPage(r) {
		p.Write(w)
		return
	}
	s := shown{Title: p.Title, Detail: p.Detail, Hint: p.Hint}
	switch p.Code {
	case api.CodePortUnreachable:
		s.Title, s.Waiting = "Nothing listens on this port yet", true
		s.Again = 2
	case api.CodeUnauthenticated:
		s.Title, s.Hint = "This preview needs a signed URL", "Make one with 'berth open SANDBOX PORT', or ask the person who sent you the address."
	}
	for name, values := range p.Headers {
		if name != "Www-Authenticate" { // the browser would ask for a password
			w.Header()[name] = values
		}
	}
	write(w, p.Status, s)
}

func write(w http.ResponseWriter, status int, s shown) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = page.Execute(w, s) // the client may have disconnected
}

// ownHeaders sets the headers of Berth's own answers at the origin of a port.
func ownHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}
