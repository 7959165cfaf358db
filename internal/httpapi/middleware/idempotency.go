package middleware

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/store"
)

// Headers and limits of idempotency keys.
const (
	IdempotencyHeader = "Idempotency-Key"
	ReplayedHeader    = "Idempotency-Replayed"
	MaxKeyBytes       = 255
	maxKept           = 1 << 20          // maximum bytes of a stored answer's body
	claimTime         = 15 * time.Second // lifetime of a claim that is not renewed
	FinishTime        = 5 * time.Second  // time limit for storing an answer
)

// Claims ensures that all requests with the same Idempotency-Key have one effect.
type Claims struct {
	store *store.DB
	time  time.Duration // lifetime of a claim that is not renewed
}

// NewClaims returns the claims in the store. life is the lifetime of a claim that is not renewed; zero: the default.
func NewClaims(db *store.DB, life time.Duration) *Claims { return &Claims{db, cmp.Or(life, claimTime)} }

// in returns the part of the store that the caller may see.
func (c *Claims) in(ctx context.Context) store.Scope {
	who, _ := auth.PrincipalFrom(ctx)
	return c.store.In(store.TenantID(who.Tenant)).Within(who.Within())
}

// Idempotent gives a POST with an Idempotency-Key one effect, however often and to whichever servers it is sent. The
// first request claims the key and runs. Its answer is stored before it is sent; repeated requests get the stored
// answer. A run without a final answer (a server error, a panic, a crash) releases the claim. The next request then
// runs with the same effect id and finds what the first run created.
func (c *Claims) Idempotent(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, x := r.Header.Values(IdempotencyHeader), exchange.Of(r.Context())
		own := x.Route.Raw || x.Route.Claims != nil && x.Route.Claims(r)
		if r.Method != http.MethodPost || len(sent) == 0 || x.Principal.Tenant == "" || own {
			next.ServeHTTP(w, r)
			return
		}
		claim, err := c.Claim(r, sent)
		switch {
		case err != nil:
			exchange.Fail(w, r, err)
		case claim.Outcome == store.ClaimDone:
			w.Header().Set(ReplayedHeader, "true")
			Send(w, claim.Answer)
		default:
			c.runClaimed(w, r, next, claim)
		}
	})
}

// Claim claims the request's key. It returns a claim that this request holds, or a finished claim with its answer.
// Any other outcome is an error.
func (c *Claims) Claim(r *http.Request, sent []string) (store.Claim, error) {
	if len(sent) != 1 || sent[0] == "" || len(sent[0]) > MaxKeyBytes || strings.ContainsFunc(sent[0], unprintable) {
		return store.Claim{}, fault.Errorf("", api.CodeInvalidKey, "the request has %d Idempotency-Key headers, or one that is empty, long or unprintable", len(sent))
	}
	hash, err := requestHash(r)
	if err != nil {
		return store.Claim{}, err
	}
	claim, err := c.in(r.Context()).Requests().Claim(r.Context(), store.ClaimRequest{
		Route: claimRoute(r.Context()), Key: sent[0], BodyHash: hash, Holder: exchange.NewID(), TTL: c.time,
	})
	switch {
	case err != nil:
		return claim, err
	case claim.Outcome == store.ClaimInFlight:
		return claim, fault.Errorf("", api.CodeKeyInFlight, "the first request with this Idempotency-Key has not been answered yet")
	case claim.Outcome == store.ClaimMismatch:
		return claim, fault.Errorf("", api.CodeKeyReused, "this Idempotency-Key was sent before with another path, query or body")
	}
	return claim, nil
}

// claimRoute returns the scope in which a key is unique: the route, and the account of a caller that is limited to
// one.
func claimRoute(ctx context.Context) string {
	route := exchange.Of(ctx).Route.Name
	if who, _ := auth.PrincipalFrom(ctx); who.Within() != "" {
		route += " of account " + who.Within()
	}
	return route
}

func unprintable(r rune) bool { return r < ' ' || r > '~' }

// requestHash returns a hash of the method, path, query and body. The body can be read again afterwards.
func requestHash(r *http.Request) (string, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return "", fmt.Errorf("read body: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	h := sha256.New()
	for _, part := range []string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, string(body)} {
		fmt.Fprintf(h, "%d:%s", len(part), part) // the lengths separate the parts
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// runClaimed runs the handler under the claim, and settles the claim before the answer is sent.
func (c *Claims) runClaimed(w http.ResponseWriter, r *http.Request, next http.Handler, claim store.Claim) {
	x := exchange.Of(r.Context())
	x.Effect = claim.EffectID
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	rec, done := &recorder{header: http.Header{}}, false
	stop := c.renew(ctx, claim, cancel)
	defer func() {
		stop()
		c.settle(r, claim, rec, done)
		if done {
			Send(w, rec.answer())
		}
	}()
	next.ServeHTTP(rec, r.WithContext(ctx))
	done = true
}

// renew renews the claim until stop is called. If another server took the claim over, renew cancels the request,
// because both servers would do the same work.
func (c *Claims) renew(ctx context.Context, claim store.Claim, cancel context.CancelCauseFunc) (stop func()) {
	ended, ticker := make(chan struct{}), time.NewTicker(c.time/3)
	quit := make(chan struct{})
	go func() {
		defer close(ended)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
			}
			if err := c.in(ctx).Requests().Renew(ctx, claim, c.time); errors.Is(err, fault.ErrStale) {
				cancel(exchange.ErrClaimLost)
				return
			}
		}
	}()
	return func() { close(quit); <-ended }
}

