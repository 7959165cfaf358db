package store_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

var (
	soon = time.Now().Add(time.Hour)
	past = time.Now().Add(-time.Hour)
)

func TestReservationIsOnePlaceUntilItIsFreed(t *testing.T) {
	testkit.Proves(t, "E6")
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		reserve := func(ref string, until time.Time) error {
			return s.Reservations().Reserve(t.Context(), store.QuotaTurns, ref, 2, until)
		}
		noError(t, reserve("a", soon))
		noError(t, reserve("a", soon.Add(time.Hour))) // the same place, for longer
		wantUsed(t, s, store.QuotaTurns, 1)
		noError(t, reserve("b", soon))
		err := reserve("c", soon)
		wantCode(t, err, api.CodeQuotaExceeded)
		if !strings.Contains(err.Error(), "may have 2 turns") {
			t.Errorf("refused with %q", err)
		}
		noError(t, reserve("b", soon)) // also at the cap
		noError(t, db.In("rival").Reservations().Reserve(t.Context(), store.QuotaTurns, "a", 2, soon))
		noError(t, s.Reservations().Reserve(t.Context(), store.QuotaSandboxes, "a", 2, soon)) // another kind
		wantUsed(t, s, store.QuotaTurns, 2)
		for range 2 {
			noError(t, s.Reservations().Free(t.Context(), store.QuotaTurns, "a"))
			wantUsed(t, s, store.QuotaTurns, 1)
		}
		noError(t, s.Reservations().Free(t.Context(), store.QuotaTurns, "never reserved"))
		noError(t, db.In("nobody").Reservations().Free(t.Context(), store.QuotaTurns, "a"))
		wantUsed(t, db.In("nobody"), store.QuotaTurns, 0)
		wantUsed(t, db.In("rival"), store.QuotaTurns, 1)
		noError(t, reserve("c", soon))
		noError(t, s.Reservations().Reserve(t.Context(), store.QuotaTurns, "d", 0, soon)) // no cap
		wantUsed(t, s, store.QuotaTurns, 3)
	})
}

func TestExpiredReservationsAreGivenBack(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		for _, tenant := range []store.TenantID{"acme", "rival"} {
			for _, ref := range names(3, "past") {
				noError(t, db.In(tenant).Reservations().Reserve(t.Context(), store.QuotaTurns, ref, 0, past))
			}
			noError(t, db.In(tenant).Reservations().Reserve(t.Context(), store.QuotaTurns, "soon", 0, soon))
			noError(t, db.In(tenant).Reservations().Reserve(t.Context(), store.QuotaTurns, "past-000", 0, soon)) // prolonged after its end
		}
		for _, want := range []int64{3, 1, 0} {
			if n, err := db.ExpireReservations(t.Context(), 3); err != nil || n != want {
				t.Errorf("gave back %d (%v), want %d", n, err, want)
			}
		}
		wantUsed(t, db.In("acme"), store.QuotaTurns, 2)
		wantUsed(t, db.In("rival"), store.QuotaTurns, 2)
	})
}

// Nobody is kept out by those who left without a word, not even until the next sweep.
func TestFullQuotaMakesRoomOfWhatHasRunOut(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s, rival := db.In(acme), db.In("rival")
		for _, ref := range []string{"a", "b"} {
			noError(t, s.Reservations().Reserve(t.Context(), store.QuotaTurns, ref, 2, past))
			noError(t, rival.Reservations().Reserve(t.Context(), store.QuotaTurns, ref, 2, past))
		}
		noError(t, s.Reservations().Reserve(t.Context(), store.QuotaTurns, "c", 2, soon))
		noError(t, s.Reservations().Reserve(t.Context(), store.QuotaTurns, "d", 2, soon))
		wantCode(t, s.Reservations().Reserve(t.Context(), store.QuotaTurns, "e", 2, soon), api.CodeQuotaExceeded)
		wantUsed(t, s, store.QuotaTurns, 2)
		wantUsed(t, rival, store.QuotaTurns, 2)
	})
}

func TestRacersNeverReserveMoreThanTheCap(t *testing.T) {
	testkit.Proves(t, "E6")
	onBoth(t, func(t *testing.T, h harness) {
		dbs := h.replicas(t, 2)
		var held, most atomic.Int64
		racers := testkit.Size(t, "quota.racers")
		race(racers, func(i int) {
			s, ref := dbs[i%2].In(acme), fmt.Sprint("turn-", i/2) // two racers for each
			err := s.Reservations().Reserve(t.Context(), store.QuotaTurns, ref, 10, soon)
			if err != nil {
				if !expected(err) {
					t.Error(err)
				}
				return
			}
			if i%2 == 0 {
				most.Store(max(most.Load(), held.Add(1)))
			}
		})
		used, err := dbs[0].In(acme).Reservations().QuotaUsed(t.Context(), store.QuotaTurns)
		noError(t, err)
		if used != 10 || most.Load() > 10 {
			t.Errorf("%d places are taken, %d had one at once, want 10", used, most.Load())
		}
		race(racers, func(i int) {
			if err := dbs[i%2].In(acme).Reservations().Free(t.Context(), store.QuotaTurns, fmt.Sprint("turn-", i/2)); err != nil {
				t.Error(err)
			}
		})
		wantUsed(t, dbs[0].In(acme), store.QuotaTurns, 0)
	})
}

