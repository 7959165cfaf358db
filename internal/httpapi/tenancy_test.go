package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/testkit"
)

func TestKeysAreMadeListedAndRevoked(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		account := into[api.Account](s.post(accountsPath, `{"name":"ann","email":"ann@example.com"}`).is(http.StatusCreated))
		expires := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		body := fmt.Sprintf(`{"label":"ci","scope":"read","account_id":%q,"expires_at":%q}`, account.ID, expires.Format(time.RFC3339))
		a := s.post(keysPath, body).is(http.StatusCreated)
		made := into[api.NewKey](a)
		if made.Label != "ci" || made.Scope != "read" || made.AccountID != account.ID || made.ExpiresAt == nil || !made.ExpiresAt.Equal(expires) || a.header.Get("Location") != keysPath+"/"+made.ID {
			t.Errorf("made %s", a.body)
		}
		s.do(call{path: sandboxesPath, key: made.Secret}).is(http.StatusOK)
		s.do(call{method: http.MethodPost, path: sandboxesPath, key: made.Secret, body: "{}"}).fails(api.CodeForbidden)

		listed := into[api.List[api.Key]](s.do(call{path: keysPath, key: s.admin}).is(http.StatusOK))
		at := slices.IndexFunc(listed.Items, func(k api.Key) bool { return k.ID == made.ID })
		if at < 0 || listed.Items[at].Prefix != made.Secret[:12] || listed.Items[at].LastUsedAt == nil || len(listed.Items) != 4 {
			t.Errorf("listed %+v", listed.Items)
		}
		read := s.do(call{path: a.header.Get("Location"), key: s.admin}).is(http.StatusOK)
		if k := into[api.Key](read); k.ID != made.ID || k.Label != "ci" || k.LastUsedAt == nil || k.RevokedAt != nil {
			t.Errorf("read %s", read.body)
		}
		s.do(call{path: keysPath + "/" + made.ID, key: s.newKey("rival", api.ScopeAdmin)}).fails(api.CodeNotFound)
		s.remove(keysPath + "/" + made.ID).is(http.StatusNoContent)
		if k := into[api.Key](s.do(call{path: keysPath + "/" + made.ID, key: s.admin}).is(http.StatusOK)); k.RevokedAt == nil {
			t.Error("a revoked key does not say so")
		}
		s.remove(keysPath + "/" + made.ID).is(http.StatusNoContent)
		s.do(call{path: sandboxesPath, key: made.Secret}).fails(api.CodeUnauthenticated)
	})
}

// The default tenant's admins run the server: they open other tenants by making a key for one. An
// admin of another tenant stays in it.
func TestDefaultTenantOpensOthers(t *testing.T) {
	testkit.Proves(t, "E2")
	onBoth(t, func(t *testing.T, s *site) {
		operator := s.newKey(auth.DefaultTenant, api.ScopeAdmin)
		as := func(key, method, path, body string) answer {
			return s.do(call{method: method, path: path, key: key, body: body})
		}
		made := into[api.NewKey](as(operator, http.MethodPost, keysPath, `{"tenant":"globex","scope":"admin"}`).is(http.StatusCreated))
		as(made.Secret, http.MethodPost, sandboxesPath, `{"name":"mine"}`).is(http.StatusCreated)
		as(operator, http.MethodGet, sandboxesPath+"/mine", "").fails(api.CodeNotFound)
		as(made.Secret, http.MethodPost, keysPath, `{"tenant":"globex"}`).is(http.StatusCreated)
		as(made.Secret, http.MethodPost, keysPath, `{"tenant":"default"}`).fails(api.CodeForbidden)
		as(made.Secret, http.MethodPost, keysPath, `{"tenant":"initech"}`).fails(api.CodeForbidden)
		as(operator, http.MethodPost, keysPath, `{"tenant":"No Name"}`).fails(api.CodeInvalidName)
	})
}

func TestAgentOfUnknownTemplateIsRefused(t *testing.T) {
	s := newSite(t)
	s.post(agentsPath, `{"name":"x","template":"nope"}`).fails(api.CodeUnknownTemplate)
}

func TestKeyWithoutWishesMayWrite(t *testing.T) {
	s := newSite(t)
	if k := into[api.NewKey](s.post(keysPath, "").is(http.StatusCreated)); k.Scope != "write" || k.ExpiresAt != nil {
		t.Errorf("made %+v", k)
	}
}

