package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
)

func TestLeaseIsHeldByOne(t *testing.T) {
	testkit.Proves(t, "O2")
	onBoth(t, func(t *testing.T, h harness) {
		dbs := h.replicas(t, 2)
		for _, kind := range []string{store.LeaseSandbox, "turn"} {
			sb := intend(t, dbs[0].In(acme), intent("of "+kind))
			for round := int64(1); round <= 5; round++ {
				var mu sync.Mutex
				var granted []store.Grant
				race(16, func(i int) {
					g, err := dbs[i%2].Leases().Lease(t.Context(), kind, sb.ID, fmt.Sprintf("holder %d", i))
					if err != nil {
						t.Error(err)
						return
					}
					if g.OK {
						mu.Lock()
						defer mu.Unlock()
						granted = append(granted, g)
					}
				})
				if len(granted) != 1 {
					t.Fatalf("%s: %d of 16 hold the lease at once", kind, len(granted))
				}
				if got := granted[0].Lease.Epoch; got != round {
					t.Fatalf("%s: lease taken the %d. time has epoch %d", kind, round, got)
				}
				noError(t, dbs[0].Leases().Release(t.Context(), granted[0].Lease))
			}
		}
	})
}

func TestLeaseMakesItsEpochTheGeneration(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		sb := intend(t, db.In(acme), intent("c1"))
		for epoch := int64(1); epoch <= 3; epoch++ {
			g := lease(t, db, sb.ID, "holder")
			if g.Lease.Epoch != epoch || g.Sandbox.Generation != epoch || g.Sandbox.ID != sb.ID || g.Lease.Holder != "holder" {
				t.Fatalf("grant %d is %+v", epoch, g)
			}
			near(t, "end of the lease", g.Lease.Until, time.Now().Add(db.LeaseTTL()))
			noError(t, db.Leases().Release(t.Context(), g.Lease))
		}
		_, err := db.Leases().Lease(t.Context(), "turn", sb.ID, "another kind") // no sandbox's lease
		noError(t, err)
		after, err := db.Sandbox(t.Context(), sb.ID)
		noError(t, err)
		if after.Generation != 3 {
			t.Errorf("generation is %d after 3 leases", after.Generation)
		}
	})
}

func TestLeaseHeldNamesItsHolder(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		sb := intend(t, db.In(acme), intent("c1"))
		ours := lease(t, db, sb.ID, "one")
		for _, holder := range []string{"one", "two"} { // taken once: the holder itself is refused, too
			g, err := db.Leases().Lease(t.Context(), store.LeaseSandbox, sb.ID, holder)
			noError(t, err)
			if g.OK || g.Lease != ours.Lease {
				t.Errorf("%s got %+v, want to hear of %+v", holder, g, ours.Lease)
			}
		}
		_, err := db.Leases().Lease(t.Context(), store.LeaseSandbox, store.NewID(), "one")
		wantCode(t, err, api.CodeNotFound)
	})
}

func TestExpiredLeaseIsTakenOver(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		h.opts.LeaseTTL = short
		dbs := h.replicas(t, 2)
		sb := intend(t, dbs[0].In(acme), intent("c1"))
		old := lease(t, dbs[0], sb.ID, "one")
		var taken store.Grant
		testkit.Eventually(t, 30*time.Second, func() (err error) {
			taken, err = dbs[1].Leases().Lease(t.Context(), store.LeaseSandbox, sb.ID, "two")
			if err == nil && !taken.OK {
				err = errors.New("still held")
			}
			return err
		})
		if taken.Lease.Epoch != old.Lease.Epoch+1 {
			t.Errorf("epoch went from %d to %d", old.Lease.Epoch, taken.Lease.Epoch)
		}
		wantCode(t, dbs[0].Leases().Renew(t.Context(), old.Lease), api.CodeStale)
		noError(t, dbs[0].Leases().Release(t.Context(), old.Lease)) // ends nobody else's lease
		noError(t, dbs[1].Leases().Renew(t.Context(), taken.Lease))
	})
}

func TestRenewalProlongsUntilTheRelease(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		sb := intend(t, db.In(acme), intent("c1"))
		g := lease(t, db, sb.ID, "one")
		noError(t, db.Leases().Renew(t.Context(), g.Lease))
		other, err := db.Leases().Lease(t.Context(), store.LeaseSandbox, sb.ID, "two")
		noError(t, err)
		if other.OK || !other.Lease.Until.After(g.Lease.Until) || other.Lease.Epoch != g.Lease.Epoch {
			t.Errorf("after the renewal of %+v another got %+v", g.Lease, other)
		}
		noError(t, db.Leases().Release(t.Context(), g.Lease))
		wantCode(t, db.Leases().Renew(t.Context(), g.Lease), api.CodeStale) // a late renewal does not revive it
		lease(t, db, sb.ID, "two")
	})
}

// stalled returns a holder whose lease has been taken by another.
func stalled(t *testing.T, h harness) (db *store.DB, old store.Lease, now store.Grant) {
	db = h.open(t)
	sb := intend(t, db.In(acme), intent("c1"))
	first := lease(t, db, sb.ID, "one")
	commit(t, db, first.Lease, sandbox.Change{Event: sandbox.EventBegin, Actor: "request"})
	testkit.Eventually(t, 30*time.Second, func() (err error) {
		now, err = db.Leases().Lease(t.Context(), store.LeaseSandbox, sb.ID, "two")
		if err == nil && !now.OK {
			err = errors.New("still held")
		}
		return err
	})
	return db, first.Lease, now
}

// What a killed server held is free at once: the lock on the data directory proves that it is gone.
// PostgreSQL has no such proof.
func TestNextServerEndsWhatTheLastOneHeld(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		db, err := store.Open(t.Context(), h.opts)
		noError(t, err)
		noError(t, storetest.UseSecret(t.Context(), db))
		sb := intend(t, db.In(acme), intent("c1"))
		held := lease(t, db, sb.ID, "the dead").Lease
		begun := claim(t, db.In(acme), claimOf("begun"), store.ClaimFresh)
		done := claim(t, db.In(acme), claimOf("done"), store.ClaimFresh)
		noError(t, db.In(acme).Requests().Finish(t.Context(), done, store.Answer{Status: 201}))
		noError(t, db.Close())

		db = h.open(t)
		g, err := db.Leases().Lease(t.Context(), store.LeaseSandbox, sb.ID, "the living")
		noError(t, err)
		if g.OK != (h.engine == "sqlite") || g.OK && g.Lease.Epoch != held.Epoch+1 {
			t.Errorf("the lease: %+v", g)
		}
		claim(t, db.In(acme), claimOf("done"), store.ClaimDone)
		want := store.ClaimInFlight
		if h.engine == "sqlite" {
			want = store.ClaimFresh
		}
		if again := claim(t, db.In(acme), claimOf("begun"), want); g.OK && again.EffectID != begun.EffectID {
			t.Errorf("the effect changed from %s to %s", begun.EffectID, again.EffectID)
		}
	})
}
