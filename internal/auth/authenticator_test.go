package auth

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

func createKey(t *testing.T, db *store.DB, tenant store.TenantID, k store.Key) (secret string, made store.Key) {
	t.Helper()
	if err := db.Tenants().Ensure(t.Context(), tenant, string(tenant)); err != nil {
		t.Fatal(err)
	}
	secret = Generate()
	k.Prefix = Prefix(secret)
	made, err := db.In(tenant).Keys().Create(t.Context(), k, Hash(secret))
	if err != nil {
		t.Fatal(err)
	}
	return secret, made
}

func TestKeyTellsTenantAccountAndScope(t *testing.T) {
	onBoth(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		secret, k := createKey(t, db, "acme", store.Key{Account: "ann", Scopes: []string{"write"}})
		got, err := NewAuthenticator(db.APIKeys()).Authenticate(t.Context(), secret)
		want := Principal{Tenant: "acme", AccountID: "ann", KeyID: k.ID, Scope: api.ScopeWrite}
		if err != nil || got != want {
			t.Fatalf("principal %+v, %v; want %+v", got, err, want)
		}
		if got.Actor() != "key "+k.ID {
			t.Errorf("actor %q", got.Actor())
		}
		secret, k = createKey(t, db, "acme", store.Key{Label: "build server", Scopes: []string{"read"}})
		got, err = NewAuthenticator(db.APIKeys()).Authenticate(t.Context(), secret)
		if want := "key build server (" + k.ID + ")"; err != nil || got.Actor() != want {
			t.Errorf("actor %q, %v; want %q", got.Actor(), err, want)
		}
	})
}

// Whoever holds a key learns that it was revoked or has expired; whoever guesses learns nothing.
func TestRefusedKeys(t *testing.T) {
	testkit.Proves(t, "E2")
	onBoth(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		a := NewAuthenticator(db.APIKeys())
		revoked, k := createKey(t, db, "acme", store.Key{Scopes: []string{"read"}})
		if _, err := db.In("acme").Keys().Revoke(t.Context(), k.ID); err != nil {
			t.Fatal(err)
		}
		expired, _ := createKey(t, db, "acme", store.Key{Scopes: []string{"read"}, ExpiresAt: time.Now().Add(-time.Second)})
		for _, c := range []struct{ name, key, want string }{
			{"revoked", revoked, "was revoked at 2"},
			{"expired", expired, "expired at 2"},
			{"unknown", Generate(), "the API key is not valid"},
			{"unknown, of another form", strings.Repeat("k", 30), "the API key is not valid"},
			{"mistyped", revoked[:20] + swap(revoked[20]) + revoked[21:], "mistyped"},
			{"its hash", string(hashText(revoked)), "not"},
		} {
			_, err := a.Authenticate(t.Context(), c.key)
			wantCode(t, err, api.CodeUnauthenticated)
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), c.key) {
				t.Errorf("%s: %v; want %q, and never the key", c.name, err, c.want)
			}
		}
	})
}

func swap(c byte) string {
	if c == 'a' {
		return "b"
	}
	return "a"
}

func hashText(key string) []byte {
	h := Hash(key)
	return h[:]
}

// A revocation by one replica is seen by the next request to any other.
func TestRevocationActsAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, open func() *store.DB) {
		here, there := open(), open()
		secret, k := createKey(t, here, "acme", store.Key{Scopes: []string{"admin"}})
		a := NewAuthenticator(there.APIKeys())
		if _, err := a.Authenticate(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		if _, err := here.In("acme").Keys().Revoke(t.Context(), k.ID); err != nil {
			t.Fatal(err)
		}
		_, err := a.Authenticate(t.Context(), secret)
		wantCode(t, err, api.CodeUnauthenticated)
	})
}

func TestUseIsRecorded(t *testing.T) {
	db := openStore(t, store.Options{DataDir: t.TempDir()})
	secret, _ := createKey(t, db, "acme", store.Key{Scopes: []string{"read"}})
	if _, err := NewAuthenticator(db.APIKeys()).Authenticate(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	k, err := db.APIKeys().ByHash(t.Context(), Hash(secret))
	if err != nil || time.Since(k.LastUsedAt) > time.Minute {
		t.Errorf("last used %v, %v", k.LastUsedAt, err)
	}
}

// keyStore is a store whose every call is scripted.
type keyStore struct {
	key     store.Key
	err     error
	touched int
}

func (s *keyStore) ByHash(context.Context, store.KeyHash) (store.Key, error) { return s.key, s.err }
func (s *keyStore) Touch(context.Context, string) error {
	s.touched++
	return errors.New("the disk is full")
}

func TestTimeOfUseIsWrittenOnceAMinuteAndNeverInTheWay(t *testing.T) {
	for last, want := range map[time.Duration]int{time.Hour: 1, 30 * time.Second: 0} {
		s := &keyStore{key: store.Key{ID: "k", LastUsedAt: time.Now().Add(-last)}}
		if _, err := NewAuthenticator(s).Authenticate(t.Context(), Generate()); err != nil || s.touched != want {
			t.Errorf("last used %v ago: touched %d times, %v; want %d", last, s.touched, err, want)
		}
	}
}

func TestStoreTroubleIsNotABadKey(t *testing.T) {
	db := openStore(t, store.Options{DataDir: t.TempDir()})
	secret, _ := createKey(t, db, "acme", store.Key{})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := NewAuthenticator(db.APIKeys()).Authenticate(t.Context(), secret)
	wantCode(t, err, api.CodeStoreUnavailable)
}

// A stolen database holds no key that works.
func TestOnlyHashesAreStored(t *testing.T) {
	testkit.Proves(t, "E2")
	dir := t.TempDir()
	db := openStore(t, store.Options{DataDir: dir})
	secret, _ := createKey(t, db, "acme", store.Key{Scopes: []string{"admin"}})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	hash, found := Hash(secret), false
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(secret)) || bytes.Contains(data, []byte(secret[20:])) {
			t.Errorf("%s holds the key", file)
		}
		found = found || bytes.Contains(data, hash[:])
	}
	if !found {
		t.Errorf("no file of %v holds the hash: the test looks in the wrong place", files)
	}
}

func TestPrincipalTravelsWithTheContext(t *testing.T) {
	if _, ok := PrincipalFrom(t.Context()); ok {
		t.Error("a principal out of nothing")
	}
	want := Principal{Tenant: "acme", KeyID: "k", Scope: api.ScopeRead}
	if got, ok := PrincipalFrom(WithPrincipal(t.Context(), want)); !ok || got != want {
		t.Errorf("principal %+v, %v", got, ok)
	}
}