// Reserving, freeing and expiring of the same places in every order: whoever was told that it has a
// place has it, and in the end the count is what is there.
func TestPlacesSurviveAnyRace(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		dbs := h.replicas(t, 2)
		steps := testkit.Size(t, "quota.steps") / 4
		race(10, func(i int) {
			for n := range steps {
				s := dbs[i%2].In(store.TenantID(fmt.Sprint("tenant-", rand.IntN(6))))
				shared := fmt.Sprint("shared-", rand.IntN(3))
				var err error
				switch (i + n) % 5 {
				case 0:
					err = s.Reservations().Reserve(t.Context(), store.QuotaTurns, shared, 0, past)
				case 1:
					err = s.Reservations().Free(t.Context(), store.QuotaTurns, shared)
				case 2:
					_, err = dbs[i%2].ExpireReservations(t.Context(), 1+rand.IntN(30))
				case 3:
					own := fmt.Sprint("own-", i)
					if err = s.Reservations().Reserve(t.Context(), store.QuotaTurns, own, 0, soon); err == nil {
						err = s.Reservations().Free(t.Context(), store.QuotaTurns, own)
					}
				case 4:
					err = s.Reservations().Reserve(t.Context(), store.QuotaTurns, shared, 2, past) // expires others' to make room
				}
				if err != nil && !expected(err) {
					t.Error(err)
				}
			}
		})
		raw := h.rawDB(t)
		var wrong int
		noError(t, raw.QueryRow(`
			select count(*) from quotas where used <>
				(select count(*) from reservations r where r.tenant = quotas.tenant and r.kind = quotas.kind)`).Scan(&wrong))
		if wrong > 0 {
			t.Errorf("%d counts are wrong", wrong)
		}
	})
}

// A reservation that is prolonged while it ends is there afterwards: whoever was told so has a place.
func TestProlongingBeatsTheSweep(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		dbs := h.replicas(t, 2)
		for _, ref := range names(testkit.Size(t, "quota.steps")/4, "turn") {
			s := dbs[0].In(acme)
			noError(t, s.Reservations().Reserve(t.Context(), store.QuotaTurns, ref, 0, past))
			race(4, func(i int) {
				var err error
				if i == 0 {
					err = s.Reservations().Reserve(t.Context(), store.QuotaTurns, ref, 0, soon)
				} else {
					_, err = dbs[i%2].ExpireReservations(t.Context(), 10)
				}
				if err != nil {
					t.Error(err)
				}
			})
			wantUsed(t, s, store.QuotaTurns, 1)
			noError(t, s.Reservations().Free(t.Context(), store.QuotaTurns, ref))
			wantUsed(t, s, store.QuotaTurns, 0)
		}
	})
}

// Sweeps that meet at the counts of many tenants wait for each other in one order.
func TestSweepsOfManyTenantsDoNotDeadlock(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		dbs := h.replicas(t, 2)
		raw := h.rawDB(t)
		for range testkit.Size(t, "quota.steps") / 20 {
			for _, statement := range h.reservations(400, 40) {
				_, err := raw.Exec(statement)
				noError(t, err)
			}
			race(8, func(i int) {
				if _, err := dbs[i%2].ExpireReservations(t.Context(), 50); err != nil {
					t.Error(err)
				}
			})
			_, err := dbs[0].ExpireReservations(t.Context(), 1000)
			noError(t, err)
			var left int
			noError(t, raw.QueryRow(`select coalesce(sum(used), 0) from quotas`).Scan(&left))
			if left != 0 {
				t.Fatalf("%d places are counted, none is there", left)
			}
		}
	})
}

// reservations are statements that make so many, which have run out in a random order, of so many tenants.
func (h harness) reservations(n, tenants int) []string {
	until, from := `cast(abs(random() % 1000000) as integer)`, fmt.Sprintf(`(with recursive n(i) as (select 1 union all select i + 1 from n where i < %d) select i from n)`, n)
	if h.engine == "postgres" {
		until, from = `to_timestamp(random() * 1000000)`, fmt.Sprintf(`generate_series(1, %d) as n(i)`, n)
	}
	return []string{
		fmt.Sprintf(`insert into reservations (tenant, kind, ref, until) select 'tenant-' || (i %% %d), 'turns', 'turn-' || i, %s from %s`, tenants, until, from),
		`delete from quotas`,
		`insert into quotas (tenant, kind, used, cap) select tenant, kind, count(*), 0 from reservations group by tenant, kind`,
	}
}
