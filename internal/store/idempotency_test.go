package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

func claimOf(key string) store.ClaimRequest {
	return store.ClaimRequest{Route: "POST /sandboxes", Key: key, BodyHash: "h1", Holder: "one", TTL: long}
}

func claim(t testing.TB, s store.Scope, r store.ClaimRequest, want store.Outcome) store.Claim {
	t.Helper()
	c, err := s.Requests().Claim(t.Context(), r)
	noError(t, err)
	if c.Outcome != want {
		t.Fatalf("claim of %q is %s, want %s", r.Key, c.Outcome, want)
	}
	return c
}

func TestOneKeyHasOneEffect(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		dbs := h.replicas(t, 2)
		for _, key := range names(20, "key") {
			var mu sync.Mutex
			outcomes := map[store.Outcome]int{}
			race(10, func(i int) {
				r := claimOf(key)
				r.Holder = fmt.Sprint("holder", i)
				s := dbs[i%2].In(acme)
				c, err := s.Requests().Claim(t.Context(), r)
				if err == nil && c.Outcome == store.ClaimFresh {
					err = s.Requests().Finish(t.Context(), c, store.Answer{Status: 201, Body: []byte(r.Holder)})
				}
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				outcomes[c.Outcome]++
			})
			if outcomes[store.ClaimFresh] != 1 || outcomes[store.ClaimMismatch] > 0 {
				t.Errorf("%s: %v", key, outcomes)
			}
		}
	})
}

func TestAnswerIsGivenAgain(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		c := claim(t, s, claimOf("k1"), store.ClaimFresh)
		claim(t, s, claimOf("k1"), store.ClaimInFlight)
		noError(t, s.Requests().Renew(t.Context(), c, long))
		answer := store.Answer{Status: 201, Header: map[string][]string{"Location": {"/x"}}, Body: []byte{0, 0xff, '{'}}
		noError(t, s.Requests().Finish(t.Context(), c, answer))
		again := claim(t, s, claimOf("k1"), store.ClaimDone)
		if diff := cmp.Diff(answer, again.Answer); diff != "" || again.EffectID != c.EffectID {
			t.Errorf("answer (-want +got), effect %s for %s:\n%s", again.EffectID, c.EffectID, diff)
		}
		wantCode(t, s.Requests().Finish(t.Context(), c, store.Answer{Status: 500}), api.CodeStale)
		other := claimOf("k1")
		other.BodyHash = "h2"
		if m := claim(t, s, other, store.ClaimMismatch); m.Answer.Status != 0 || m.EffectID != "" {
			t.Errorf("another body is told %+v", m)
		}
		// The same key on another route or of another tenant is another key.
		route := claimOf("k1")
		route.Route = "POST /keys"
		claim(t, s, route, store.ClaimFresh)
		claim(t, db.In("rival"), claimOf("k1"), store.ClaimFresh)
	})
}

func TestDeadHoldersClaimIsTakenOverWithItsEffect(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		dbs := h.replicas(t, 2)
		dying := claimOf("k1")
		dying.TTL = short
		dead := claim(t, dbs[0].In(acme), dying, store.ClaimFresh)
		s := dbs[1].In(acme)
		var heir store.Claim
		testkit.Eventually(t, 30*time.Second, func() (err error) {
			r := claimOf("k1")
			r.Holder = "two"
			heir, err = s.Requests().Claim(t.Context(), r)
			if err == nil && heir.Outcome != store.ClaimFresh {
				err = errors.New(string(heir.Outcome))
			}
			return err
		})
		if heir.EffectID != dead.EffectID {
			t.Errorf("effect id went from %s to %s", dead.EffectID, heir.EffectID)
		}
		wantCode(t, dbs[0].In(acme).Requests().Finish(t.Context(), dead, store.Answer{Status: 201}), api.CodeStale)
		wantCode(t, dbs[0].In(acme).Requests().Renew(t.Context(), dead, long), api.CodeStale)
		wantCode(t, dbs[0].In(acme).Requests().Release(t.Context(), dead), api.CodeStale)
		noError(t, s.Requests().Finish(t.Context(), heir, store.Answer{Status: 201}))
	})
}

func TestReleasedClaimIsFreshWithTheSameEffect(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		first := claim(t, s, claimOf("k1"), store.ClaimFresh)
		noError(t, s.Requests().Release(t.Context(), first))
		other := claimOf("k1")
		other.BodyHash = "h2"
		claim(t, s, other, store.ClaimMismatch)
		if second := claim(t, s, claimOf("k1"), store.ClaimFresh); second.EffectID != first.EffectID {
			t.Errorf("effect id went from %s to %s", first.EffectID, second.EffectID)
		}
		wantCode(t, s.Requests().Renew(t.Context(), first, long), api.CodeStale)
	})
}

func TestOldKeysExpireUnlessHeld(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		for _, key := range names(3, "done") {
			noError(t, s.Requests().Finish(t.Context(), claim(t, s, claimOf(key), store.ClaimFresh), store.Answer{Status: 200}))
		}
		claim(t, s, claimOf("held"), store.ClaimFresh)
		if n, err := db.ExpireKeys(t.Context(), time.Now().Add(-24*time.Hour), 100); err != nil || n != 0 {
			t.Errorf("%d young keys expired (%v)", n, err)
		}
		for _, want := range []int64{2, 1, 0} {
			if n, err := db.ExpireKeys(t.Context(), time.Now().Add(time.Hour), 2); err != nil || n != want {
				t.Errorf("%d keys expired (%v), want %d", n, err, want)
			}
		}
		claim(t, s, claimOf("held"), store.ClaimInFlight)
		claim(t, s, claimOf("done-000"), store.ClaimFresh)
	})
}
