package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// capped asks for the sandbox of a conversation where the tenant may have so many.
func capped(owner string, cap int64) store.SandboxRequest {
	in := intent(owner)
	in.Cap = cap
	return in
}

// tryIntend returns only whether there was room for it.
func tryIntend(t testing.TB, s store.Scope, in store.SandboxRequest) error {
	t.Helper()
	_, _, err := s.RequestSandbox(t.Context(), in)
	if err != nil {
		wantCode(t, err, api.CodeQuotaExceeded)
	}
	return err
}

// wantUsed compares the count with what is said and, for sandboxes, with what is there.
func wantUsed(t testing.TB, s store.Scope, kind string, want int64) {
	t.Helper()
	used, err := s.Reservations().QuotaUsed(t.Context(), kind)
	noError(t, err)
	if used != want {
		t.Fatalf("%s uses %d %s, want %d", s.Tenant(), used, kind, want)
	}
	if there, err := s.Count(t.Context()); kind == store.QuotaSandboxes && (err != nil || there != want) {
		t.Fatalf("%s has %d sandboxes (%v), want %d", s.Tenant(), there, err, want)
	}
}

func TestRacersNeverMakeMoreThanTheCap(t *testing.T) {
	testkit.Proves(t, "E6")
	const most = 10
	onBoth(t, func(t *testing.T, h harness) {
		dbs := h.replicas(t, 2)
		var made, refused atomic.Int64
		race(testkit.Size(t, "quota.racers"), func(i int) {
			_, fresh, err := dbs[i%2].In(acme).RequestSandbox(t.Context(), capped(fmt.Sprint("owner-", i), most))
			var e *fault.Error
			switch {
			case err == nil && fresh:
				made.Add(1)
			case errors.As(err, &e) && e.Code == api.CodeQuotaExceeded:
				refused.Add(1)
				if !strings.Contains(e.Error(), "may have 10 sandboxes") || !strings.Contains(e.Hint, "raise max_sandboxes_per_tenant") || !strings.Contains(e.Hint, "Delete") {
					t.Errorf("refused with %q, hint %q", e, e.Hint)
				}
			default:
				t.Errorf("fresh %v, %v", fresh, err)
			}
		})
		if made.Load() != most || made.Load()+refused.Load() != int64(testkit.Size(t, "quota.racers")) {
			t.Errorf("%d made and %d refused, want %d made", made.Load(), refused.Load(), most)
		}
		wantUsed(t, dbs[0].In(acme), store.QuotaSandboxes, most)
		intend(t, dbs[0].In("rival"), capped("owner-0", most)) // has room of its own
		wantUsed(t, dbs[0].In("rival"), store.QuotaSandboxes, 1)
	})
}

// One owner's racers are one sandbox, also where there is room for one only.
func TestRacersForOneOwnerCountOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		dbs := h.replicas(t, 2)
		race(16, func(i int) {
			if _, _, err := dbs[i%2].In(acme).RequestSandbox(t.Context(), capped("c1", 1)); err != nil {
				t.Error(err)
			}
		})
		wantUsed(t, dbs[0].In(acme), store.QuotaSandboxes, 1)
	})
}

func TestOwnerThatHasASandboxGetsItAtTheCap(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		sb := intend(t, s, capped("c1", 1))
		if tryIntend(t, s, capped("c2", 1)) == nil {
			t.Fatal("made one more than the cap")
		}
		again, fresh, err := s.RequestSandbox(t.Context(), capped("c1", 1))
		noError(t, err)
		if fresh || again.ID != sb.ID {
			t.Errorf("got %s, fresh %v", again.ID, fresh)
		}
		_, err = s.Terminate(t.Context(), sb.ID, false, "", "")
		noError(t, err)
		if tryIntend(t, s, capped("c2", 1)) == nil {
			t.Error("a terminated sandbox freed its place: its owner could not come back")
		}
	})
}

// Whatever the end of a deleted sandbox waits for, its place is free.
func TestDeleteFreesThePlaceAtOnce(t *testing.T) {
	testkit.Proves(t, "E6")
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		sb := intend(t, s, capped("c1", 1))
		g := lease(t, db, sb.ID, "holder") // that never comes back
		commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventBegin})
		commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventReady, Instance: "i-1"})
		commit(t, db, g.Lease, sandbox.Change{Event: sandbox.EventEnd, Instance: "i-1", Finalizers: []string{"instance"}})
		noError(t, db.RecordFailure(t.Context(), g.Lease, sandbox.Failure{Code: api.CodeDriverRefused, Message: "still starting"}, store.Due{}, time.Time{}))
		if tryIntend(t, s, capped("c1-bis", 1)) == nil {
			t.Fatal("an end under way without a delete freed the place")
		}
		for range 3 { // the place is freed once
			_, err := s.Delete(t.Context(), sb.ID, false, "", "")
			noError(t, err)
			wantUsed(t, s, store.QuotaSandboxes, 0)
		}
		intend(t, s, capped("c2", 1)) // its owner is still taken
		wantUsed(t, s, store.QuotaSandboxes, 1)
	})
}

