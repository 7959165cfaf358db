package httpapi

import (
	"fmt"
	"net/http"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// secure sets the headers that keep a browser from doing with an answer what it should not: guess its
// type, frame it, run it, cache it, or tell others where it came from. Pages of our own loosen them.
func secure(next http.Handler) http.Handler {
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

// maxHeaderBytes is what a request's headers may take together. net/http itself reads up to
// serverHeaderBytes, so that this refusal, which is a problem document, comes first.
const (
	maxHeaderBytes    = 32 << 10
	serverHeaderBytes = 256 << 10
)

func checkHeaderSize(r *http.Request) error {
	size := len(r.Method) + len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, v := range values {
			size += len(name) + len(v) + len(": \r\n")
		}
	}
	if size > maxHeaderBytes {
		return sandbox.Errorf("", api.CodeHeadersTooLarge, "%s", fmt.Sprintf("the headers take %d bytes; at most %d are read", size, maxHeaderBytes))
	}
	return nil
}
