package middleware

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/exchange"
)

// Limits of reading a body.
const (
	BodyTime   = 30 * time.Second // time limit for sending a body
	DrainBytes = 32 << 20         // maximum bytes of a refused body that are still read
	DrainTime  = 2 * time.Second  // maximum time for reading them
)

// TimeBody sets a deadline for reading the body. A request that is refused needs it too: net/http reads the rest of a
// short body before it sends the answer. Handlers that stream the body replace the deadline.
func TimeBody(within time.Duration) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Body != nil && r.Body != http.NoBody {
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within)) // response recorders of tests have no deadlines
			}
			next.ServeHTTP(w, r)
		})
	}
}

// LimitBody refuses bodies that are too large or compressed and limits the size of the others. It reads nothing, so
// that no body of a caller without a key is held in memory.
func LimitBody(most int64) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Body == nil || r.Body == http.NoBody || exchange.Of(r.Context()).Route.Raw {
				next.ServeHTTP(w, r)
				return
			}
			if enc := r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
				exchange.FailWith(w, r, api.CodeUnsupportedMedia, fmt.Sprintf("the body is encoded as %q; send it as it is", exchange.Clip(enc)))
				return
			}
			exchange.Of(r.Context()).Body = r.Body
			most := exchange.Of(r.Context()).Route.BodyLimit(most)
			if r.ContentLength > most {
				RefuseLargeBody(w, r, most)
				return
			}
			limited := *r
			limited.Body = http.MaxBytesReader(w, r.Body, most)
			next.ServeHTTP(w, &limited)
		})
	}
}

// RefuseLargeBody sends the answer and then reads the body for a while. Many clients read the answer only after they
// have sent everything, and would lose it if the server reset the connection.
func RefuseLargeBody(w http.ResponseWriter, r *http.Request, most int64) {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex()
	w.Header().Set("Connection", "close")
	exchange.FailWith(w, r, api.CodeBodyTooLarge, fmt.Sprintf("the body is larger than %d bytes", most))
	_ = control.Flush()
	if control.SetReadDeadline(time.Now().Add(DrainTime)) == nil {
		_, _ = io.CopyN(io.Discard, exchange.Of(r.Context()).Body, DrainBytes)
	}
}

// ReadBody reads the whole body into memory after the caller was authenticated. The read deadline does not limit the
// handler: net/http removes it at the end of the body.
func ReadBody(most int64) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Body == nil || r.Body == http.NoBody || exchange.SafeMethod(r.Method) || exchange.Of(r.Context()).Route.Raw {
				next.ServeHTTP(w, r)
				return
			}
			data, err := io.ReadAll(r.Body)
			if _, large := errors.AsType[*http.MaxBytesError](err); large {
				RefuseLargeBody(w, r, exchange.Of(r.Context()).Route.BodyLimit(most))
				return
			}
			if err := checkBody(r, data, err); err != nil {
				exchange.Fail(w, r, err)
				return
			}
			buffered := *r
			buffered.Body, buffered.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
			next.ServeHTTP(w, &buffered)
		})
	}
}

func checkBody(r *http.Request, data []byte, err error) error {
	switch {
	case err != nil && exchange.KeyEnded(r.Context()) != nil:
		return context.Cause(r.Context())
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault.Errorf("", api.CodeBodyTimeout, "the body did not arrive in time")
	case err != nil:
		return fault.Errorf("", api.CodeInvalidRequest, "the body broke off: %w", err)
	case len(data) == 0 || exchange.Of(r.Context()).Route.Bytes || isJSON(r.Header.Get("Content-Type")):
		return nil
	}
	e := fault.Errorf("", api.CodeUnsupportedMedia, "the content type %q is not JSON", exchange.Clip(r.Header.Get("Content-Type")))
	e.Hint = "Send 'Content-Type: application/json'; with curl, --json instead of -d."
	return e
}

// isJSON reports whether the content type is JSON. A missing content type counts as JSON.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	mt, _, err := mime.ParseMediaType(contentType)
	return err == nil && (mt == "application/json" || strings.HasPrefix(mt, "application/") && strings.HasSuffix(mt, "+json"))
}
