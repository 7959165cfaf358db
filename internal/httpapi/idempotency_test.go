package httpapi

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
)

// keyed is a POST with an Idempotency-Key.
func (s *site) keyed(key, path, body string) answer {
	s.t.Helper()
	return s.do(call{method: http.MethodPost, path: path, key: s.admin, body: body, header: map[string]string{idempotencyHeader: key}})
}

func (a answer) replayed() bool { return a.header.Get(replayedHeader) == "true" }

func TestSameKeySameAnswer(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		for path, body := range map[string]string{
			sandboxesPath: `{"metadata":{"a":"b"}}`, accountsPath: `{"name":"ann"}`, agentsPath: `{"name":"helper"}`,
		} {
			first, second := s.keyed("k1", path, body).is(http.StatusCreated), s.keyed("k1", path, body).is(http.StatusCreated)
			if string(first.body) != string(second.body) || first.header.Get("Location") != second.header.Get("Location") ||
				first.header.Get("Content-Type") != second.header.Get("Content-Type") || first.replayed() || !second.replayed() {
				t.Errorf("%s: first %v %s, second %v %s", path, first.header, first.body, second.header, second.body)
			}
			if third := s.keyed("k2", path, strings.Replace(body, "ann", "bea", 1)); third.replayed() || string(third.body) == string(first.body) {
				t.Errorf("%s: another key got the same answer: %s", path, third.body)
			}
		}
	})
}

func TestKeyWithAnotherRequest(t *testing.T) {
	s := newSite(t)
	s.keyed("k", accountsPath, `{"name":"ann"}`).is(http.StatusCreated)
	s.keyed("k", accountsPath, `{"name":"bea"}`).fails(api.CodeKeyReused)
	s.keyed("k", agentsPath, `{"name":"ann"}`).is(http.StatusCreated) // another route, another key
	stranger := s.newKey("other", api.ScopeAdmin)
	s.do(call{method: http.MethodPost, path: accountsPath, key: stranger, body: `{"name":"bea"}`, header: map[string]string{idempotencyHeader: "k"}}).is(http.StatusCreated)
}

// Final refusals are answers too; those of the moment are not.
func TestWhatIsReplayed(t *testing.T) {
	s := newSite(t)
	first := s.keyed("bad", sandboxesPath, `{"template":"nope"}`)
	second := s.keyed("bad", sandboxesPath, `{"template":"nope"}`)
	if first.status != http.StatusUnprocessableEntity || !second.replayed() || string(first.body) != string(second.body) {
		t.Errorf("first %d, second %d %v", first.status, second.status, second.header)
	}
	write := call{method: http.MethodPost, path: accountsPath, key: s.write, body: `{"name":"ann"}`, header: map[string]string{idempotencyHeader: "scope"}}
	s.do(write).fails(api.CodeForbidden)
	s.keyed("scope", accountsPath, `{"name":"ann"}`).is(http.StatusCreated)
}

func TestBadIdempotencyKeys(t *testing.T) {
	s := newSite(t)
	for _, key := range []string{strings.Repeat("k", 256), "ä", "a\tb"} {
		s.keyed(key, sandboxesPath, "{}").fails(api.CodeInvalidKey)
	}
	s.keyed(strings.Repeat("k", 255), sandboxesPath, "{}").is(http.StatusCreated)
	s.keyed(`"8e03978e-40d5-43dd-bc93-6894a57f9324"`, sandboxesPath, "{}").is(http.StatusCreated)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.server.URL+sandboxesPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"X-Api-Key": {s.admin}, idempotencyHeader: {"one", "two"}}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("two keys: status %d", res.StatusCode)
	}
}

