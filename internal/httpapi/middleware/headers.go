package middleware

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/exchange"
)

// SecurityHeaders sets headers that forbid browsers to guess an answer's type, to frame, run or cache it, and to send
// its address as a referrer. The documentation pages set weaker ones.
func SecurityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// maxHeaderBytes is the maximum size of all headers of a request. net/http itself accepts up to ServerHeaderBytes, so
// that CheckHeaderSize can refuse the request with a problem document.
const (
	maxHeaderBytes    = 32 << 10
	ServerHeaderBytes = 256 << 10
)

// CheckHeaderSize refuses headers that are larger than maxHeaderBytes.
func CheckHeaderSize(r *http.Request) error {
	size := len(r.Method) + len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, v := range values {
			size += len(name) + len(v) + len(": \r\n")
		}
	}
	if size > maxHeaderBytes {
		return fault.Errorf("", api.CodeHeadersTooLarge, "%s", fmt.Sprintf("the headers take %d bytes; at most %d are read", size, maxHeaderBytes))
	}
	return nil
}

// CheckOrigin refuses requests that a page of another origin sends through a visitor's browser. The check of net/http
// trusts Sec-Fetch-Site. In addition, CheckOrigin compares Origin with the host for requests that change something
// and for upgrades, which are GETs that can change something.
func CheckOrigin(r *http.Request) error {
	if err := new(http.CrossOriginProtection).Check(r); err != nil {
		return foreignOrigin(r)
	}
	origin := r.Header.Get("Origin")
	if origin == "" || exchange.SafeMethod(r.Method) && r.Header.Get("Upgrade") == "" {
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
		return fault.Errorf("", api.CodeForeignOrigin, "the request comes from a page of %q", exchange.Clip(origin))
	}
	return fault.Errorf("", api.CodeForeignOrigin, "the request comes from a page of another site")
}
