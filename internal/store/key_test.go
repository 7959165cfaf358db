package store_test

import (
	"testing"
	"time"

	"github.com/berthdev/berth/internal/store"
)

func TestOtherKeysOfALabelAreRevoked(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s, rival := tenants(t, db)
		keep, err := s.Keys().Create(t.Context(), store.Key{Label: "mine"}, hashOf("kept"))
		noError(t, err)
		for secret, of := range map[string]struct {
			scope store.Scope
			key   store.Key
		}{
			"old":       {s, store.Key{Label: "mine"}},
			"other":     {s, store.Key{Label: "other"}},
			"rival's":   {rival, store.Key{Label: "mine"}},
			"account's": {s, store.Key{Label: "mine", Account: "a-1"}},
		} {
			_, err := of.scope.Keys().Create(t.Context(), of.key, hashOf(secret))
			noError(t, err)
		}
		noError(t, s.Keys().RevokeOthers(t.Context(), "mine", keep.ID))
		for secret, live := range map[string]bool{"kept": true, "old": false, "other": true, "rival's": true, "account's": true} {
			k, err := db.APIKeys().ByHash(t.Context(), hashOf(secret))
			noError(t, err)
			if k.Live(time.Now()) != live {
				t.Errorf("the %s key lives: %v, want %v", secret, !live, live)
			}
		}
	})
}

func TestLiveKeyOfAScope(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s, rival := tenants(t, db)
		has := func(want bool, when string) {
			t.Helper()
			if got, err := s.Keys().HasLive(t.Context(), "admin"); err != nil || got != want {
				t.Errorf("%s: %v, %v", when, got, err)
			}
		}
		for i, k := range []store.Key{
			{Scopes: []string{"write"}},
			{Scopes: []string{"admin"}, Account: "a-1"},
			{Scopes: []string{"admin"}, ExpiresAt: time.Now().Add(-time.Second)},
		} {
			_, err := s.Keys().Create(t.Context(), k, hashOf(string(rune('a'+i))))
			noError(t, err)
		}
		_, err := rival.Keys().Create(t.Context(), store.Key{Scopes: []string{"admin"}}, hashOf("rival's"))
		noError(t, err)
		has(false, "none of its own that may be used")
		k, err := s.Keys().Create(t.Context(), store.Key{Scopes: []string{"read", "admin"}, ExpiresAt: time.Now().Add(time.Hour)}, hashOf("live"))
		noError(t, err)
		has(true, "a live one")
		_, err = s.Keys().Revoke(t.Context(), k.ID)
		noError(t, err)
		has(false, "it was revoked")
	})
}

func TestKeysByID(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s, rival := tenants(t, db)
		ids := []string{store.NewID()}
		for range 600 { // more than one statement takes
			ids = append(ids, store.NewID())
		}
		mine, err := s.Keys().Create(t.Context(), store.Key{ID: ids[1]}, hashOf("mine"))
		noError(t, err)
		theirs, err := rival.Keys().Create(t.Context(), store.Key{ID: ids[600]}, hashOf("theirs"))
		noError(t, err)
		_, err = rival.Keys().Revoke(t.Context(), theirs.ID)
		noError(t, err)
		found, err := db.APIKeys().ByID(t.Context(), ids)
		noError(t, err)
		if len(found) != 2 || found[0].ID != mine.ID || !found[0].RevokedAt.IsZero() || found[1].ID != theirs.ID || found[1].RevokedAt.IsZero() {
			t.Errorf("found %+v", found)
		}
	})
}
