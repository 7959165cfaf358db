package store_test

import (
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

func TestHostsAreSeenAndForgotten(t *testing.T) {
	testkit.Proves(t, "X2")
	onBoth(t, func(t *testing.T, h harness) {
		db := h.open(t)
		pinned := intent("c1")
		pinned.Host = "old"
		intend(t, db.In(acme), pinned)
		for range 2 {
			forgotten, err := db.Hosts().RenewHost(t.Context(), "north", "https://north.example.com", time.Now())
			noError(t, err)
			if forgotten {
				t.Error("a host that nobody forgot is forgotten")
			}
		}
		hosts, err := db.Hosts().List(t.Context())
		noError(t, err)
		if len(hosts) != 2 || hosts[0].Name != "north" || !hosts[0].Alive || hosts[0].AdvertiseURL != "https://north.example.com" ||
			hosts[1].Name != "old" || hosts[1].Alive || !hosts[1].SeenAt.IsZero() || hosts[1].Sandboxes != 1 {
			t.Fatalf("hosts are %+v", hosts)
		}
		near(t, "seen_at", hosts[0].SeenAt, time.Now())
		for _, name := range []string{"north", "old"} { // one runs, one never reported
			_, err = db.Hosts().ForgetHost(t.Context(), name, false)
			wantCode(t, err, api.CodeConflict)
			got, err := db.Hosts().ForgetHost(t.Context(), name, true)
			if err != nil || got.Alive || got.ForgottenAt.IsZero() {
				t.Errorf("forgot %+v, %v", got, err)
			}
		}
		_, err = db.Hosts().ForgetHost(t.Context(), "nowhere", true)
		wantCode(t, err, api.CodeNotFound)
		if forgotten, err := db.Hosts().RenewHost(t.Context(), "north", "", time.Now()); err != nil || !forgotten {
			t.Errorf("a forgotten host is back: %v, %v", forgotten, err)
		}
		noError(t, db.Hosts().ReadmitHost(t.Context(), "north"))
		if got, err := db.Hosts().Host(t.Context(), "north"); err != nil || !got.Alive {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// A turn is left to the machine that has its sandbox as long as that runs.
func TestTurnsAreLeftToTheMachineOfTheirSandbox(t *testing.T) {
	testkit.Proves(t, "X2", "C4")
	onBoth(t, func(t *testing.T, h harness) {
		db := h.open(t)
		c := talk(t, db)
		in := store.SandboxRequest{Kind: sandbox.OwnerConversation, Owner: c.ID, ID: c.Sandbox, Host: "north", Want: sandbox.WantRunning}
		intend(t, db.In(acme), in)
		turn := begin(t, db, asking(c))
		takes := func(host string, want bool) {
			t.Helper()
			unheld, err := db.TurnRuns().ListDue(t.Context(), host, 10)
			noError(t, err)
			if got := len(unheld) == 1; got != want {
				t.Errorf("%s finds %v", host, unheld)
			}
			l, _, ok, err := db.TurnRuns().Take(t.Context(), turn.ID, host, host)
			noError(t, err)
			if ok != want {
				t.Errorf("given to %s: %v", host, ok)
			}
			if ok {
				noError(t, db.Leases().Release(t.Context(), l))
			}
		}
		takes("south", true) // no server of north has ever reported
		noError(t, second(db.Hosts().RenewHost(t.Context(), "north", "", time.Now())))
		takes("south", false)
		takes("north", true)
		noError(t, second(db.Hosts().ForgetHost(t.Context(), "north", true)))
		takes("south", true)
	})
}

// What is unpinned keeps what it was apart from its machine, and an old holder cannot write any more.
func TestUnpinnedSandbox(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		db := h.open(t)
		in := intent("c1")
		in.Host = "north"
		sb := intend(t, db.In(acme), in)
		old := lease(t, db, sb.ID, "north's")
		commit(t, db, old.Lease, sandbox.Change{Event: sandbox.EventBegin})
		commit(t, db, old.Lease, sandbox.Change{Event: sandbox.EventReady, Instance: "i-1"})
		g, err := db.Hosts().Seize(t.Context(), sb.ID, "south's")
		if err != nil || !g.OK || g.Sandbox.Instance != "i-1" {
			t.Fatalf("%+v, %v", g, err)
		}
		wantCode(t, db.Leases().Renew(t.Context(), old.Lease), api.CodeStale)
		_, err = db.Commit(t.Context(), old.Lease, sandbox.Change{Event: sandbox.EventStop}, store.Due{})
		wantCode(t, err, api.CodeStale)
		_, err = db.Hosts().Unpin(t.Context(), old.Lease, "", "")
		wantCode(t, err, api.CodeStale)
		got, err := db.Hosts().Unpin(t.Context(), g.Lease, "its machine was forgotten", "admin")
		noError(t, err)
		if got.Host != "" || got.Instance != "" || got.Left != 1 || got.Incarnation != 1 || got.State != sandbox.Running {
			t.Errorf("%+v", got)
		}
		if on, err := db.Hosts().ListOnHost(t.Context(), "north", "", 10); err != nil || len(on) != 0 {
			t.Errorf("%v, %v", on, err)
		}
		commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventLost})
		if got = commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventBegin, Host: "south"}); got.Host != "south" || got.Incarnation != 2 {
			t.Errorf("reborn as %+v", got)
		}
	})
}
