package store_test

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/pgtest"
)

func TestDatabaseThatCannotBeReachedSaysWhatToCheck(t *testing.T) {
	real, err := url.Parse(pgtest.New(t).URL)
	noError(t, err)
	nobody := testkit.RefusingAddress(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	noError(t, err)
	defer silent.Close()
	change := func(f func(u *url.URL)) string {
		u := *real
		f(&u)
		return u.String()
	}
	const secret = "sesame-2"
	cases := []struct {
		name, url string
		code      api.Code
		words     []string // in the message
		hint      string
	}{
		{"nobody listens", "postgres://ann:" + secret + "@" + nobody + "/berth", api.CodeStoreUnavailable,
			[]string{nobody, `"berth"`, `"ann"`, "connection refused"}, "Start PostgreSQL"},
		{"no socket", "postgres://ann:" + secret + "@/berth?host=" + t.TempDir(), api.CodeStoreUnavailable,
			[]string{"port 5432", "no such socket"}, "Start PostgreSQL"},
		{"no answer", "postgres://ann:" + secret + "@" + silent.Addr().String() + "/berth?connect_timeout=1", api.CodeStoreUnavailable,
			[]string{"no answer in time"}, "firewall"},
		{"wrong password", change(func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), secret) }), api.CodeInvalidConfig,
			[]string{real.Host, "password refused"}, "password"},
		{"no such database", change(func(u *url.URL) { u.Path = "/elsewhere" }), api.CodeInvalidConfig,
			[]string{`"elsewhere"`, "no such database"}, "createdb"},
		{"no TLS there", change(func(u *url.URL) { u.RawQuery = "sslmode=require" }), api.CodeStoreUnavailable,
			[]string{"TLS"}, "sslmode"},
		{"not a URL", "postgres://ann:" + secret + "@[::1/berth", api.CodeInvalidConfig, nil, "percent-encoded"},
		{"bad port", "postgres://ann:" + secret + "@h:port/berth", api.CodeInvalidConfig, nil, "percent-encoded"},
		{"bad pool size", change(func(u *url.URL) { u.RawQuery += "&pool_max_conns=1" }), api.CodeInvalidConfig,
			[]string{"pool_max_conns"}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			begin := time.Now()
			_, err := store.Open(t.Context(), store.Options{DatabaseURL: c.url})
			wantCode(t, err, c.code)
			var e *fault.Error
			errors.As(err, &e)
			for _, word := range c.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q lacks %q", err, word)
				}
			}
			if !strings.Contains(e.Hint, c.hint) {
				t.Errorf("hint %q lacks %q", e.Hint, c.hint)
			}
			password, _ := real.User.Password()
			if said := err.Error() + e.Hint; strings.Contains(said, secret) || strings.Contains(said, password) {
				t.Errorf("the password is in %q", said)
			}
			if took := time.Since(begin); took > 15*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestDatabaseThatGoesAwayComesBack(t *testing.T) {
	cluster, err := pgtest.Start(t.Context(), pgtest.Options{Durable: true})
	noError(t, err)
	t.Cleanup(func() { noError(t, cluster.Close()) })
	h := harness{"postgres", store.Options{DatabaseURL: cluster.URL("") + "&pool_max_conns=4", LeaseTTL: long}}
	db := h.open(t)
	s := db.In(acme)
	sb := intend(t, s, intent("c1"))
	g := lease(t, db, sb.ID, "holder")
	operations := map[string]func() error{
		"ping":   func() error { return db.Ping(t.Context()) },
		"read":   func() error { _, err := s.ByID(t.Context(), sb.ID); return err },
		"intend": func() error { _, _, err := s.RequestSandbox(t.Context(), intent("c1")); return err },
		"renew":  func() error { return db.Leases().Renew(t.Context(), g.Lease) },
		"due":    func() error { _, err := db.Due(t.Context(), "", 1); return err },
	}
	for _, stop := range []func() error{cluster.Stop, cluster.Kill} {
		noError(t, stop())
		for name, op := range operations {
			err := op()
			wantCode(t, err, api.CodeStoreUnavailable)
			var e *fault.Error
			if errors.As(err, &e); !e.Retry {
				t.Errorf("%s: %q may not be tried again", name, err)
			}
		}
		noError(t, cluster.Start(t.Context()))
		for _, op := range operations {
			testkit.Eventually(t, 30*time.Second, op)
		}
	}
	commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventBegin}) // the lease outlived both
}

