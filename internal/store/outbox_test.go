package store_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

func TestMessagesAreClaimedByOne(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		dbs := h.replicas(t, 2)
		s := dbs[0].In(acme)
		for _, id := range names(40, "m") {
			noError(t, s.Outgoing().Enqueue(t.Context(), store.Message{ID: id, Kind: "webhook", Payload: []byte(id)}))
			noError(t, s.Outgoing().Enqueue(t.Context(), store.Message{ID: id, Kind: "webhook"})) // the same again
		}
		var mu sync.Mutex
		got := map[string]int{}
		race(4, func(i int) {
			for range 10 {
				claimed, err := dbs[i%2].Outbox().ClaimMessages(t.Context(), store.Claiming{Kind: "webhook", Limit: 3, TTL: long})
				if err != nil {
					t.Error(err)
				}
				for _, m := range claimed {
					if string(m.Payload) != m.ID || m.Tenant != acme || m.Kind != "webhook" || m.Attempts != 1 {
						t.Errorf("message is %+v", m)
					}
					mu.Lock()
					got[m.ID]++
					mu.Unlock()
					if err := dbs[i%2].Outbox().RemoveMessage(t.Context(), m); err != nil {
						t.Error(err)
					}
				}
			}
		})
		rest, _, err := s.Outgoing().List(t.Context(), store.Page{})
		noError(t, err)
		if len(got)+len(rest) != 40 {
			t.Errorf("%d delivered and %d left of 40", len(got), len(rest))
		}
		for id, n := range got {
			if n != 1 {
				t.Errorf("%s was claimed %d times", id, n)
			}
		}
	})
}

func TestMessageOfADeadClaimerIsClaimedAgain(t *testing.T) {
	testkit.Proves(t, "H5")
	withDB(t, func(t *testing.T, db *store.DB) {
		noError(t, db.In(acme).Outgoing().Enqueue(t.Context(), store.Message{Kind: "webhook"}))
		dead, err := db.Outbox().ClaimMessages(t.Context(), store.Claiming{Kind: "webhook", TTL: short})
		noError(t, err)
		var heir []store.Message
		testkit.Eventually(t, 30*time.Second, func() (err error) {
			heir, err = db.Outbox().ClaimMessages(t.Context(), store.Claiming{Kind: "webhook", TTL: long})
			if err == nil && len(heir) == 0 {
				err = errors.New("still claimed")
			}
			return err
		})
		if heir[0].ID != dead[0].ID || heir[0].Attempts != 2 {
			t.Errorf("claimed %+v after %+v", heir[0], dead[0])
		}
		wantCode(t, db.Outbox().RemoveMessage(t.Context(), dead[0]), api.CodeStale)
		wantCode(t, db.Outbox().Retry(t.Context(), dead[0], 0, "late"), api.CodeStale)
		noError(t, db.Outbox().RemoveMessage(t.Context(), heir[0]))
	})
}

func TestFailedDeliveryIsRetriedAndVisible(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		noError(t, s.Outgoing().Enqueue(t.Context(), store.Message{Kind: "webhook"}))
		claimed, err := db.Outbox().ClaimMessages(t.Context(), store.Claiming{Kind: "webhook", TTL: long})
		noError(t, err)
		noError(t, db.Outbox().Retry(t.Context(), claimed[0], time.Hour, "refused\x00"))
		if again, err := db.Outbox().ClaimMessages(t.Context(), store.Claiming{Kind: "webhook", TTL: long}); err != nil || len(again) > 0 {
			t.Errorf("claimed before its time: %v, %v", again, err)
		}
		rest, _, err := s.Outgoing().List(t.Context(), store.Page{})
		noError(t, err)
		if len(rest) != 1 || rest[0].LastError != "refused\uFFFD" || rest[0].Attempts != 1 {
			t.Fatalf("undelivered: %+v", rest)
		}
		near(t, "next delivery", rest[0].DueAt, time.Now().Add(time.Hour))
		noError(t, db.Outbox().Retry(t.Context(), claimed[0], -time.Second, "refused"))
		again, err := db.Outbox().ClaimMessages(t.Context(), store.Claiming{Kind: "webhook", TTL: long})
		noError(t, err)
		if len(again) != 1 || again[0].Attempts != 2 {
			t.Errorf("retried: %+v", again)
		}
	})
}

// A conversation's messages are claimed in the order of their making, due or not, and nobody else's with them.
func TestMessagesAboutOneThingAreClaimedTogether(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		for i, id := range names(6, "m") {
			noError(t, s.Outgoing().Enqueue(t.Context(), store.Message{ID: id, Kind: []string{"message", "webhook"}[i%2], Ref: []string{"a", "b"}[i/4]}))
		}
		claim := store.Claiming{Kind: "message", Ref: "a", TTL: long}
		for attempt := range int64(3) { // a claim of everything that is about it does not wait for its time
			claimed, err := db.Outbox().ClaimMessages(t.Context(), claim)
			noError(t, err)
			if len(claimed) != 2 || claimed[0].ID != "m-000" || claimed[1].ID != "m-002" || claimed[0].Ref != "a" || claimed[1].Attempts != attempt+1 {
				t.Fatalf("claimed %+v", claimed)
			}
			noError(t, db.Outbox().Retry(t.Context(), claimed[1], time.Hour, "no luck"))
		}
		if n, why, err := s.Outgoing().Count(t.Context(), "a"); err != nil || n != 4 || why != "no luck" {
			t.Errorf("%d wait, %q, %v", n, why, err)
		}
		if n, why, err := db.In("other").Outgoing().Count(t.Context(), "a"); err != nil || n != 0 || why != "" {
			t.Errorf("%d wait, %q, %v", n, why, err)
		}
	})
}
