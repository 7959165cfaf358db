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

// Credential finds the caller by one kind of credential. Find reports whether the request has such a credential at all.
type Credential struct {
	Kind auth.Kind
	Find func(r *http.Request) (who auth.Principal, sent bool, err error)
}

// Authenticate authenticates the caller if the route needs it, by the first credential of the list that was sent and that
// the route accepts. The request is cancelled when its key is revoked or expires.
func Authenticate(credentials []Credential, open *exchange.Sessions) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			x := exchange.Of(r.Context())
			if x.Route.Scope == "" || x.Route.Loopback && x.Local {
				next.ServeHTTP(w, r)
				return
			}
			who, _, err := Caller(r, credentials, x.Route)
			if err != nil {
				exchange.Fail(w, r, err)
				return
			}
			x.Principal = who
			ctx := telemetry.With(auth.WithPrincipal(r.Context(), who), slog.String(telemetry.FieldTenant, who.Tenant))
			session := who.KeyID
			if who.URL != "" {
				session = exchange.OfURL(who.URL)
			}
			open.Serve(w, r.WithContext(ctx), session, next)
		})
	}
}

// Caller returns the principal of a request, and the kind of its credential.
func Caller(r *http.Request, credentials []Credential, route *exchange.Route) (auth.Principal, auth.Kind, error) {
	ctx, cancel := context.WithTimeout(r.Context(), keyTime)
	defer cancel()
	for _, c := range credentials {
		if !route.Takes(c.Kind) {
			continue
		}
		who, sent, err := c.Find(r.WithContext(ctx))
		if errors.Is(err, context.DeadlineExceeded) {
			// The error is not wrapped: it would look like the end of the request's own time.
			err = fault.Errorf("find "+string(c.Kind), api.CodeStoreUnavailable, "no answer in time: %v", err)
		}
		if sent || err != nil {
			return who, c.Kind, err
		}
	}
	return auth.Principal{}, "", fault.Errorf("", api.CodeUnauthenticated, "no API key was sent")
}

// keyTime is the time limit for the lookup of a credential. Every request begins with a lookup, so this limit detects a
// database that hangs.
const keyTime = 5 * time.Second

// ByKey finds the caller by an API key in a header.
func ByKey(keys Authenticator) Credential {
	return Credential{auth.APIKey, func(r *http.Request) (who auth.Principal, sent bool, err error) {
		key, err := sentKey(r.Header)
		if err != nil || key == "" {
			return who, key != "", err
		}
		who, err = keys.Authenticate(r.Context(), key)
		return who, true, err
	}}
}

// BySession finds the caller by the cookie of a browser that signed in. Browsers send cookies with requests of other pages,
// too. So a request that may change something must name its origin, which CheckOrigin compares.
func BySession(sessions *auth.Sessions) Credential {
	return Credential{auth.Session, func(r *http.Request) (who auth.Principal, sent bool, err error) {
		value := ""
		for _, secure := range []bool{true, false} {
			if c, err := r.Cookie(auth.SessionCookie(secure)); err == nil && value == "" {
				value = c.Value
			}
		}
		if value == "" {
			return who, false, nil
		}
		named := r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" && r.Header.Get("Upgrade") == ""
		if !named && (!exchange.SafeMethod(r.Method) || r.Header.Get("Upgrade") != "") {
			e := fault.Errorf("", api.CodeForeignOrigin, "the browser does not say which page sends the request")
			e.Hint = "Use a current browser, or send an API key."
			return who, true, e
		}
		who, err = sessions.Authenticate(r.Context(), value)
		return who, true, err
	}}
}

// URLToken is the parameter of a signed URL that carries its token.
const URLToken = "berth_url"

// ByTerminalURL finds the caller by the signed URL of a terminal.
func ByTerminalURL(urls *auth.URLs) Credential {
	return Credential{auth.SignedURL, func(r *http.Request) (who auth.Principal, sent bool, err error) {
		token := r.URL.Query().Get(URLToken)
		if token == "" {
			return who, false, nil
		}
		who, err = urls.AuthenticateTerminal(r.Context(), token)
		return who, true, err
	}}
}

// sentKey returns the key from the headers, or "". Authorization takes precedence over X-API-Key.
func sentKey(h http.Header) (string, error) {
	given := h.Get("Authorization")
	if given == "" {
		return cmp.Or(strings.TrimSpace(h.Get("X-API-Key")), offeredKey(h)), nil
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
