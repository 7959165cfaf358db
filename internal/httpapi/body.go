package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

const (
	bodyTime   = 30 * time.Second // to send a body in
	drainBytes = 32 << 20         // of a refused body that are still read
	drainTime  = 2 * time.Second
)

// limitBody refuses what is too large or compressed and bounds what is left, in size and in time. It
// reads nothing yet: a caller without a key gets none of its body into memory.
func limitBody(most int64, within time.Duration) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Body == nil || r.Body == http.NoBody || exchangeOf(r.Context()).route.Raw {
				next.ServeHTTP(w, r)
				return
			}
			if enc := r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
				failWith(w, r, api.CodeUnsupportedMedia, fmt.Sprintf("the body is encoded as %q; send it as it is", clip(enc)))
				return
			}
			exchangeOf(r.Context()).body = r.Body
			most := exchangeOf(r.Context()).route.maxBody(most)
			if r.ContentLength > most {
				refuseLargeBody(w, r, most)
				return
			}
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within)) // recorders have none
			limited := *r
			limited.Body = http.MaxBytesReader(w, r.Body, most)
			next.ServeHTTP(w, &limited)
		})
	}
}

// refuseLargeBody answers first and then reads on for a while: many clients look at the answer only
// after they have sent everything, and a connection that is reset under them loses it.
func refuseLargeBody(w http.ResponseWriter, r *http.Request, most int64) {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex()
	w.Header().Set("Connection", "close")
	failWith(w, r, api.CodeBodyTooLarge, fmt.Sprintf("the body is larger than %d bytes", most))
	_ = control.Flush()
	if control.SetReadDeadline(time.Now().Add(drainTime)) == nil {
		_, _ = io.CopyN(io.Discard, exchangeOf(r.Context()).body, drainBytes)
	}
}

// readBody takes the whole body into memory once the caller is known. From here on the handler may
// take its time: net/http lifts the read deadline at the end of the body.
func readBody(most int64) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Body == nil || r.Body == http.NoBody || safeMethod(r.Method) || exchangeOf(r.Context()).route.Raw {
				next.ServeHTTP(w, r)
				return
			}
			data, err := io.ReadAll(r.Body)
			if _, large := errors.AsType[*http.MaxBytesError](err); large {
				refuseLargeBody(w, r, exchangeOf(r.Context()).route.maxBody(most))
				return
			}
			if err := checkBody(r, data, err); err != nil {
				fail(w, r, err)
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
	case errors.Is(err, os.ErrDeadlineExceeded):
		return sandbox.Errorf("", api.CodeBodyTimeout, "the body did not arrive in time")
	case err != nil:
		return sandbox.Errorf("", api.CodeInvalidRequest, "the body broke off: %w", err)
	case len(data) == 0 || exchangeOf(r.Context()).route.Bytes || isJSON(r.Header.Get("Content-Type")):
		return nil
	}
	e := sandbox.Errorf("", api.CodeUnsupportedMedia, "the content type %q is not JSON", clip(r.Header.Get("Content-Type")))
	e.Hint = "Send 'Content-Type: application/json'; with curl, --json instead of -d."
	return e
}

// isJSON takes a missing type for JSON, as people do.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	mt, _, err := mime.ParseMediaType(contentType)
	return err == nil && (mt == "application/json" || strings.HasPrefix(mt, "application/") && strings.HasSuffix(mt, "+json"))
}