// The secret of a new key is shown once; a second try learns that it was made, and where.
func TestSecretIsNotStoredForReplay(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		first := s.keyed("k", keysPath, `{"label":"ci"}`).is(http.StatusCreated)
		made := into[api.NewKey](first)
		second := s.keyed("k", keysPath, `{"label":"ci"}`)
		if second.status != http.StatusConflict || !second.replayed() || !strings.Contains(string(second.body), string(api.CodeNotReplayable)) ||
			second.header.Get("Location") != first.header.Get("Location") || strings.Contains(string(second.body), made.Secret) {
			t.Errorf("second: %d %v %s", second.status, second.header, second.body)
		}
		claim, err := s.db.In("acme").Requests().Claim(t.Context(), store.ClaimRequest{Route: "create-key", Key: "k", BodyHash: "other", Holder: "h", TTL: time.Second})
		if err != nil || claim.Outcome != store.ClaimMismatch {
			t.Fatalf("the key is not recorded where this test looks: %+v, %v", claim, err)
		}
		if n := len(into[api.List[api.Key]](s.do(call{path: keysPath, key: s.admin})).Items); n != 4 {
			t.Errorf("%d keys, want the three of the site and one", n)
		}
		s.keyed("k2", keysPath, `{"scope":"root"}`).fails(api.CodeInvalidRequest)
		if again := s.keyed("k2", keysPath, `{"scope":"root"}`); !again.replayed() || again.status != http.StatusBadRequest {
			t.Errorf("a refusal holds no secret and is replayed: %d", again.status)
		}
	})
}

// gate is an engine that stops in Ensure until it is let go.
type gate struct {
	access.Engine
	entered chan struct{}
	leave   chan error
}

func (g gate) Ensure(ctx context.Context, r engine.Request) (sandbox.Sandbox, bool, error) {
	g.entered <- struct{}{}
	select {
	case err := <-g.leave:
		if err != nil {
			return sandbox.Sandbox{}, false, err
		}
		return g.Engine.Ensure(ctx, r)
	case <-ctx.Done():
		return sandbox.Sandbox{}, false, context.Cause(ctx)
	}
}

func newGated(t *testing.T, at store.Options) (*site, gate) {
	g := gate{entered: make(chan struct{}, 8), leave: make(chan error, 1)}
	s := newSiteOn(t, at, t.TempDir(), func(o *Options) { g.Engine = o.Engine; o.Engine, o.ClaimTTL = g, time.Second })
	return s, g
}

func (s *site) inBackground(c call) <-chan answer {
	got := make(chan answer, 1)
	go func() {
		a, err := s.send(context.WithoutCancel(s.t.Context()), c)
		if err != nil {
			a = answer{s.t, 0, nil, []byte(err.Error())}
		}
		got <- a
	}()
	return got
}

func TestKeyInFlight(t *testing.T) {
	s, g := newGated(t, store.Options{DataDir: t.TempDir()})
	c := call{method: http.MethodPost, path: sandboxesPath, key: s.admin, body: `{"name":"box"}`, header: map[string]string{idempotencyHeader: "k"}}
	first := s.inBackground(c)
	<-g.entered
	// Longer than the claim lives: it is renewed while the work goes on.
	for end := time.Now().Add(2 * s.ClaimTTL); time.Now().Before(end); {
		a := s.do(c)
		if p := a.fails(api.CodeKeyInFlight); !p.Retryable || a.header.Get("Retry-After") != "1" {
			t.Fatalf("in flight: %v", a.header)
		}
	}
	s.do(call{method: http.MethodPost, path: sandboxesPath, key: s.admin, body: `{"name":"other"}`, header: c.header}).fails(api.CodeKeyReused)
	g.leave <- nil
	got := (<-first).is(http.StatusCreated)
	if again := s.do(c).is(http.StatusCreated); !again.replayed() || string(again.body) != string(got.body) {
		t.Errorf("first %s, again %s", got.body, again.body)
	}
}

// What ends without a final answer is begun anew, and makes the same thing.
func TestFailedRunIsRepeatedUnderTheSameID(t *testing.T) {
	for name, end := range map[string]error{
		"driver away": fault.Errorf("", api.CodeDriverUnreachable, "away"),
		"stale":       fault.Errorf("", api.CodeStale, "lost"),
		"unknown":     errors.New("something"),
	} {
		t.Run(name, func(t *testing.T) {
			var ids []string
			s := newSite(t, func(o *Options) {
				inner := o.Engine
				o.Engine = ensure{o.Engine, func(ctx context.Context, r engine.Request) (sandbox.Sandbox, bool, error) {
					ids = append(ids, r.NewID)
					if len(ids) == 1 {
						if _, _, err := inner.Ensure(ctx, r); err != nil { // it works, and the answer is lost
							return sandbox.Sandbox{}, false, err
						}
						return sandbox.Sandbox{}, false, end
					}
					return inner.Ensure(ctx, r)
				}}
			})
			if first := s.keyed("k", sandboxesPath, "{}"); first.status < 400 {
				t.Fatalf("first: %d", first.status)
			}
			second := into[api.Sandbox](s.keyed("k", sandboxesPath, "{}").is(http.StatusCreated))
			if len(ids) != 2 || ids[0] != ids[1] || second.ID != ids[0] {
				t.Errorf("ids %v, made %s", ids, second.ID)
			}
			if third := s.keyed("k", sandboxesPath, "{}").is(http.StatusCreated); !third.replayed() {
				t.Error("the answer was not kept")
			}
			if n := len(s.listNames(sandboxesPath)); n != 1 {
				t.Errorf("%d sandboxes, want 1", n)
			}
		})
	}
}

