package engine_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
)

// place is where a server keeps everything: what two processes share when they are replicas.
type place struct {
	DataDir, DatabaseURL, FakeDir string
	LeaseTTL                      time.Duration
}

// server is one process's engine with its store and driver.
type server struct {
	*engine.Engine
	db   *store.DB
	fake *fake.Driver
}

// onBoth runs the test on a fresh SQLite and on a fresh PostgreSQL.
func onBoth(t *testing.T, test func(t *testing.T, at place)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, onSQLite(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, onPostgres(t))
	})
}

func onSQLite(t *testing.T) place {
	return place{DataDir: t.TempDir(), FakeDir: t.TempDir(), LeaseTTL: 15 * time.Second}
}

func onPostgres(t *testing.T) place {
	return place{DatabaseURL: storetest.Postgres(t), FakeDir: t.TempDir(), LeaseTTL: 15 * time.Second}
}

// two are the templates of these tests: "none", and "default", whose sandboxes have more.
type two struct{}

func (two) Names() []string           { return []string{"default", "none"} }
func (t two) Allows(_, n string) bool { return slices.Contains(t.Names(), n) }
func (two) Spec(string) sandbox.Spec  { return sandbox.Spec{} }
func (two) User(t string) string      { return map[string]string{"default": guest.Root}[t] }

func (two) Env(_ context.Context, _, t string) (map[string]string, error) {
	if t == "none" {
		return nil, nil
	}
	return map[string]string{"OF_TEMPLATE": "template's", "OF_BOTH": "template's"}, nil
}

func (two) Prepare(s sandbox.Sandbox, spec *driver.Spec) error {
	spec.Limits.Processes = map[string]int64{"default": 7}[s.Spec.Template]
	if s.Spec.Metadata["base"] == "none such" {
		return fault.Errorf("prepare", api.CodeCreateFailed, "there is no base of that name")
	}
	return nil
}

// open makes a server there, as the process that calls it.
func open(at place, change ...func(*engine.Options)) (*server, error) {
	db, err := store.Open(context.Background(), store.Options{DataDir: at.DataDir, DatabaseURL: at.DatabaseURL, LeaseTTL: at.LeaseTTL})
	if err != nil {
		return nil, err
	}
	if err := storetest.UseSecret(context.Background(), db); err != nil {
		return nil, err
	}
	f, err := fake.New(at.FakeDir)
	if err != nil {
		return nil, err
	}
	retry := driver.Backoff{First: time.Millisecond, Max: 10 * time.Millisecond, Tries: 3}
	opts := engine.Options{
		Store:       engine.OnDB(db),
		Drivers:     map[string]driver.Driver{"fake": driver.WithRetry(f, retry)},
		Defaults:    sandbox.Spec{Template: "default", Driver: "fake", Profile: "standard"},
		Templates:   two{},
		LeaseTTL:    at.LeaseTTL,
		WorkTimeout: 20 * time.Second,
		Policy: func(sandbox.Sandbox) sandbox.Policy {
			return sandbox.Policy{Backoff: sandbox.Backoff{Base: time.Millisecond, Max: time.Millisecond, Attempts: 3}, RetryEvery: time.Millisecond}
		},
	}
	for _, c := range change {
		c(&opts)
	}
	return &server{engine.New(opts), db, f}, nil
}

func (at place) open(t *testing.T, change ...func(*engine.Options)) *server {
	t.Helper()
	s, err := open(at, change...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.db.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func project(id string) sandbox.Owner {
	return sandbox.Owner{Tenant: "default", Kind: sandbox.OwnerProject, ID: id}
}

func (s *server) ensure(t *testing.T, owner sandbox.Owner) sandbox.Sandbox {
	t.Helper()
	got, _, err := s.Ensure(t.Context(), engine.Request{Owner: owner, Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// creates counts the creates that were sent to the driver, in its own log.
func (s *server) creates(t *testing.T) int {
	t.Helper()
	calls, err := s.fake.Log()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range calls {
		if c.Op == fake.Create {
			n++
		}
	}
	return n
}

// live is what the driver has, by sandbox.
func (s *server) live(t *testing.T) map[string][]driver.ID {
	t.Helper()
	all, err := s.fake.Live()
	if err != nil {
		t.Fatal(err)
	}
	by := map[string][]driver.ID{}
	for _, st := range all {
		by[st.Key.Sandbox] = append(by[st.Key.Sandbox], st.ID)
	}
	return by
}

// one fails unless the driver has just the instance that the row names.
func (s *server) one(t *testing.T, sb sandbox.Sandbox) {
	t.Helper()
	ids := s.live(t)[sb.ID]
	if len(ids) != 1 || string(ids[0]) != string(sb.Instance) {
		t.Errorf("sandbox %s is %s with instance %q, the driver has %v", sb.ID, sb.State, sb.Instance, ids)
	}
}

// reconcile passes until the driver and the rows are as want says.
func (s *server) reconcile(t *testing.T, want func() error) {
	t.Helper()
	testkit.Eventually(t, 30*time.Second, func() error {
		if _, err := s.Reconcile(t.Context()); err != nil {
			return err
		}
		return want()
	})
}

// row reads the owner's sandbox.
func (s *server) row(t *testing.T, o sandbox.Owner) sandbox.Sandbox {
	t.Helper()
	sb, err := s.db.In("default").ByOwner(t.Context(), o.Kind, o.ID)
	if err != nil {
		t.Fatal(err)
	}
	return sb
}
