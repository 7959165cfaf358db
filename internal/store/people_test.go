package store_test

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// tenants makes acme and rival.
func tenants(t testing.TB, db *store.DB) (ours, theirs store.Scope) {
	t.Helper()
	noError(t, db.Tenants().Ensure(t.Context(), acme, "Acme"))
	noError(t, db.Tenants().Ensure(t.Context(), "rival", "Rival"))
	return db.In(acme), db.In("rival")
}

func TestTenantIsMadeOnce(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		tenants(t, db)
		noError(t, db.Tenants().Ensure(t.Context(), acme, "another name"))
		var got []string
		for page := (store.Page{Limit: 1}); ; {
			items, next, err := db.Tenants().List(t.Context(), page)
			noError(t, err)
			for _, tenant := range items {
				got = append(got, tenant.Name)
			}
			if page.After = next; next.IsZero() {
				break
			}
		}
		if !slices.Equal(got, []string{"Rival", "Acme"}) {
			t.Errorf("tenants are %v", got)
		}
	})
}

func TestAccounts(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s, rival := tenants(t, db)
		ann, err := s.Accounts().Create(t.Context(), store.Account{Name: "ann"})
		noError(t, err)
		bob, err := s.Accounts().Create(t.Context(), store.Account{ID: store.NewID(), Name: "bob"})
		noError(t, err)
		got, err := s.Accounts().Get(t.Context(), ann.ID)
		noError(t, err)
		if diff := cmp.Diff(ann, got); diff != "" {
			t.Error(diff)
		}
		_, err = s.Accounts().Create(t.Context(), store.Account{Name: "ann"})
		wantCode(t, err, api.CodeNameTaken)
		_, err = s.Accounts().Create(t.Context(), store.Account{ID: ann.ID, Name: "cat"})
		wantCode(t, err, api.CodeConflict)
		_, err = rival.Accounts().Create(t.Context(), store.Account{ID: ann.ID, Name: "cat"})
		wantCode(t, err, api.CodeNotFound)
		_, err = rival.Accounts().Get(t.Context(), ann.ID)
		wantCode(t, err, api.CodeNotFound)
		wantCode(t, rival.Accounts().Delete(t.Context(), ann.ID), api.CodeNotFound)

		noError(t, s.Accounts().Delete(t.Context(), ann.ID))
		wantCode(t, s.Accounts().Delete(t.Context(), ann.ID), api.CodeDeleted)
		_, err = s.Accounts().Get(t.Context(), ann.ID)
		wantCode(t, err, api.CodeDeleted)
		_, err = s.Accounts().Create(t.Context(), store.Account{ID: ann.ID})
		wantCode(t, err, api.CodeDeleted)
		again, err := s.Accounts().Create(t.Context(), store.Account{Name: "ann"})
		noError(t, err)
		items, next, err := s.Accounts().List(t.Context(), store.Page{})
		noError(t, err)
		if diff := cmp.Diff([]store.Account{again, bob}, items); diff != "" || !next.IsZero() {
			t.Errorf("accounts (-want +got), next %v:\n%s", next, diff)
		}
		_, err = db.In("nobody").Accounts().Create(t.Context(), store.Account{Name: "ann"})
		wantCode(t, err, api.CodeNotFound) // there is no such tenant
	})
}

func TestAgents(t *testing.T) {
	testkit.Proves(t, "C11")
	withDB(t, func(t *testing.T, db *store.DB) {
		s, rival := tenants(t, db)
		overrides := json.RawMessage(`{"model": "small", "env": {"A": "1"}}`)
		coder, err := s.Agents().Create(t.Context(), store.Agent{Name: "coder", Template: "claude_code", Overrides: overrides})
		noError(t, err)
		if string(coder.Overrides) != string(overrides) || coder.Template != "claude_code" {
			t.Errorf("agent is %+v", coder)
		}
		plain, err := s.Agents().Create(t.Context(), store.Agent{Name: "plain", Template: "demo"})
		noError(t, err)
		_, err = s.Agents().Create(t.Context(), store.Agent{Name: "coder"})
		wantCode(t, err, api.CodeNameTaken)
		for _, bad := range []string{`[]`, `{`, `null`} {
			_, err = s.Agents().Create(t.Context(), store.Agent{Name: "bad", Overrides: json.RawMessage(bad)})
			wantCode(t, err, api.CodeInvalidRequest)
			_, err = s.Agents().Update(t.Context(), store.Agent{ID: plain.ID, Overrides: json.RawMessage(bad)})
			wantCode(t, err, api.CodeInvalidRequest)
		}
		_, err = s.Agents().Get(t.Context(), store.NewID())
		wantCode(t, err, api.CodeUnknownAgent)
		_, err = rival.Agents().Get(t.Context(), coder.ID)
		wantCode(t, err, api.CodeUnknownAgent)

		plain.Name, plain.Template, plain.Overrides = "plainer", "none", json.RawMessage(`{"a":1}`)
		changed, err := s.Agents().Update(t.Context(), plain)
		noError(t, err)
		if !changed.UpdatedAt.After(plain.UpdatedAt) {
			t.Error("updated_at did not move")
		}
		plain.UpdatedAt = changed.UpdatedAt
		read, err := s.Agents().Get(t.Context(), plain.ID)
		noError(t, err)
		if diff := cmp.Diff(plain, read); diff != "" {
			t.Error(diff)
		}
		plain.Name = "coder"
		_, err = s.Agents().Update(t.Context(), plain)
		wantCode(t, err, api.CodeNameTaken)
		_, err = rival.Agents().Update(t.Context(), coder)
		wantCode(t, err, api.CodeUnknownAgent)

		noError(t, s.Agents().Delete(t.Context(), coder.ID))
		wantCode(t, s.Agents().Delete(t.Context(), coder.ID), api.CodeDeleted)
		wantCode(t, s.Agents().Delete(t.Context(), store.NewID()), api.CodeUnknownAgent)
		_, err = s.Agents().Get(t.Context(), coder.ID)
		wantCode(t, err, api.CodeDeleted)
		items, _, err := s.Agents().List(t.Context(), store.Page{})
		noError(t, err)
		if diff := cmp.Diff([]store.Agent{read}, items); diff != "" {
			t.Errorf("agents (-want +got):\n%s", diff)
		}
	})
}

