package httpapi

import (
	"bytes"
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
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

const (
	idempotencyHeader = "Idempotency-Key"
	replayedHeader    = "Idempotency-Replayed"
	maxKeyBytes       = 255
	maxKept           = 1 << 20          // of an answer's body
	claimTime         = 15 * time.Second // a claim's life between renewals
	finishTime        = 5 * time.Second  // to store an answer in
)

var errClaimLost = errors.New("the claim on the Idempotency-Key was lost")

// idempotent gives a POST that carries an Idempotency-Key one effect, however often and wherever it is
// sent. The first request claims the key and runs; the answer is stored before it is sent, and given
// again to all others. A run that ends without a final answer (a server's fault, a panic, a crash)
// gives the claim up, and the next one runs under the same effect id: it finds what the first made.
func (a *Handler) idempotent(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, x := r.Header.Values(idempotencyHeader), exchangeOf(r.Context())
		own := x.route.Raw || x.route.Claims != nil && x.route.Claims(r)
		if r.Method != http.MethodPost || len(sent) == 0 || x.principal.Tenant == "" || own {
			next.ServeHTTP(w, r)
			return
		}
		claim, err := a.claim(r, sent)
		switch {
		case err != nil:
			fail(w, r, err)
		case claim.Outcome == store.ClaimDone:
			w.Header().Set(replayedHeader, "true")
			send(w, claim.Answer)
		default:
			a.runClaimed(w, r, next, claim)
		}
	})
}

// claim returns a claim that is ours or done; everything else is an error.
func (a *Handler) claim(r *http.Request, sent []string) (store.Claim, error) {
	if len(sent) != 1 || sent[0] == "" || len(sent[0]) > maxKeyBytes || strings.ContainsFunc(sent[0], unprintable) {
		return store.Claim{}, sandbox.Errorf("", api.CodeInvalidKey, "the request has %d Idempotency-Key headers, or one that is empty, long or unprintable", len(sent))
	}
	hash, err := requestHash(r)
	if err != nil {
		return store.Claim{}, err
	}
	claim, err := a.in(r.Context()).ClaimKey(r.Context(), store.ClaimRequest{
		Route: claimRoute(r.Context()), Key: sent[0], BodyHash: hash, Holder: newID(), TTL: a.claimTime,
	})
	switch {
	case err != nil:
		return claim, err
	case claim.Outcome == store.ClaimInFlight:
		return claim, sandbox.Errorf("", api.CodeKeyInFlight, "the first request with this Idempotency-Key has not been answered yet")
	case claim.Outcome == store.ClaimMismatch:
		return claim, sandbox.Errorf("", api.CodeKeyReused, "this Idempotency-Key was sent before with another path, query or body")
	}
	return claim, nil
}

// claimRoute is what a key is unique for: the route, and the account of a caller that sees no other.
func claimRoute(ctx context.Context) string {
	route := exchangeOf(ctx).route.Name
	if who, _ := auth.PrincipalFrom(ctx); who.Within() != "" {
		route += " of account " + who.Within()
	}
	return route
}

func unprintable(r rune) bool { return r < ' ' || r > '~' }

// requestHash stands for everything that makes two requests the same. It leaves the body to be read
// again.
func requestHash(r *http.Request) (string, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return "", fmt.Errorf("read body: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	h := sha256.New()
	for _, part := range []string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, string(body)} {
		fmt.Fprintf(h, "%d:%s", len(part), part) // lengths, so that no two splits look alike
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// runClaimed runs the handler under the claim, and settles the claim before the answer is sent.
func (a *Handler) runClaimed(w http.ResponseWriter, r *http.Request, next http.Handler, claim store.Claim) {
	x := exchangeOf(r.Context())
	x.effect = claim.EffectID
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	rec, done := &recorder{header: http.Header{}}, false
	stop := a.renew(ctx, claim, cancel)
	defer func() {
		stop()
		a.settle(r, claim, rec, done)
		if done {
			send(w, rec.answer())
		}
	}()
	next.ServeHTTP(rec, r.WithContext(ctx))
	done = true
}

// renew keeps the claim alive until stop is called. If another holder got it all the same, the work
// here is cancelled: both would do the same.
func (a *Handler) renew(ctx context.Context, claim store.Claim, cancel context.CancelCauseFunc) (stop func()) {
	ended, ticker := make(chan struct{}), time.NewTicker(a.claimTime/3)
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
			if err := a.in(ctx).RenewKey(ctx, claim, a.claimTime); errors.Is(err, sandbox.ErrStale) {
				cancel(errClaimLost)
				return
			}
		}
	}()
	return func() { close(quit); <-ended }
}

