package auth

import (
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

func secretOf(t *testing.T, text string) Secret {
	t.Helper()
	s, err := NewSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSignedTexts(t *testing.T) {
	first, second := secretOf(t, "the first root secret"), secretOf(t, "the second root secret")
	s := NewSigner("tests", first)
	signed := s.Sign("a text, and a longer one")
	if text, ok := s.Open(signed); !ok || text != "a text, and a longer one" {
		t.Errorf("%q, %v", text, ok)
	}
	if text, ok := NewSigner("tests", second, first).Open(signed); !ok || text != "a text, and a longer one" {
		t.Errorf("with a newer secret: %q, %v", text, ok)
	}
	for name, other := range map[string]Signer{"another secret": NewSigner("tests", second), "another purpose": NewSigner("others", first)} {
		if _, ok := other.Open(signed); ok {
			t.Errorf("%s opens it", name)
		}
	}
	for i := range signed {
		if _, ok := s.Open(signed[:i] + swap(signed[i]) + signed[i+1:]); ok {
			t.Errorf("with another character at %d it still fits", i)
		}
	}
	for _, bad := range []string{"", ".", signed[:len(signed)-1], signed + "A", signed + ".x", strings.Replace(signed, ".", "", 1)} {
		if _, ok := s.Open(bad); ok {
			t.Errorf("%q fits", bad)
		}
	}
}

func TestSessionsOfBrowsers(t *testing.T) {
	testkit.Proves(t, "E2")
	onBoth(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		s := NewSessions(db.APIKeys(), secretOf(t, "the first root secret"))
		_, k := createKey(t, db, "acme", store.Key{Account: "ann", Scopes: []string{"write"}})
		want := Principal{Tenant: "acme", AccountID: "ann", KeyID: k.ID, Scope: api.ScopeWrite}
		cookie := s.Begin(want, true)
		if got, err := s.Authenticate(t.Context(), cookie.Value); err != nil || got != want {
			t.Errorf("principal %+v, %v", got, err)
		}
		if !cookie.HttpOnly || !cookie.Secure || cookie.Domain != "" || cookie.Path != "/" {
			t.Errorf("cookie %v", cookie)
		}
		refused := func(name, value, says string) {
			t.Helper()
			_, err := s.Authenticate(t.Context(), value)
			wantCode(t, err, api.CodeUnauthenticated)
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", name, err)
			}
		}
		refused("tampered", cookie.Value[:5]+swap(cookie.Value[5])+cookie.Value[6:], "not valid")
		refused("of a key that is not there", s.signer.Sign(store.NewID()+" 99999999999"), "removed")
		refused("old", s.signer.Sign(k.ID+" 1000"), "ended at 1970")
		refused("without an end", s.signer.Sign(k.ID), "not valid")
		expired, e := createKey(t, db, "acme", store.Key{ExpiresAt: time.Now().Add(-time.Second)})
		refused("of an expired key", s.Begin(Principal{KeyID: e.ID}, false).Value, "expired")
		refused("a key", expired, "not valid")
		if _, err := db.In("acme").Keys().Revoke(t.Context(), k.ID); err != nil {
			t.Fatal(err)
		}
		refused("of a revoked key", cookie.Value, "revoked")
	})
}