// Every route asks for the scope it should: reading for reads, writing for changes, admin for keys and for changes
// of accounts and agents. A read key does not show who else is there.
func TestRoutesAskForTheirScope(t *testing.T) {
	s := newSite(t)
	const id = "/01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10"
	for _, c := range []struct {
		need   api.Scope
		method string
		path   string
	}{
		{"read", "GET", sandboxesPath}, {"read", "GET", sandboxesPath + id}, {"read", "GET", sandboxesPath + id + "/history"},
		{"read", "HEAD", sandboxesPath},
		{"write", "POST", sandboxesPath}, {"write", "DELETE", sandboxesPath + id}, {"write", "POST", "/api/v1/sandbox"},
		{"admin", "GET", keysPath}, {"admin", "POST", keysPath}, {"admin", "GET", keysPath + id}, {"admin", "DELETE", keysPath + id},
		{"write", "GET", accountsPath}, {"write", "GET", accountsPath + id}, {"admin", "POST", accountsPath}, {"admin", "DELETE", accountsPath + id},
		{"write", "GET", agentsPath}, {"write", "GET", agentsPath + id}, {"admin", "POST", agentsPath}, {"admin", "PUT", agentsPath + id}, {"admin", "DELETE", agentsPath + id},
	} {
		s.do(call{method: c.method, path: c.path}).is(http.StatusUnauthorized)
		for have, key := range map[api.Scope]string{"read": s.read, "write": s.write, "admin": s.admin} {
			a := s.do(call{method: c.method, path: c.path, key: key, body: map[bool]string{true: `{"name":"x"}`}[c.method == "POST" || c.method == "PUT"]})
			enough := slices.Index([]api.Scope{"read", "write", "admin"}, have) >= slices.Index([]api.Scope{"read", "write", "admin"}, c.need)
			if enough == (a.status == http.StatusForbidden) {
				t.Errorf("%s %s with a key of scope %s: %d %s", c.method, c.path, have, a.status, a.body)
			}
		}
	}
}

func TestAccounts(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		made := into[api.Account](s.post(accountsPath, `{"name":"Ann Äpfel","email":"ann@example.com"}`).is(http.StatusCreated))
		if got := into[api.Account](s.do(call{path: accountsPath + "/" + made.ID, key: s.write}).is(http.StatusOK)); got != made || got.Email != "ann@example.com" {
			t.Errorf("read %+v, made %+v", got, made)
		}
		s.post(accountsPath, `{"name":"Ann Äpfel"}`).fails(api.CodeNameTaken)
		key := into[api.NewKey](s.post(keysPath, `{"scope":"read","account_id":"`+made.ID+`"}`).is(http.StatusCreated))
		s.remove(accountsPath + "/" + made.ID).is(http.StatusNoContent)
		s.do(call{path: sandboxesPath, key: key.Secret}).fails(api.CodeUnauthenticated)
		s.do(call{path: accountsPath + "/" + made.ID, key: s.write}).fails(api.CodeDeleted)
		s.remove(accountsPath + "/" + made.ID).fails(api.CodeDeleted)
		s.post(keysPath, `{"account_id":"`+made.ID+`"}`).fails(api.CodeDeleted)
	})
}

func TestAgents(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		put := func(id, body string) answer {
			return s.do(call{method: http.MethodPut, path: agentsPath + "/" + id, key: s.admin, body: body})
		}
		made := into[api.Agent](s.post(agentsPath, `{"name":"helper","template":"default","overrides":{"env":{"A":"b"}}}`).is(http.StatusCreated))
		if string(made.Overrides) != `{"env":{"A":"b"}}` || made.Template != "default" {
			t.Errorf("made %+v", made)
		}
		other := into[api.Agent](s.post(agentsPath, `{"name":"other"}`).is(http.StatusCreated))
		if other.Overrides != nil {
			t.Errorf("overrides %s out of nothing", other.Overrides)
		}
		changed := into[api.Agent](put(made.ID, `{"name":"helper-2","template":"none"}`).is(http.StatusOK))
		read := into[api.Agent](s.do(call{path: agentsPath + "/" + made.ID, key: s.write}).is(http.StatusOK))
		if changed.Name != "helper-2" || changed.Overrides != nil || read.Name != "helper-2" || read.Template != "none" || !read.UpdatedAt.After(made.UpdatedAt) {
			t.Errorf("changed to %+v, read %+v", changed, read)
		}
		put(made.ID, `{"name":"other"}`).fails(api.CodeNameTaken)
		s.post(agentsPath, `{"name":"other"}`).fails(api.CodeNameTaken)
		if n := len(into[api.List[api.Agent]](s.do(call{path: agentsPath, key: s.write}).is(http.StatusOK)).Items); n != 2 {
			t.Errorf("%d agents listed, want 2", n)
		}
		s.remove(agentsPath + "/" + made.ID).is(http.StatusNoContent)
		s.do(call{path: agentsPath + "/" + made.ID, key: s.write}).fails(api.CodeDeleted)
		put(made.ID, `{"name":"x"}`).fails(api.CodeDeleted)
	})
}

// Every list gives every item exactly once, page by page.
func TestEveryListPages(t *testing.T) {
	s := newSite(t)
	for i := range 7 {
		s.post(accountsPath, fmt.Sprintf(`{"name":"a%d"}`, i)).is(http.StatusCreated)
		s.post(agentsPath, fmt.Sprintf(`{"name":"a%d"}`, i)).is(http.StatusCreated)
		s.newKey("acme", api.ScopeRead)
	}
	for path, want := range map[string]int{accountsPath: 7, agentsPath: 7, keysPath: 10} {
		seen := map[string]bool{}
		for next := path + "?limit=3"; next != ""; {
			page := into[api.List[map[string]any]](s.do(call{path: next, key: s.admin}).is(http.StatusOK))
			for _, item := range page.Items {
				id := item["id"].(string)
				if seen[id] {
					t.Errorf("%s: %s came twice", path, id)
				}
				seen[id] = true
			}
			if next = ""; page.NextCursor != "" {
				next = path + "?limit=3&cursor=" + page.NextCursor
			}
		}
		if len(seen) != want {
			t.Errorf("%s: %d items, want %d", path, len(seen), want)
		}
	}
}