func hashOf(key string) store.KeyHash { return sha256.Sum256([]byte(key)) }

func TestKeysAreFoundByHashAlone(t *testing.T) {
	testkit.Proves(t, "E2")
	withDB(t, func(t *testing.T, db *store.DB) {
		s, rival := tenants(t, db)
		expires := time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
		made, err := s.Keys().Create(t.Context(), store.Key{
			Account: "a-1", Label: "ci", Prefix: "berth_ab", Scopes: []string{"read", "write"}, ExpiresAt: expires,
		}, hashOf("secret"))
		noError(t, err)
		found, err := db.APIKeys().ByHash(t.Context(), hashOf("secret"))
		noError(t, err)
		want := store.Key{
			ID: made.ID, Tenant: acme, Account: "a-1", Label: "ci", Prefix: "berth_ab",
			Scopes: []string{"read", "write"}, CreatedAt: made.CreatedAt, ExpiresAt: expires,
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("key (-want +got):\n%s", diff)
		}
		_, err = db.APIKeys().ByHash(t.Context(), hashOf("other"))
		wantCode(t, err, api.CodeNotFound)
		_, err = rival.Keys().Create(t.Context(), store.Key{}, hashOf("secret"))
		wantCode(t, err, api.CodeConflict)
		if !found.Live(expires.Add(-time.Second)) || found.Live(expires) {
			t.Error("key does not live exactly until it expires")
		}
		byID, err := s.Keys().Get(t.Context(), made.ID)
		noError(t, err)
		if diff := cmp.Diff(want, byID); diff != "" {
			t.Errorf("key by id (-want +got):\n%s", diff)
		}
		_, err = rival.Keys().Get(t.Context(), made.ID)
		wantCode(t, err, api.CodeNotFound)
		_, err = rival.Keys().Revoke(t.Context(), made.ID)
		wantCode(t, err, api.CodeNotFound)
		revoked, err := s.Keys().Revoke(t.Context(), made.ID)
		noError(t, err)
		again, err := s.Keys().Revoke(t.Context(), made.ID)
		noError(t, err)
		if revoked.Live(time.Now()) || !again.RevokedAt.Equal(revoked.RevokedAt) {
			t.Errorf("revoked %v, then %v", revoked.RevokedAt, again.RevokedAt)
		}
		items, _, err := s.Keys().List(t.Context(), store.Page{})
		noError(t, err)
		if diff := cmp.Diff([]store.Key{revoked}, items); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
	})
}

func TestUseOfAKeyIsRecordedOnceAMinute(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s, _ := tenants(t, db)
		k, err := s.Keys().Create(t.Context(), store.Key{}, hashOf("secret"))
		noError(t, err)
		var used []time.Time
		for range 2 {
			noError(t, db.APIKeys().Touch(t.Context(), k.ID))
			found, err := db.APIKeys().ByHash(t.Context(), hashOf("secret"))
			noError(t, err)
			used = append(used, found.LastUsedAt)
		}
		near(t, "last use", used[0], time.Now())
		if moved := used[1].Sub(used[0]); moved != 0 && moved < time.Minute {
			t.Errorf("two uses recorded %v apart", moved)
		}
	})
}

func TestDeletingAnAccountRevokesItsKeys(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s, _ := tenants(t, db)
		ann, err := s.Accounts().Create(t.Context(), store.Account{Name: "ann"})
		noError(t, err)
		for _, key := range []struct{ account, secret string }{{ann.ID, "hers"}, {"", "ours"}} {
			_, err := s.Keys().Create(t.Context(), store.Key{Account: key.account}, hashOf(key.secret))
			noError(t, err)
		}
		noError(t, s.Accounts().Delete(t.Context(), ann.ID))
		for secret, live := range map[string]bool{"hers": false, "ours": true} {
			k, err := db.APIKeys().ByHash(t.Context(), hashOf(secret))
			noError(t, err)
			if k.Live(time.Now()) != live {
				t.Errorf("key %q lives: %v", secret, !live)
			}
		}
	})
}
