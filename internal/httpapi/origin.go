package httpapi

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// checkOrigin refuses what a page of another origin sends with a visitor's browser. The standard
// check believes Sec-Fetch-Site; a foreign Origin is refused whatever that says, and so is one on a
// request to upgrade, which is a GET that can change things.
func checkOrigin(r *http.Request) error {
	if err := new(http.CrossOriginProtection).Check(r); err != nil {
		return foreignOrigin(r)
	}
	origin := r.Header.Get("Origin")
	if origin == "" || safeMethod(r.Method) && r.Header.Get("Upgrade") == "" {
		return nil
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
		return foreignOrigin(r)
	}
	return nil
}

func foreignOrigin(r *http.Request) error {
	if origin := r.Header.Get("Origin"); origin != "" {
		return sandbox.Errorf("", api.CodeForeignOrigin, "the request comes from a page of %q", clip(origin))
	}
	return sandbox.Errorf("", api.CodeForeignOrigin, "the request comes from a page of another site")
}

// safeMethod reports whether requests of the method only read.
func safeMethod(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}
