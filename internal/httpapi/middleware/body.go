package middleware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/exchange"
)

// Limits of reading a body.
const (
	BodyTime   = 30 * time.Second // time limit for sending a body of normal size
	bodyRate   = 256 << 10        // bytes that a sender of a larger body must send per second beyond BodyTime
	largeBody  = 4 << 20          // bodies from this size on are limited in number
	mostLarge  = 8                // maximum of them that one tenant's requests hold in memory at once
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
	code := api.CodeBodyTooLarge
	if exchange.Of(r.Context()).Route.Form { // only attachments make such a body large
		code = api.CodeLargeAttachment
	}
	exchange.FailWith(w, r, code, fmt.Sprintf("the body is larger than %d bytes", most))
	_ = control.Flush()
	if control.SetReadDeadline(time.Now().Add(DrainTime)) == nil {
		_, _ = io.CopyN(io.Discard, exchange.Of(r.Context()).Body, DrainBytes)
	}
}

// ReadBody reads the whole body into memory after the caller was authenticated. The read deadline does not limit the
// handler: net/http removes it at the end of the body.
func ReadBody(most int64) Middleware {
	gate := &largeGate{tenants: map[string]chan struct{}{}}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			x := exchange.Of(r.Context())
			if r.Body == nil || r.Body == http.NoBody || exchange.SafeMethod(r.Method) || x.Route.Raw {
				next.ServeHTTP(w, r)
				return
			}
			size := r.ContentLength
			if size < 0 {
				size = x.Route.BodyLimit(most)
			}
			if size >= largeBody {
				leave, err := gate.enter(r.Context(), x.Principal.Tenant)
				if err != nil {
					exchange.Fail(w, r, err)
					return
				}
				defer leave()
				x.DropBody = leave
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(BodyTime + time.Duration(size/bodyRate)*time.Second))
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
			buffered.Body, buffered.ContentLength = io.NopCloser(&once{data}), int64(len(data))
			next.ServeHTTP(w, &buffered)
		})
	}
}

// once reads bytes and forgets them at the end: the answer of a request may be a stream of many minutes.
type once struct{ left []byte }

func (o *once) Read(to []byte) (int, error) {
	if len(o.left) == 0 {
		o.left = nil
		return 0, io.EOF
	}
	n := copy(to, o.left)
	o.left = o.left[n:]
	return n, nil
}

// largeGate limits the large bodies that are held in memory, for each tenant.
type largeGate struct {
	mu      sync.Mutex
	tenants map[string]chan struct{}
}

// enter waits for a place. leave gives it back and may be called more than once.
func (g *largeGate) enter(ctx context.Context, tenant string) (leave func(), err error) {
	g.mu.Lock()
	places := g.tenants[tenant]
	if places == nil {
		places = make(chan struct{}, mostLarge)
		g.tenants[tenant] = places
	}
	g.mu.Unlock()
	wait := time.NewTimer(BodyTime)
	defer wait.Stop()
	select {
	case places <- struct{}{}:
		return sync.OnceFunc(func() { <-places }), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-wait.C:
		return nil, fault.Errorf("", api.CodeRateLimited, "%d requests of this tenant with large bodies are under way", mostLarge)
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
	case exchange.Of(r.Context()).Route.Form && IsForm(r):
		return nil
	}
	e := fault.Errorf("", api.CodeUnsupportedMedia, "the content type %q is not JSON", exchange.Clip(r.Header.Get("Content-Type")))
	e.Hint = "Send 'Content-Type: application/json'; with curl, --json instead of -d."
	return e
}

// IsForm reports whether the body is multipart/form-data.
func IsForm(r *http.Request) bool {
	mt, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && mt == "multipart/form-data"
}

// isJSON reports whether the content type is JSON. A missing content type counts as JSON.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	mt, _, err := mime.ParseMediaType(contentType)
	return err == nil && (mt == "application/json" || strings.HasPrefix(mt, "application/") && strings.HasSuffix(mt, "+json"))
}