// ensure replaces an engine's Ensure.
type ensure struct {
	access.Engine
	f func(context.Context, engine.Request) (sandbox.Sandbox, bool, error)
}

func (e ensure) Ensure(ctx context.Context, r engine.Request) (sandbox.Sandbox, bool, error) {
	return e.f(ctx, r)
}

func TestPanicReleasesTheKey(t *testing.T) {
	panics := true
	s := newSite(t, func(o *Options) {
		inner := o.Engine
		o.Engine = ensure{o.Engine, func(ctx context.Context, r engine.Request) (sandbox.Sandbox, bool, error) {
			if panics {
				panic("once")
			}
			return inner.Ensure(ctx, r)
		}}
	})
	s.keyed("k", sandboxesPath, "{}").fails(api.CodeInternal)
	panics = false
	if a := s.keyed("k", sandboxesPath, "{}").is(http.StatusCreated); a.replayed() {
		t.Error("a panic was replayed")
	}
}

// A client that goes away does not end up with two sandboxes when it comes back.
func TestClientThatLeavesAndComesBack(t *testing.T) {
	s, g := newGated(t, store.Options{DataDir: t.TempDir()})
	c := call{method: http.MethodPost, path: sandboxesPath, key: s.admin, body: "{}", header: map[string]string{idempotencyHeader: "k"}}
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() { _, err := s.send(ctx, c); gone <- err }()
	<-g.entered
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, func() error {
		back := s.inBackground(c)
		select {
		case <-g.entered:
			g.leave <- nil
			(<-back).is(http.StatusCreated)
			return nil
		case a := <-back: // the first run has not given the key up yet
			a.fails(api.CodeKeyInFlight)
			return errors.New("still in flight")
		}
	})
	if n := len(s.listNames(sandboxesPath)); n != 1 {
		t.Errorf("%d sandboxes, want 1", n)
	}
}

// A holder that lost its claim stops: the new one does the work.
func TestLostClaimCancelsTheWork(t *testing.T) {
	url := storetest.Postgres(t)
	s, g := newGated(t, store.Options{DatabaseURL: url})
	first := s.inBackground(call{method: http.MethodPost, path: sandboxesPath, key: s.admin, body: "{}", header: map[string]string{idempotencyHeader: "k"}})
	<-g.entered
	thief, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer thief.Close()
	if _, err := thief.ExecContext(t.Context(), "update idempotency_keys set holder = 'thief', epoch = epoch + 1"); err != nil {
		t.Fatal(err)
	}
	(<-first).fails(api.CodeKeyInFlight)
	if len(s.log.lines(t, "idempotency key not settled")) != 1 {
		t.Error("the log does not say that the key was lost")
	}
}