// settle stores the answer, or gives the claim up where there is none to keep. Neither waits for the
// request's own time, which may be over. An error here costs no correctness: the claim runs out, and
// the next run finds the effect.
func (a *Handler) settle(r *http.Request, claim store.Claim, rec *recorder, done bool) {
	x := exchangeOf(r.Context())
	settle := func(ctx context.Context) error { return a.in(ctx).ReleaseKey(ctx, claim) }
	if done && keepable(rec.status, x.retryable) {
		answer := kept(x, rec.answer())
		settle = func(ctx context.Context) error { return a.in(ctx).FinishKey(ctx, claim, answer) }
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), finishTime)
	defer cancel()
	err := settle(ctx)
	if err == nil {
		return
	}
	x.log.WarnContext(ctx, "idempotency key not settled", "error", err)
	if mayPass(err) {
		go settleLater(context.WithoutCancel(r.Context()), a.claimTime, settle)
	}
}

// settleClaim ends the claim of a request whose answer is a stream, once it is known whether what it asked
// for has begun: the stream itself is no answer that could be kept.
func (a *Handler) settleClaim(ctx context.Context, claim store.Claim, answer store.Answer, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
	defer cancel()
	if err == nil {
		err = a.in(ctx).FinishKey(ctx, claim, answer)
	} else {
		err = a.in(ctx).ReleaseKey(ctx, claim)
	}
	if err != nil {
		exchangeOf(ctx).log.WarnContext(ctx, "idempotency key not settled", "error", err)
	}
}

// settleLater goes on trying until the claim has run out: whoever sends the request again need not wait
// for that once the database is back.
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
		if err := settle(ctx); !mayPass(err) {
			return
		}
	}
}

// mayPass reports whether the database could not write for a reason that may pass.
func mayPass(err error) bool {
	code := sandbox.CodeOf(err)
	return code == api.CodeStoreUnavailable || code == api.CodeServerDiskFull
}

const settleEvery = time.Second

// keepable reports whether an answer is final. What the server, the moment or the key is to blame for
// may turn out otherwise when the same request is sent again.
func keepable(status int, retryable bool) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusRequestTimeout:
		return false
	}
	return status < 500 && !retryable
}

// kept is the answer as it is stored. One that holds a secret, or is too large, is not: whoever sends
// the request again learns that it was done, and where to look.
func kept(x *exchange, answer store.Answer) store.Answer {
	ok := answer.Status < 300
	switch {
	case ok && x.route.Secret:
		return notReplayable(x, answer, "the first request with this Idempotency-Key was done; its answer held a secret, which was shown once and is not stored")
	case len(answer.Body) > maxKept:
		return notReplayable(x, answer, "the first request with this Idempotency-Key was done; its answer was too large to be kept")
	}
	return answer
}

func notReplayable(x *exchange, answer store.Answer, detail string) store.Answer {
	p := newProblem(api.CodeNotReplayable, detail)
	p.RequestID = x.id
	header := map[string][]string{"Content-Type": {problemType}}
	if at := answer.Header["Location"]; at != nil {
		header["Location"] = at
	}
	return store.Answer{Status: p.Status, Header: header, Body: p.json()}
}

// effectID is the id to make something under: that of the claim, so that a second run finds what the
// first one made, or else a new one.
func effectID(ctx context.Context) string {
	if x := exchangeOf(ctx); x.effect != "" {
		return x.effect
	}
	return newID()
}

// recorder holds an answer back until it is stored.
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

func send(w http.ResponseWriter, answer store.Answer) {
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Status)
	_, _ = w.Write(answer.Body) // a client that is gone asks again
}