func TestWhatIsNotMadeIsNotCounted(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		in := intent("c1")
		in.Name, in.ID = "web", store.NewID()
		intend(t, s, in)
		for name, c := range map[string]struct {
			change func(*store.SandboxRequest)
			code   api.Code
		}{
			"name taken": {func(in *store.SandboxRequest) { in.ID = store.NewID() }, api.CodeNameTaken},
			"id taken":   {func(in *store.SandboxRequest) { in.Name = "other" }, api.CodeConflict},
			"no owner":   {func(in *store.SandboxRequest) { in.Owner = "" }, api.CodeInvalidID},
		} {
			t.Run(name, func(t *testing.T) {
				other := in
				other.Owner = "c2"
				c.change(&other)
				_, _, err := s.RequestSandbox(t.Context(), other)
				wantCode(t, err, c.code)
				wantUsed(t, s, store.QuotaSandboxes, 1)
			})
		}
		_, err := db.In("rival").Delete(t.Context(), store.NewID(), false, "", "")
		wantCode(t, err, api.CodeNotFound)
		wantUsed(t, s, store.QuotaSandboxes, 1)
	})
}

func TestCapMayChange(t *testing.T) {
	testkit.Proves(t, "E6")
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		var ids []string
		for _, owner := range names(5, "owner") {
			ids = append(ids, intend(t, s, capped(owner, 0)).ID) // no cap counts and never refuses
		}
		wantUsed(t, s, store.QuotaSandboxes, 5)
		free := func() {
			_, err := s.Delete(t.Context(), ids[0], false, "", "")
			noError(t, err)
			ids = ids[1:]
		}
		for used := int64(5); used >= 3; used-- { // lowered below the use
			if tryIntend(t, s, capped("new", 3)) == nil {
				t.Fatalf("made one more than the 3 there may be, with %d there", used)
			}
			wantUsed(t, s, store.QuotaSandboxes, used)
			free()
		}
		intend(t, s, capped("new", 3))
		if tryIntend(t, s, capped("newer", 3)) == nil {
			t.Error("made a fourth of three")
		}
		intend(t, s, capped("newer", 4)) // raised
		intend(t, s, capped("newest", 0))
		wantUsed(t, s, store.QuotaSandboxes, 5)
	})
}

// Whatever happens in whatever order, by one or by many at once: the count is what is there.
func TestCountIsWhatIsThere(t *testing.T) {
	testkit.Proves(t, "E6")
	onBoth(t, func(t *testing.T, h harness) {
		dbs := h.replicas(t, 2)
		seed := rand.Uint64()
		t.Log("seed", seed)
		steps := testkit.Size(t, "quota.steps")
		tenants := []store.TenantID{"acme", "rival"}
		alone := history{t, rand.New(rand.NewPCG(seed, 0)), dbs}
		for range steps {
			s := alone.step(tenants)
			n, err := s.Count(t.Context())
			noError(t, err)
			wantUsed(t, s, store.QuotaSandboxes, n)
		}
		race(8, func(i int) {
			each := history{t, rand.New(rand.NewPCG(seed, uint64(i+1))), dbs}
			for range steps / 4 {
				each.step(tenants)
			}
		})
		for _, tenant := range tenants {
			n, err := dbs[0].In(tenant).Count(t.Context())
			noError(t, err)
			wantUsed(t, dbs[1].In(tenant), store.QuotaSandboxes, n)
			if n > 6 {
				t.Errorf("%s has %d sandboxes, never more than 6 were allowed", tenant, n)
			}
		}
		if wrong, err := dbs[0].Recount(t.Context()); err != nil || wrong != 0 {
			t.Errorf("counting anew found %d counts wrong (%v)", wrong, err)
		}
	})
}

// history plays random steps that make and delete sandboxes, or fail to.
type history struct {
	t   *testing.T
	rnd *rand.Rand
	dbs []*store.DB
}