// An earlier run made the key and crashed before it could answer: its secret is lost, and said to be.
func TestCrashAfterEffect(t *testing.T) {
	s := newSite(t)
	crash := func(path, name, key, body string) string {
		h := sha256.New()
		for _, part := range []string{http.MethodPost, path, "", body} {
			fmt.Fprintf(h, "%d:%s", len(part), part)
		}
		hash := hex.EncodeToString(h.Sum(nil))
		claim, err := s.db.In("acme").Requests().Claim(t.Context(), store.ClaimRequest{Route: name, Key: key, BodyHash: hash, Holder: "dead", TTL: 0})
		if err != nil || claim.Outcome != store.ClaimFresh {
			t.Fatalf("claim %+v, %v", claim, err)
		}
		return claim.EffectID
	}
	id := crash(accountsPath, "create-account", "a", `{"name":"ann"}`)
	if _, err := s.db.In("acme").Accounts().Create(t.Context(), store.Account{ID: id, Name: "ann"}); err != nil {
		t.Fatal(err)
	}
	if got := into[api.Account](s.keyed("a", accountsPath, `{"name":"ann"}`).is(http.StatusCreated)); got.ID != id {
		t.Errorf("account %s, want %s", got.ID, id)
	}
	id = crash(agentsPath, "create-agent", "b", `{"name":"helper"}`)
	if _, err := s.db.In("acme").Agents().Create(t.Context(), store.Agent{ID: id, Name: "helper"}); err != nil {
		t.Fatal(err)
	}
	if got := into[api.Agent](s.keyed("b", agentsPath, `{"name":"helper"}`).is(http.StatusCreated)); got.ID != id {
		t.Errorf("agent %s, want %s", got.ID, id)
	}
	id = crash(keysPath, "create-key", "c", `{}`)
	if _, err := s.db.In("acme").Keys().Create(t.Context(), store.Key{ID: id}, store.KeyHash{1}); err != nil {
		t.Fatal(err)
	}
	a := s.keyed("c", keysPath, `{}`)
	a.fails(api.CodeNotReplayable)
	if a.header.Get("Location") != keysPath+"/"+id {
		t.Errorf("location %q", a.header.Get("Location"))
	}
	id = crash(sandboxesPath, "create-sandbox", "d", `{"name":"box"}`)
	if _, _, err := s.Engine.Ensure(t.Context(), engine.Request{Owner: sandbox.Owner{Tenant: "acme", Kind: sandbox.OwnerSandbox, ID: "box"}, Name: "box", NewID: id}); err != nil {
		t.Fatal(err)
	}
	if got := into[api.Sandbox](s.keyed("d", sandboxesPath, `{"name":"box"}`).is(http.StatusCreated)); got.ID != id {
		t.Errorf("sandbox %s, want %s", got.ID, id)
	}
}

// I10: every key has one effect, however often it is sent at once, to two replicas, one of which is
// replaced midway.
func TestOneKeyOneEffect(t *testing.T) {
	url, dir := storetest.Postgres(t), t.TempDir()
	a := newSiteOn(t, store.Options{DatabaseURL: url}, dir)
	b := newSiteOn(t, store.Options{DatabaseURL: url}, dir)
	c := newSiteOn(t, store.Options{DatabaseURL: url}, dir)
	n := testkit.Size(t, "i10.keys") / 10 // the whole number runs against real processes
	var second atomic.Pointer[site]
	second.Store(b)
	var mu sync.Mutex
	answers := map[int]map[string]int{}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 64)
	for i := range n {
		for j := range 2 + i%19 {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				target := a
				if j%2 == 1 {
					target = second.Load()
				}
				body := insist(target, call{method: http.MethodPost, path: sandboxesPath, key: a.admin,
					body: fmt.Sprintf(`{"metadata":{"i":"%d"}}`, i), header: map[string]string{idempotencyHeader: fmt.Sprint("key-", i)}})
				mu.Lock()
				defer mu.Unlock()
				if answers[i] == nil {
					answers[i] = map[string]int{}
				}
				answers[i][body]++
			})
		}
		if i == n/2 {
			second.Store(c)
			b.server.CloseClientConnections()
		}
	}
	wg.Wait()
	for i, bodies := range answers {
		if len(bodies) != 1 {
			t.Errorf("key %d got %d different answers: %v", i, len(bodies), bodies)
		}
	}
	calls, err := a.fake.Log()
	if err != nil {
		t.Fatal(err)
	}
	creates := 0
	for _, call := range calls {
		if call.Op == fake.Create && call.Effect {
			creates++
		}
	}
	if creates != n || len(a.listNames(sandboxesPath+"?limit=500")) != n {
		t.Errorf("%d creates and %d sandboxes, want %d", creates, len(a.listNames(sandboxesPath+"?limit=500")), n)
	}
}

// insist sends the request until it is answered for good.
func insist(s *site, c call) string {
	for {
		a, err := s.send(s.t.Context(), c)
		switch {
		case s.t.Context().Err() != nil:
			return "test over"
		case err != nil || a.status == http.StatusConflict || a.status >= 500:
			<-time.After(20 * time.Millisecond) // as Retry-After asks, only sooner
			continue
		}
		return fmt.Sprint(a.status, string(a.body))
	}
}
