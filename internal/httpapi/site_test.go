package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// onBoth runs the test on a server over SQLite and on one over PostgreSQL.
func onBoth(t *testing.T, test func(t *testing.T, s *site)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, newSite(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, newSiteOn(t, store.Options{DatabaseURL: storetest.Postgres(t)}, t.TempDir()))
	})
}

// site is one server with everything under it, listening on loopback.
type site struct {
	*Handler
	t      *testing.T
	db     *store.DB
	fake   *fake.Driver
	server *httptest.Server
	log    *logBuffer

	admin, write, read string // keys of tenant acme
}

func newSite(t *testing.T, change ...func(*Options)) *site {
	t.Helper()
	return newSiteOn(t, store.Options{DataDir: t.TempDir()}, t.TempDir(), change...)
}

func newSiteOn(t *testing.T, at store.Options, fakeDir string, change ...func(*Options)) *site {
	t.Helper()
	s := &site{t: t, log: new(logBuffer)}
	redactor := new(telemetry.Redactor)
	logger := telemetry.NewLogger(s.log, "json", slog.LevelDebug, redactor)
	at.Logger = logger
	var err error
	if s.db, err = store.Open(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	storetest.Unlock(t, s.db)
	if s.fake, err = fake.New(fakeDir); err != nil {
		t.Fatal(err)
	}
	opts := Options{
		Engine: newEngine(s.db, s.fake, logger), Store: s.db, Keys: auth.NewAuthenticator(s.db.APIKeys()),
		Listen: "127.0.0.1:0", Version: "1.2.3", Log: logger, Redactor: redactor,
	}
	for _, c := range change {
		c(&opts)
	}
	s.Handler = New(opts)
	s.server = httptest.NewServer(s.Handler)
	t.Cleanup(func() { s.server.Close(); _ = s.db.Close() })
	s.admin, s.write, s.read = s.newKey("acme", api.ScopeAdmin), s.newKey("acme", api.ScopeWrite), s.newKey("acme", api.ScopeRead)
	return s
}

// testEngine is an engine that tests can make again with other options.
type testEngine struct {
	*engine.Engine
	options engine.Options
}

func newEngine(db *store.DB, f driver.Driver, log *slog.Logger) *testEngine {
	o := engine.Options{
		Store: engine.OnDB(db), Drivers: map[string]driver.Driver{"fake": f}, Logger: log,
		Defaults:  sandbox.Spec{Template: "default", Driver: "fake", Profile: "standard"},
		Templates: template.New(template.Options{Driver: "fake"}),
		GoneWait:  200 * time.Millisecond,
	}
	return &testEngine{engine.New(o), o}
}

// changeEngine makes the server's engine again.
func (o *Options) changeEngine(change func(e *engine.Options)) {
	e := o.Engine.(*testEngine).options
	change(&e)
	o.Engine = &testEngine{engine.New(e), e}
}

// inFake puts another driver around the fake one.
func (o *Options) inFake(around func(f *fake.Driver) driver.Driver) {
	o.changeEngine(func(e *engine.Options) {
		e.Drivers = map[string]driver.Driver{"fake": around(e.Drivers["fake"].(*fake.Driver))}
	})
}

// newKey makes a key of the tenant, and the tenant if need be.
func (s *site) newKey(tenant store.TenantID, scope api.Scope) string {
	s.t.Helper()
	secret := auth.Generate()
	err := s.db.Tenants().Ensure(s.t.Context(), tenant, string(tenant))
	if err == nil {
		_, err = s.db.In(tenant).Keys().Create(s.t.Context(), store.Key{Prefix: auth.Prefix(secret), Scopes: []string{string(scope)}}, auth.Hash(secret))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return secret
}

// call is one request; empty fields are left to the client's defaults.
type call struct {
	method, path string
	key          string
	body         string
	header       map[string]string
	host         string
}

// answer is what came back, read whole.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
}

func (s *site) do(c call) answer {
	s.t.Helper()
	res, err := s.send(s.t.Context(), c)
	if err != nil {
		s.t.Fatalf("%s %s: %v", c.method, c.path, err)
	}
	return res
}

func (s *site) send(ctx context.Context, c call) (answer, error) {
	var body io.Reader
	if c.body != "" {
		body = strings.NewReader(c.body)
	}
	r, err := http.NewRequestWithContext(ctx, cmp.Or(c.method, http.MethodGet), s.server.URL+c.path, body)
	if err != nil {
		return answer{}, err
	}
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	if c.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range c.header {
		r.Header.Set(name, value)
	}
	r.Host = c.host
	res, err := client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return answer{s.t, res.StatusCode, res.Header, text}, err
}

var client = http.Client{
	Transport:     &http.Transport{MaxIdleConnsPerHost: 100},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func (s *site) get(path string) answer { s.t.Helper(); return s.do(call{path: path, key: s.read}) }

func (s *site) post(path, body string) answer {
	s.t.Helper()
	return s.do(call{method: http.MethodPost, path: path, key: s.admin, body: body})
}

func (s *site) remove(path string) answer {
	s.t.Helper()
	return s.do(call{method: http.MethodDelete, path: path, key: s.admin})
}

// is checks the status and returns the answer.
func (a answer) is(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

// fails checks that the answer is a problem document of the code, with everything it must have and nothing else.
func (a answer) fails(code api.Code) api.Problem {
	a.t.Helper()
	if a.header.Get("Content-Type") != problemType {
		a.t.Fatalf("status %d, type %q: not a problem: %s", a.status, a.header.Get("Content-Type"), a.body)
	}
	p := into[api.Problem](a)
	info := code.Info()
	if p.Code != code || a.status != info.Status || p.Status != info.Status {
		a.t.Fatalf("code %s with status %d, want %s with %d: %s", p.Code, a.status, code, info.Status, a.body)
	}
	if p.Detail == "" || p.Hint == "" || p.Title != info.Title || p.Type != "/docs/problems#"+string(code) ||
		p.RequestID == "" || p.RequestID != a.header.Get("X-Request-Id") {
		a.t.Fatalf("problem lacks something: %s", a.body)
	}
	return p
}

func into[T any](a answer) T {
	a.t.Helper()
	var v T
	dec := json.NewDecoder(bytes.NewReader(a.body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		a.t.Fatalf("decode %s: %v", a.body, err)
	}
	return v
}

// logBuffer is a log that tests read while the server writes.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// lines returns the log's records that have the message.
func (l *logBuffer) lines(t *testing.T, message string) (found []map[string]any) {
	t.Helper()
	for line := range strings.Lines(l.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		if record["msg"] == message {
			found = append(found, record)
		}
	}
	return found
}

const patience = 10 * time.Second