// settle stores a final answer, or else releases the claim. It works after the request's own time limit, too. An
// error does no harm: the claim expires, and the next run finds the effect.
func (c *Claims) settle(r *http.Request, claim store.Claim, rec *recorder, done bool) {
	x := exchange.Of(r.Context())
	settle := func(ctx context.Context) error { return c.in(ctx).Requests().Release(ctx, claim) }
	if done && isFinal(rec.status, x.Retryable) {
		answer := storable(x, rec.answer())
		settle = func(ctx context.Context) error { return c.in(ctx).Requests().Finish(ctx, claim, answer) }
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), FinishTime)
	defer cancel()
	err := settle(ctx)
	if err == nil {
		return
	}
	x.Log.WarnContext(ctx, "idempotency key not settled", "error", err)
	if isTemporary(err) {
		go settleLater(context.WithoutCancel(r.Context()), c.time, settle)
	}
}

// Settle ends the claim of a request whose answer is a stream, once the work has started (err is nil) or could not be
// started. The stream itself cannot be stored.
func (c *Claims) Settle(ctx context.Context, claim store.Claim, answer store.Answer, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), FinishTime)
	defer cancel()
	if err == nil {
		err = c.in(ctx).Requests().Finish(ctx, claim, answer)
	} else {
		err = c.in(ctx).Requests().Release(ctx, claim)
	}
	if err != nil {
		exchange.Of(ctx).Log.WarnContext(ctx, "idempotency key not settled", "error", err)
	}
}

// settleLater calls settle again until it succeeds or the claim has expired. Once the database works again, a
// repeated request then need not wait for the expiry.
func settleLater(ctx context.Context, claimTime time.Duration, settle func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := settle(ctx); !isTemporary(err) {
			return
		}
	}
}

// isTemporary reports whether the database could not write for a temporary reason.
func isTemporary(err error) bool {
	code := fault.CodeOf(err)
	return code == api.CodeStoreUnavailable || code == api.CodeServerDiskFull
}

const settleEvery = time.Second

// isFinal reports whether an answer may be stored. An error that is due to the server, to the key or to the moment is
// not final, because the same request may succeed later.
func isFinal(status int, retryable bool) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusRequestTimeout:
		return false
	}
	return status < 500 && !retryable
}

// storable returns the answer to store. For an answer that holds a secret or is too large, it returns a problem
// instead: the request was done, with the Location of its result.
func storable(x *exchange.Exchange, answer store.Answer) store.Answer {
	ok := answer.Status < 300
	switch {
	case ok && x.Route.Secret:
		return notReplayable(x, answer, "the first request with this Idempotency-Key was done; its answer held a secret, which was shown once and is not stored")
	case len(answer.Body) > maxKept:
		return notReplayable(x, answer, "the first request with this Idempotency-Key was done; its answer was too large to be kept")
	}
	return answer
}

func notReplayable(x *exchange.Exchange, answer store.Answer, detail string) store.Answer {
	p := exchange.NewProblem(api.CodeNotReplayable, detail)
	p.RequestID = x.ID
	header := map[string][]string{"Content-Type": {exchange.ProblemType}}
	if at := answer.Header["Location"]; at != nil {
		header["Location"] = at
	}
	return store.Answer{Status: p.Status, Header: header, Body: p.JSON()}
}

// recorder records an answer, so that it can be stored before it is sent.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (rec *recorder) Header() http.Header { return rec.header }

func (rec *recorder) WriteHeader(status int) {
	if rec.status == 0 && status >= 200 {
		rec.status = status
	}
}

func (rec *recorder) Write(b []byte) (int, error) {
	rec.WriteHeader(http.StatusOK)
	return rec.body.Write(b)
}

func (rec *recorder) answer() store.Answer {
	if rec.status == 0 {
		rec.status = http.StatusOK
	}
	return store.Answer{Status: rec.status, Header: rec.header, Body: rec.body.Bytes()}
}

// Send sends a stored answer.
func Send(w http.ResponseWriter, answer store.Answer) {
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Status)
	_, _ = w.Write(answer.Body) // a client that has disconnected repeats the request
}
