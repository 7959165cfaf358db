package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit/pgtest"
)

func TestMain(m *testing.M) {
	if job := os.Getenv(jobVar); job != "" {
		os.Exit(jobs[job]())
	}
	os.Exit(pgtest.Main(m))
}

// migrated saves every test the migrations; they have tests of their own.
var migrated = pgtest.NewTemplate(func(ctx context.Context, url string) error {
	_, err := store.Migrate(ctx, store.Options{DatabaseURL: url})
	return err
})

// A test waits for a short lease to end; a long one outlasts any test, however busy the machine.
const (
	short = 100 * time.Millisecond
	long  = 10 * time.Minute
)

// harness is one database of one engine.
type harness struct {
	engine string
	opts   store.Options
}

// runs is a test or a benchmark.
type runs[T any] interface {
	testing.TB
	Run(name string, f func(T)) bool
}

// onBoth runs the test on SQLite and on PostgreSQL, each with a database of its own.
func onBoth[T runs[T]](t T, test func(t T, h harness)) {
	t.Run("sqlite", func(t T) {
		test(t, harness{"sqlite", store.Options{DataDir: t.TempDir(), LeaseTTL: long}})
	})
	t.Run("postgres", func(t T) {
		test(t, harness{"postgres", store.Options{DatabaseURL: migrated.New(t).URL, LeaseTTL: long}})
	})
}

// withDB is onBoth for tests that need one open store.
func withDB(t *testing.T, test func(t *testing.T, db *store.DB)) {
	onBoth(t, func(t *testing.T, h harness) { test(t, h.open(t)) })
}

// open opens the database once; replicas opens it as several processes would.
func (h harness) open(t testing.TB) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), h.opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { noError(t, db.Close()) })
	return storetest.Unlock(t, db)
}

// replicas are n stores over one database: n processes on PostgreSQL, n users of the one that
// SQLite allows.
func (h harness) replicas(t *testing.T, n int) []*store.DB {
	t.Helper()
	dbs := []*store.DB{h.open(t)}
	for len(dbs) < n {
		if h.engine == "sqlite" {
			dbs = append(dbs, dbs[0])
		} else {
			dbs = append(dbs, h.open(t))
		}
	}
	return dbs
}

// race runs f n times at once and waits for all.
func race(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

const acme = store.TenantID("acme")

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t testing.TB, err error, code api.Code) {
	t.Helper()
	var e *fault.Error
	if !errors.As(err, &e) {
		t.Fatalf("error is %v, want a fault.Error of code %s", err, code)
	}
	if e.Code != code || e.Op == "" {
		t.Fatalf("error is %q with code %s and op %q, want code %s", err, e.Code, e.Op, code)
	}
}

// intent asks for the sandbox of a conversation, running.
func intent(owner string) store.SandboxRequest {
	return store.SandboxRequest{
		Kind: sandbox.OwnerConversation, Owner: owner, Want: sandbox.WantRunning,
		Spec:   sandbox.Spec{Template: "default", Driver: "fake"},
		Reason: "first use", Actor: "request",
	}
}

func intend(t testing.TB, s store.Scope, in store.SandboxRequest) sandbox.Sandbox {
	t.Helper()
	sb, _, err := s.RequestSandbox(t.Context(), in)
	noError(t, err)
	return sb
}

func lease(t testing.TB, db *store.DB, id, holder string) store.Grant {
	t.Helper()
	g, err := db.Leases().Lease(t.Context(), store.LeaseSandbox, id, holder)
	noError(t, err)
	if !g.OK {
		t.Fatalf("lease of %s not granted: held by %q until %v", id, g.Lease.Holder, g.Lease.Until)
	}
	return g
}

// commit applies one event under the lease, planned on Want running.
func commit(t testing.TB, db *store.DB, l store.Lease, c sandbox.Change) sandbox.Sandbox {
	t.Helper()
	sb, err := db.Commit(t.Context(), l, c, store.Due{Want: sandbox.WantRunning})
	noError(t, err)
	return sb
}

// end records that nothing is left of a deleted sandbox.
func end(t testing.TB, db *store.DB, id string) sandbox.Sandbox {
	t.Helper()
	g := lease(t, db, id, "ender")
	commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventEnd})
	sb := commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventEnded})
	noError(t, db.Leases().Release(t.Context(), g.Lease))
	return sb
}

func near(t testing.TB, what string, got, want time.Time) {
	t.Helper()
	if d := got.Sub(want); d.Abs() > 30*time.Second {
		t.Errorf("%s is %v, want about %v", what, got, want)
	}
}

func names(n int, prefix string) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s-%03d", prefix, i))
	}
	return out
}
