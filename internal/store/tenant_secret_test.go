package store_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

func TestSecretsOfATenant(t *testing.T) {
	testkit.Proves(t, "E7")
	onBoth(t, func(t *testing.T, h harness) {
		db := h.mustOpenWith(t, "one")
		for _, tenant := range []store.TenantID{acme, "other"} {
			noError(t, db.Tenants().Ensure(t.Context(), tenant, string(tenant)))
		}
		s, other := db.In(acme), db.In("other")
		first, err := s.Secrets().Set(t.Context(), "KEY", "first")
		noError(t, err)
		again, err := s.Secrets().Set(t.Context(), "KEY", "{}") // the text that is never encrypted elsewhere
		noError(t, err)
		if again.CreatedAt != first.CreatedAt || !again.UpdatedAt.After(first.UpdatedAt) {
			t.Errorf("set twice: %+v, then %+v", first, again)
		}
		_, err = s.Secrets().Set(t.Context(), "ALSO", "x\n\u2028\"<")
		noError(t, err)
		_, err = other.Secrets().Set(t.Context(), "KEY", "of another")
		noError(t, err)
		for _, c := range []struct {
			in    store.Scope
			names []string
			want  map[string]string
		}{
			{s, nil, map[string]string{"KEY": "{}", "ALSO": "x\n\u2028\"<"}},
			{s, []string{"KEY"}, map[string]string{"KEY": "{}"}},
			{s, []string{"key", "KEY2"}, map[string]string{}},
			{other, nil, map[string]string{"KEY": "of another"}},
			{db.In("unknown"), nil, map[string]string{}},
		} {
			if got, err := c.in.Secrets().Values(t.Context(), c.names); err != nil || !maps.Equal(got, c.want) {
				t.Errorf("%s %v: %q, %v", c.in.Tenant(), c.names, got, err)
			}
		}
		list, err := s.Secrets().List(t.Context())
		if err != nil || len(list) != 2 || list[0].Name != "ALSO" || list[1].Name != "KEY" || list[1].UpdatedAt != again.UpdatedAt {
			t.Errorf("list: %+v, %v", list, err)
		}
		wantCode(t, other.Secrets().Delete(t.Context(), "ALSO"), api.CodeNotFound)
		noError(t, other.Secrets().Delete(t.Context(), "KEY"))
		noError(t, s.Secrets().Delete(t.Context(), "ALSO"))
		wantCode(t, s.Secrets().Delete(t.Context(), "ALSO"), api.CodeNotFound)
		if got, err := s.Secrets().Values(t.Context(), nil); err != nil || len(got) != 1 {
			t.Errorf("after the deletes: %q, %v", got, err)
		}
	})
}

// A value that was moved to another tenant or name is not given out, and the others still are.
func TestSecretOfAnotherTenantIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		db := h.mustOpenWith(t, "one")
		for _, tenant := range []store.TenantID{acme, "other"} {
			noError(t, db.Tenants().Ensure(t.Context(), tenant, string(tenant)))
			_, err := db.In(tenant).Secrets().Set(t.Context(), "KEY", string(tenant))
			noError(t, err)
		}
		_, err := db.In("other").Secrets().Set(t.Context(), "WELL", "well")
		noError(t, err)
		_, err = h.rawDB(t).Exec(`update tenant_secrets set value = (select value from tenant_secrets where tenant = 'acme') where tenant = 'other' and name = 'KEY'`)
		noError(t, err)
		got, err := db.In("other").Secrets().Values(t.Context(), nil)
		wantCode(t, err, api.CodeSecretUnreadable)
		if !maps.Equal(got, map[string]string{"WELL": "well"}) {
			t.Errorf("got %q", got)
		}
	})
}

func TestSecretsAreBounded(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		db := h.mustOpenWith(t, "one")
		noError(t, db.Tenants().Ensure(t.Context(), acme, "Acme"))
		s := db.In(acme)
		for i := range store.MaxTenantSecrets {
			_, err := s.Secrets().Set(t.Context(), fmt.Sprint("KEY_", i), "x")
			noError(t, err)
		}
		_, err := s.Secrets().Set(t.Context(), "MORE", "x")
		wantCode(t, err, api.CodeQuotaExceeded)
		if _, err := s.Secrets().Set(t.Context(), "KEY_7", "y"); err != nil {
			t.Errorf("a secret that is there can be set: %v", err)
		}
	})
}
