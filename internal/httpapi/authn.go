package httpapi

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
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/telemetry"
)

// Authenticator turns a key that was sent into who sent it, or an error of code unauthenticated.
type Authenticator interface {
	Authenticate(ctx context.Context, key string) (auth.Principal, error)
}

// authenticate finds out who is calling, where the route asks for it.
func authenticate(keys Authenticator) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			x := exchangeOf(r.Context())
			if x.route.Scope == "" || x.route.Loopback && x.local {
				next.ServeHTTP(w, r)
				return
			}
			who, err := caller(r, keys)
			if err != nil {
				fail(w, r, err)
				return
			}
			x.principal = who
			ctx := telemetry.With(auth.WithPrincipal(r.Context(), who), slog.String(telemetry.FieldTenant, who.Tenant))
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}

// keyTime is how long it may take to look a key up: every request begins with it, so a database that
// hangs is noticed here.
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
		// Not wrapped: it is the database that is late, not this request.
		err = sandbox.Errorf("find API key", api.CodeStoreUnavailable, "no answer in time: %v", err)
	}
	return who, err
}

// sentKey takes the key out of the headers. Authorization goes before X-API-Key.
func sentKey(h http.Header) (string, error) {
	given := h.Get("Authorization")
	if given == "" {
		if key := cmp.Or(h.Get("X-API-Key"), offeredKey(h)); key != "" {
			return key, nil
		}
		return "", sandbox.Errorf("", api.CodeUnauthenticated, "no API key was sent")
	}
	scheme, key, _ := strings.Cut(given, " ")
	if key = strings.TrimSpace(key); !strings.EqualFold(scheme, "Bearer") || key == "" {
		return "", sandbox.Errorf("", api.CodeUnauthenticated, "the Authorization header is not of the form 'Bearer KEY'")
	}
	return key, nil
}

// offeredKey finds the key among the protocols that a WebSocket is offered: all that a browser lets a
// page set.
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

// authorize refuses a key whose scope does not include what the route needs.
func authorize(r *http.Request) error {
	x := exchangeOf(r.Context())
	need := x.route.Scope
	if need == "" || x.principal.KeyID == "" || auth.Includes(x.principal.Scope, need) {
		return nil
	}
	return sandbox.Errorf("", api.CodeForbidden, "this needs a key of scope %s; the one sent has scope %s", need, x.principal.Scope)
}