func (h history) step(tenants []store.TenantID) store.Scope {
	s := h.dbs[h.rnd.IntN(len(h.dbs))].In(tenants[h.rnd.IntN(len(tenants))])
	owner := fmt.Sprint("owner-", h.rnd.IntN(12))
	var err error
	switch known, id := h.any(s); h.rnd.IntN(8) {
	case 0, 1, 2:
		in := capped(owner, int64(4+h.rnd.IntN(3)))
		if h.rnd.IntN(4) == 0 {
			in.Name = fmt.Sprint("name-", h.rnd.IntN(3))
		}
		if h.rnd.IntN(6) == 0 && known {
			in.ID = id
		}
		_, _, err = s.RequestSandbox(h.t.Context(), in)
	case 3, 4, 5:
		if _, err = s.Delete(h.t.Context(), id, h.rnd.IntN(2) == 0, "", ""); err == nil && h.rnd.IntN(4) > 0 {
			h.end(id)
		}
	case 6:
		_, err = s.Terminate(h.t.Context(), id, h.rnd.IntN(2) == 0, "", "")
	case 7:
		_, err = s.Want(h.t.Context(), id, sandbox.WantRunning, "", "")
	}
	if err != nil && !expected(err) {
		h.t.Error(err)
	}
	return s
}

// end frees the owner of a deleted sandbox, unless another step does so at the same time.
func (h history) end(id string) {
	db := h.dbs[h.rnd.IntN(len(h.dbs))]
	g, err := db.Leases().Lease(h.t.Context(), store.LeaseSandbox, id, store.NewID())
	for _, event := range []sandbox.Event{sandbox.EventEnd, sandbox.EventEnded} {
		if err == nil && g.OK && g.Sandbox.State != sandbox.Terminated {
			_, err = db.Commit(h.t.Context(), g.Lease, sandbox.Change{Event: event}, store.Due{})
		}
	}
	if g.OK {
		err = errors.Join(err, db.Leases().Release(h.t.Context(), g.Lease))
	}
	if err != nil {
		h.t.Error(err)
	}
}

// any is a sandbox of the tenant's, a tombstone more often than not.
func (h history) any(s store.Scope) (known bool, id string) {
	items, _, err := s.Sandboxes(h.t.Context(), store.Filter{IncludeDeleted: true}, store.Page{Limit: 20})
	if err != nil {
		h.t.Error(err)
	}
	if len(items) == 0 {
		return false, store.NewID()
	}
	return true, items[h.rnd.IntN(len(items))].ID
}

func expected(err error) bool {
	var e *fault.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case api.CodeQuotaExceeded, api.CodeNameTaken, api.CodeConflict, api.CodeDeleted, api.CodeDeleting, api.CodeNotFound:
		return true
	}
	return false
}

func TestRecountMendsWhatOthersDidNotCount(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		db := h.open(t)
		for _, owner := range names(3, "owner") {
			intend(t, db.In(acme), capped(owner, 3))
		}
		intend(t, db.In("rival"), intent("c1"))
		raw := h.rawDB(t)
		for _, statement := range []string{
			`update quotas set used = 1 where tenant = 'acme'`, // three made, two of them by a server that does not count
			`update quotas set used = 9 where tenant = 'rival'`,
			`insert into quotas (tenant, kind, used, cap) values ('idle', 'sandboxes', 4, 4)`,
		} {
			_, err := raw.Exec(statement)
			noError(t, err)
		}
		intend(t, db.In("new"), intent("c1"))
		_, err := raw.Exec(`delete from quotas where tenant = 'new'`)
		noError(t, err)
		for _, want := range []int64{4, 0} {
			if wrong, err := db.Recount(t.Context()); err != nil || wrong != want {
				t.Errorf("%d counts were wrong (%v), want %d", wrong, err, want)
			}
		}
		for tenant, want := range map[store.TenantID]int64{acme: 3, "rival": 1, "idle": 0, "new": 1} {
			wantUsed(t, db.In(tenant), store.QuotaSandboxes, want)
		}
		if tryIntend(t, db.In(acme), capped("more", 3)) == nil {
			t.Error("made a fourth of three")
		}
	})
}

// Makers go on while it is counted anew.
func TestRecountDisturbsNobody(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		dbs := h.replicas(t, 2)
		race(9, func(i int) {
			if i == 8 {
				for range 20 {
					if wrong, err := dbs[0].Recount(t.Context()); err != nil || wrong != 0 {
						t.Errorf("%d counts were wrong (%v)", wrong, err)
					}
				}
				return
			}
			for n := range 20 {
				s := dbs[i%2].In(acme)
				sb, _, err := s.RequestSandbox(t.Context(), capped(fmt.Sprint("owner-", i, "-", n), 1000))
				if err == nil && n%2 == 0 {
					_, err = s.Delete(t.Context(), sb.ID, false, "", "")
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
		wantUsed(t, dbs[0].In(acme), store.QuotaSandboxes, 80)
	})
}
