package store_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// idleIDs lists what nobody used for an hour.
func idleIDs(t testing.TB, s store.Scope, kind sandbox.OwnerKind, limit int) (ids []string) {
	t.Helper()
	found, err := s.ListIdle(t.Context(), kind, time.Hour, limit)
	noError(t, err)
	for _, sb := range found {
		ids = append(ids, sb.ID)
	}
	return ids
}

// unused makes a sandbox's last use so long ago, on either engine.
func (h harness) unused(t testing.TB, id string, since time.Duration) {
	t.Helper()
	var at any = time.Now().Add(-since).UnixMicro()
	if h.engine == "postgres" {
		at = time.Now().Add(-since)
	}
	_, err := h.rawDB(t).Exec(`update sandboxes set active_at = $1 where id = $2`, at, id)
	noError(t, err)
}

func TestIdleAreThoseThatNobodyUsesOrHolds(t *testing.T) {
	testkit.Proves(t, "P2")
	onBoth(t, func(t *testing.T, h harness) {
		db := h.open(t)
		s := db.In(acme)
		make := func(s store.Scope, owner string, kind sandbox.OwnerKind, since time.Duration) string {
			in := intent(owner)
			in.Kind = kind
			id := intend(t, s, in).ID
			h.unused(t, id, since)
			return id
		}
		project := func(owner string, since time.Duration) string {
			return make(s, owner, sandbox.OwnerProject, since)
		}
		hold := func(id string, until time.Time, since time.Duration) {
			noError(t, db.Holds().Hold(t.Context(), id, "terminal", "1", until))
			h.unused(t, id, since) // a hold counts as use
		}
		day := 24 * time.Hour
		newest, oldest, older := project("newest", 2*time.Hour), project("oldest", 3*day), project("older", 2*day)
		project("in use", time.Minute)
		hold(project("held", day), time.Now().Add(time.Hour), day)
		let := project("let go", day)
		hold(let, time.Now().Add(-time.Minute), day)
		gone := project("to be gone", day)
		_, err := s.Terminate(t.Context(), gone, false, "", "")
		noError(t, err)
		h.unused(t, gone, day)
		_, err = s.Delete(t.Context(), project("deleted", day), false, "", "")
		noError(t, err)
		make(db.In("rival"), "theirs", sandbox.OwnerProject, 9*day)
		conversation := make(s, "talk", sandbox.OwnerConversation, 9*day)

		want := []string{oldest, older, let, newest}
		for limit := range 5 {
			if got := idleIDs(t, s, sandbox.OwnerProject, limit); limit > 0 && !slices.Equal(got, want[:limit]) || limit == 0 && !slices.Equal(got, want) {
				t.Errorf("idle, at most %d: %v, want %v", limit, got, want)
			}
		}
		if got := idleIDs(t, s, sandbox.OwnerConversation, 0); !slices.Equal(got, []string{conversation}) {
			t.Errorf("idle conversations: %v", got)
		}
		if got := idleIDs(t, db.In("nobody"), sandbox.OwnerProject, 0); len(got) > 0 {
			t.Errorf("a tenant without sandboxes has idle ones: %v", got)
		}
		intend(t, s, store.SandboxRequest{Kind: sandbox.OwnerProject, Owner: "oldest", Want: sandbox.WantRunning})
		if got := idleIDs(t, s, sandbox.OwnerProject, 0); !slices.Equal(got, want[1:]) {
			t.Errorf("after a use: %v, want %v", got, want[1:])
		}
	})
}

func TestPlacedIsWhatRecordsSayToHave(t *testing.T) {
	testkit.Proves(t, "O8")
	withDB(t, func(t *testing.T, db *store.DB) {
		var want []store.InstanceRecord
		place := func(tenant store.TenantID, owner, driver, host string) store.Grant {
			in := intent(owner)
			in.Spec.Driver, in.Host = driver, host
			g := lease(t, db, intend(t, db.In(tenant), in).ID, "holder")
			commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventBegin})
			commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventReady, Instance: "i-" + sandbox.InstanceID(owner)})
			return g
		}
		expect := func(g store.Grant, owner string, state sandbox.State) {
			want = append(want, store.InstanceRecord{Sandbox: g.Lease.ID, Instance: "i-" + sandbox.InstanceID(owner), State: state})
		}
		expect(place(acme, "here", "fake", "north"), "here", sandbox.Running)
		expect(place("rival", "anywhere", "fake", ""), "anywhere", sandbox.Running)
		place(acme, "elsewhere", "fake", "south")
		place(acme, "other driver", "local", "north")
		intend(t, db.In(acme), intent("never made"))
		ending := place(acme, "ending", "fake", "north")
		_, err := db.In(acme).Delete(t.Context(), ending.Lease.ID, true, "", "")
		noError(t, err)
		commit(t, db, ending.Lease, sandbox.Change{Event: sandbox.EventEnd, Instance: "i-ending"})
		expect(ending, "ending", sandbox.Terminating) // a tombstone has it until it is ended
		ended := place(acme, "ended", "fake", "north")
		commit(t, db, ended.Lease, sandbox.Change{Event: sandbox.EventEnd, Instance: "i-ended"})
		commit(t, db, ended.Lease, sandbox.Change{Event: sandbox.EventEnded})
		slices.SortFunc(want, func(a, b store.InstanceRecord) int { return strings.Compare(a.Sandbox, b.Sandbox) })
		for limit := 1; limit <= 4; limit++ {
			var got []store.InstanceRecord
			for after := ""; ; after = got[len(got)-1].Sandbox {
				page, err := db.ListInstances(t.Context(), "fake", "north", after, limit)
				noError(t, err)
				got = append(got, page...)
				if len(page) < limit {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("in pages of %d: %v, want %v", limit, got, want)
			}
		}
	})
}

func TestInstallationIsOneForAll(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		ids := make(chan string, 16)
		t.Run("racing", func(t *testing.T) { // ends with its stores closed
			dbs := h.replicas(t, 2)
			race(cap(ids), func(i int) {
				id, err := dbs[i%2].Overview().Installation(t.Context())
				if err != nil {
					t.Error(err)
				}
				ids <- id
			})
		})
		close(ids)
		want, err := h.open(t).Overview().Installation(t.Context())
		noError(t, err)
		if want == "" {
			t.Error("the installation has no id")
		}
		for id := range ids {
			if id != want {
				t.Errorf("it was %q, and is %q", id, want)
			}
		}
	})
}