func TestWriterBlockedByAStrangerGivesUp(t *testing.T) {
	h := harness{"sqlite", store.Options{DataDir: t.TempDir()}}
	db := h.open(t)
	stranger, err := h.rawDB(t).Conn(t.Context())
	noError(t, err)
	_, err = stranger.ExecContext(t.Context(), `begin immediate`)
	noError(t, err)
	_, _, err = db.In(acme).RequestSandbox(t.Context(), intent("c1"))
	wantCode(t, err, api.CodeStoreUnavailable)
	_, err = db.In(acme).ByOwner(t.Context(), sandbox.OwnerConversation, "c1") // readers go on
	wantCode(t, err, api.CodeNotFound)
	_, err = stranger.ExecContext(t.Context(), `rollback`)
	noError(t, err)
	intend(t, db.In(acme), intent("c1"))
}

func TestStoreWorksBehindATransactionPooler(t *testing.T) {
	for _, mode := range []string{"exec", "simple_protocol", "cache_describe"} {
		t.Run(mode, func(t *testing.T) {
			url := migrated.New(t).URL + "&default_query_exec_mode=" + mode
			h := harness{"postgres", store.Options{DatabaseURL: url, LeaseTTL: long}}
			db := h.open(t)
			s, _ := tenants(t, db)
			in := intent("c1")
			in.Spec.Env = map[string]string{"A": "it's $1 and \\ too"}
			sb := intend(t, s, in)
			g := lease(t, db, sb.ID, "holder")
			due := store.Due{At: time.Now().Add(time.Hour), Want: sandbox.WantRunning}
			_, err := db.Commit(t.Context(), g.Lease, sandbox.Change{Event: sandbox.EventBegin}, due)
			noError(t, err)
			noError(t, db.SetDue(t.Context(), g.Lease, due, time.Now()))
			noError(t, db.Leases().Renew(t.Context(), g.Lease))
			noError(t, db.Holds().Hold(t.Context(), sb.ID, "turn", "1", time.Now()))
			noError(t, db.Leases().Release(t.Context(), g.Lease))
			if got := walk(t, s, store.Filter{State: sandbox.Creating}, 1); len(got) != 1 {
				t.Errorf("listed %v", got)
			}
			_, err = s.Keys().Create(t.Context(), store.Key{}, hashOf("secret"))
			noError(t, err)
			_, err = db.APIKeys().ByHash(t.Context(), hashOf("secret"))
			noError(t, err)
			noError(t, s.Requests().Finish(t.Context(), claim(t, s, claimOf("k1"), store.ClaimFresh), store.Answer{Status: 201, Body: []byte{0xff}}))
			claim(t, s, claimOf("k1"), store.ClaimDone)
			noError(t, s.Outgoing().Enqueue(t.Context(), store.Message{Kind: "webhook", Payload: []byte{0xff}}))
			claimed, err := db.Outbox().ClaimMessages(t.Context(), store.Claiming{Kind: "webhook", Limit: 1, TTL: long})
			noError(t, err)
			noError(t, db.Outbox().RemoveMessage(t.Context(), claimed[0]))
			_, err = s.Delete(t.Context(), sb.ID, false, "unwanted", "request")
			noError(t, err)
			if got := dueIDs(t, db, "", 1); len(got) != 1 {
				t.Errorf("due %v", got)
			}
		})
	}
}
