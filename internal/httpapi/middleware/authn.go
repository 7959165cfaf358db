package middleware

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/telemetry"
)

// Authenticator returns the principal of a key. For an invalid key it returns an error with the code unauthenticated.
type Authenticator interface {
	Authenticate(ctx context.Context, key string) (auth.Principal, error)
}

// Authenticate authenticates the caller if the route needs a key. The request is cancelled when its key is revoked or
// expires.
func Authenticate(keys Authenticator, open *exchange.Sessions) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			x := exchange.Of(r.Context())
			if x.Route.Scope == "" || x.Route.Loopback && x.Local {
				next.ServeHTTP(w, r)
				return
			}
			who, err := caller(r, keys)
			if err != nil {
				exchange.Fail(w, r, err)
				return
			}
			x.Principal = who
			ctx := telemetry.With(auth.WithPrincipal(r.Context(), who), slog.String(telemetry.FieldTenant, who.Tenant))
			open.Serve(w, r.WithContext(ctx), who.KeyID, next)
		})
	}
}

// keyTime is the time limit for the lookup of a key. Every request begins with a lookup, so this limit detects a
// database that hangs.
const keyTime = 5 * time.Second

func caller(r *http.Request, keys Authenticator) (auth.Principal, error) {
	key, err := sentKey(r.Header)
	if err != nil {
		return auth.Principal{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), keyTime)
	defer cancel()
	who, err := keys.Authenticate(ctx, key)
	if errors.Is(err, context.DeadlineExceeded) {
		// The error is not wrapped: it would look like the end of the request's own time.
		err = fault.Errorf("find API key", api.CodeStoreUnavailable, "no answer in time: %v", err)
	}
	return who, err
}

// sentKey returns the key from the headers. Authorization takes precedence over X-API-Key.
func sentKey(h http.Header) (string, error) {
	given := h.Get("Authorization")
	if given == "" {
		if key := cmp.Or(strings.TrimSpace(h.Get("X-API-Key")), offeredKey(h)); key != "" {
			return key, nil
		}
		return "", fault.Errorf("", api.CodeUnauthenticated, "no API key was sent")
	}
	scheme, key, _ := strings.Cut(given, " ")
	if key = strings.TrimSpace(key); !strings.EqualFold(scheme, "Bearer") || key == "" {
		return "", fault.Errorf("", api.CodeUnauthenticated, "the Authorization header is not of the form 'Bearer KEY'")
	}
	return key, nil
}

// offeredKey returns the key from the offered WebSocket subprotocols. A page in a browser can set only this header.
func offeredKey(h http.Header) string {
	if !strings.EqualFold(h.Get("Upgrade"), "websocket") {
		return ""
	}
	for _, line := range h.Values("Sec-WebSocket-Protocol") {
		for name := range strings.SplitSeq(line, ",") {
			if key, is := strings.CutPrefix(strings.TrimSpace(name), api.TerminalKeyProtocol); is {
				return key
			}
		}
	}
	return ""
}

// Authorize refuses a key whose scope does not include what the route needs.
func Authorize(r *http.Request) error {
	x := exchange.Of(r.Context())
	need := x.Route.Scope
	if need == "" || x.Principal.KeyID == "" || auth.Includes(x.Principal.Scope, need) {
		return nil
	}
	return fault.Errorf("", api.CodeForbidden, "this needs a key of scope %s; the one sent has scope %s", need, x.Principal.Scope)
}
