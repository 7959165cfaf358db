package exchange

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/fault"
)

const (
	pollKeysEvery = time.Second            // interval of the checks for keys that have ended
	farewellTime  = 900 * time.Millisecond // time for a cancelled request to answer, before its connection is cut
	pollKeysTime  = 5 * time.Second        // time limit of a check
)

// Sessions has the running requests by key. When a key is revoked or expires, its requests are cancelled, including
// streams and upgraded connections. Other servers revoke keys, too, so each server polls the keys of its requests,
// with one query for all of them. A request with a signed URL is a session of that URL instead; see [OfURL].
type Sessions struct {
	Keys  auth.KeyReader // nil: only this server revokes keys
	URLs  auth.URLReader // nil: no URLs are signed
	OnEnd func()         // called when a key or URL is revoked by this server; nil: nothing
	Log   *slog.Logger

	mu       sync.Mutex
	byKey    map[string]map[*session]bool
	watching bool // a goroutine polls; it ends when no request is left
}

// OfURL returns the key under which the requests of a signed URL are sessions.
func OfURL(id string) string { return urlMark + id }

const urlMark = "url "

// session is one request.
type session struct {
	Key      string
	cancel   context.CancelCauseFunc
	control  *http.ResponseController
	at       time.Time   // when its key ended; guarded by Sessions.mu
	Spared   atomic.Bool // the request revokes its own key and must still be answered
	hijacked atomic.Bool // its connection was taken over, for example for a WebSocket
	ended    atomic.Bool // its key has ended: its body is no longer read
	cut      atomic.Bool // its answer is no longer written
}

// past is a deadline that ends running reads and writes at once.
var past = time.Unix(1, 0)

// errKeyEnded ends a request whose key was revoked or has expired.
var errKeyEnded = errors.New("the key ended")

// KeyEnded returns the error of a request whose key was revoked or expired during the request, or nil.
func KeyEnded(ctx context.Context) *fault.Error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, errKeyEnded) {
		return nil
	}
	e, _ := errors.AsType[*fault.Error](cause)
	return e
}

// EndOfKey returns the cause for cancelling a request whose key has ended.
func EndOfKey(code api.Code, format string, args ...any) error {
	return errors.Join(fault.Errorf("", code, format, args...), errKeyEnded)
}

// Serve serves a request and cancels it if its key ends. It then closes the connection, because the rest of the body
// is not read.
func (s *Sessions) Serve(w http.ResponseWriter, r *http.Request, key string, next http.Handler) {
	r, one, done := s.begin(w, r, key)
	defer done()
	next.ServeHTTP(w, r)
	if one.ended.Load() && !one.hijacked.Load() {
		_ = one.control.Flush()
		panic(http.ErrAbortHandler)
	}
}

// begin registers a request, whose context ends with its key. done removes it.
func (s *Sessions) begin(w http.ResponseWriter, r *http.Request, key string) (_ *http.Request, _ *session, done func()) {
	ctx, cancel := context.WithCancelCause(r.Context())
	one := &session{Key: key, cancel: cancel, control: http.NewResponseController(w)}
	Of(ctx).Session = one
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey == nil {
		s.byKey = map[string]map[*session]bool{}
	}
	if s.byKey[key] == nil {
		s.byKey[key] = map[*session]bool{}
	}
	s.byKey[key][one] = true
	if !s.watching {
		s.watching = true
		go s.watch()
	}
	r = r.WithContext(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = sessionBody{r.Body, one}
	}
	return r, one, func() {
		s.mu.Lock()
		if delete(s.byKey[key], one); len(s.byKey[key]) == 0 {
			delete(s.byKey, key)
		}
		s.mu.Unlock()
		cancel(nil)
	}
}

// sessionBody is the body of a request. It cannot be read after the request's key has ended.
type sessionBody struct {
	io.ReadCloser
	of *session
}

func (b sessionBody) Read(p []byte) (int, error) {
	if b.of.ended.Load() {
		return 0, errKeyEnded
	}
	return b.ReadCloser.Read(p)
}

// End cancels the requests of a key. They have a short time to answer with the reason.
func (s *Sessions) End(key string, why error) {
	if s.OnEnd != nil {
		s.OnEnd()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range s.byKey[key] {
		if one.ended.Load() || one.Spared.Load() {
			continue
		}
		one.at = time.Now()
		one.cancel(why)
		one.ended.Store(true)
		if !one.hijacked.Load() { // a WebSocket still reads its client's close message
			_ = one.control.SetReadDeadline(past) // response recorders of tests have no deadlines
		}
	}
	if len(s.byKey[key]) > 0 {
		time.AfterFunc(farewellTime, s.cutEnded)
	}
}

// cutEnded ends the reads and writes of cancelled requests that still run: not every handler watches its context, and
// a client that reads nothing can block a handler. It runs again with each poll, because handlers set other
// deadlines.
func (s *Sessions) cutEnded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, all := range s.byKey {
		for one := range all {
			if !one.ended.Load() || time.Since(one.at) < farewellTime {
				continue
			}
			one.cut.Store(true)
			_ = one.control.SetReadDeadline(past)
			_ = one.control.SetWriteDeadline(past)
		}
	}
}

// watch looks for revoked keys at intervals until no request is left.
func (s *Sessions) watch() {
	tick := time.NewTicker(pollKeysEvery)
	defer tick.Stop()
	for range tick.C {
		s.cutEnded()
		s.mu.Lock()
		ids := slices.Collect(maps.Keys(s.byKey))
		if len(ids) == 0 {
			s.watching = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		if err := s.poll(ids); err != nil {
			// While the database does not answer, new requests are refused, too. Running requests continue.
			s.Log.Warn("cannot check whether API keys were revoked", "error", err)
		}
	}
}

// poll ends the requests of the keys and URLs that are no longer valid.
func (s *Sessions) poll(ids []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), pollKeysTime)
	defer cancel()
	var keys, urls []string
	for _, id := range ids {
		if url, is := strings.CutPrefix(id, urlMark); is {
			urls = append(urls, url)
		} else {
			keys = append(keys, id)
		}
	}
	return errors.Join(s.pollKeys(ctx, keys), s.pollURLs(ctx, urls))
}

func (s *Sessions) pollKeys(ctx context.Context, ids []string) error {
	if s.Keys == nil || len(ids) == 0 {
		return nil
	}
	found, err := s.Keys.ByID(ctx, ids)
	if err != nil {
		return err
	}
	gone := map[string]error{}
	for _, id := range ids {
		gone[id] = EndOfKey(api.CodeKeyRevoked, "the API key of this request was removed")
	}
	for _, k := range found {
		switch {
		case !k.RevokedAt.IsZero():
			gone[k.ID] = EndOfKey(api.CodeKeyRevoked, "the API key of this request was revoked at %s", k.RevokedAt.UTC().Format(time.RFC3339))
		case !k.Live(time.Now()):
			gone[k.ID] = EndOfKey(api.CodeKeyExpired, "the API key of this request expired at %s", k.ExpiresAt.UTC().Format(time.RFC3339))
		default:
			delete(gone, k.ID)
		}
	}
	for id, why := range gone {
		s.End(id, why)
	}
	return nil
}

func (s *Sessions) pollURLs(ctx context.Context, ids []string) error {
	if s.URLs == nil || len(ids) == 0 {
		return nil
	}
	found, err := s.URLs.ByID(ctx, ids)
	if err != nil {
		return err
	}
	for _, u := range found {
		if err := auth.URLEnded(u, time.Now()); err != nil {
			s.End(OfURL(u.ID), errors.Join(err, errKeyEnded))
		}
	}
	return nil
}
