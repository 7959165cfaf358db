package store_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

func dueIDs(t testing.TB, db *store.DB, host string, limit int) []string {
	t.Helper()
	due, err := db.Due(t.Context(), host, limit)
	noError(t, err)
	var ids []string
	for _, sb := range due {
		ids = append(ids, sb.ID)
	}
	return ids
}

func TestReplicasShareWhatIsDue(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		dbs := h.replicas(t, 4)
		for _, owner := range names(100, "owner") {
			intend(t, dbs[0].In(acme), intent(owner))
		}
		var mu sync.Mutex
		claims := map[string]int{}
		race(4, func(i int) {
			for range 10 {
				due, err := dbs[i].Due(t.Context(), "", 7)
				if err != nil {
					t.Error(err)
				}
				if len(due) > 7 {
					t.Errorf("asked for 7, got %d", len(due))
				}
				mu.Lock()
				for _, sb := range due {
					claims[sb.ID]++
				}
				mu.Unlock()
			}
		})
		for id, n := range claims {
			if n != 1 {
				t.Errorf("%s was claimed %d times", id, n)
			}
		}
		if rest := dueIDs(t, dbs[0], "", 1000); len(claims)+len(rest) != 100 {
			t.Errorf("%d claimed, %d left of 100", len(claims), len(rest))
		}
	})
}

func TestDueTakesTheLongestDueFirst(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		var ids []string
		for _, owner := range names(6, "owner") {
			ids = append(ids, intend(t, db.In(acme), intent(owner)).ID)
		}
		for len(ids) > 0 {
			got := dueIDs(t, db, "", 2)
			slices.Sort(got) // ids are made in order
			if !slices.Equal(got, ids[:2]) {
				t.Fatalf("claimed %v, want %v", got, ids[:2])
			}
			ids = ids[2:]
		}
	})
}

func TestDueLeavesOutWhatIsHeldElsewhereOrLater(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		pinned := func(owner, host string) sandbox.Sandbox {
			in := intent(owner)
			in.Host = host
			return intend(t, s, in)
		}
		plain, here := pinned("plain", ""), pinned("here", "north")
		pinned("elsewhere", "south")
		held := lease(t, db, pinned("held", "").ID, "holder")
		for owner, at := range map[string]time.Time{"later": time.Now().Add(time.Hour), "never": {}} {
			g := lease(t, db, pinned(owner, "").ID, "holder")
			noError(t, db.SetDue(t.Context(), g.Lease, store.Due{At: at, Want: sandbox.WantRunning}, time.Time{}))
			noError(t, db.Leases().Release(t.Context(), g.Lease))
		}
		want := []string{plain.ID, here.ID}
		slices.Sort(want)
		got := dueIDs(t, db, "north", 0)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("due here: %v, want %v", got, want)
		}
		noError(t, db.Leases().Release(t.Context(), held.Lease))
		if got := dueIDs(t, db, "north", 0); !slices.Equal(got, []string{held.Sandbox.ID}) {
			t.Errorf("due after the release: %v", got)
		}
	})
}

func TestClaimOfADeadReplicaIsDueAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		h.opts.LeaseTTL = short
		db := h.open(t)
		sb := intend(t, db.In(acme), intent("c1"))
		if got := dueIDs(t, db, "", 0); !slices.Equal(got, []string{sb.ID}) {
			t.Fatalf("due: %v", got)
		}
		testkit.Eventually(t, 30*time.Second, func() error {
			if got := dueIDs(t, db, "", 0); len(got) == 0 {
				return errors.New("not due yet")
			}
			return nil
		})
	})
}

func TestWishAfterAClaimIsDueAtOnce(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		sb := intend(t, db.In(acme), intent("c1"))
		if got := dueIDs(t, db, "", 0); len(got) != 1 {
			t.Fatalf("due: %v", got)
		}
		if got := dueIDs(t, db, "", 0); len(got) != 0 {
			t.Fatalf("claimed twice: %v", got)
		}
		_, err := db.In(acme).Delete(t.Context(), sb.ID, false, "unwanted", "request")
		noError(t, err)
		if got := dueIDs(t, db, "", 0); len(got) != 1 {
			t.Fatalf("due after the delete: %v", got)
		}
	})
}
