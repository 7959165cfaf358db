package auth

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
)

func bootstrap(t *testing.T, db *store.DB, dir, given string) First {
	t.Helper()
	first, err := Bootstrap(t.Context(), db, dir, given)
	if err != nil {
		t.Fatal(err)
	}
	return first
}

// asAdmin checks that the key is an admin key of the default tenant.
func asAdmin(t *testing.T, db *store.DB, key string) {
	t.Helper()
	who, err := NewAuthenticator(db.APIKeys()).Authenticate(t.Context(), key)
	if err != nil || who.Tenant != "default" || who.Scope != api.ScopeAdmin {
		t.Fatalf("key %q: %+v, %v; want an admin key of tenant default", key, who, err)
	}
}

func countKeys(t *testing.T, db *store.DB) int {
	t.Helper()
	keys, _, err := db.In(DefaultTenant).Keys().List(t.Context(), store.Page{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return len(keys)
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestFirstStartMakesAKeyAndKeepsIt(t *testing.T) {
	onBoth(t, func(t *testing.T, open func() *store.DB) {
		db, dir := open(), filepath.Join(t.TempDir(), "data")
		first := bootstrap(t, db, dir, "")
		asAdmin(t, db, first.Made)
		kept, err := os.ReadFile(first.File)
		if err != nil || strings.TrimSpace(string(kept)) != first.Made {
			t.Fatalf("kept %q, %v; want the key made", kept, err)
		}
		if mode(t, first.File) != 0o600 || mode(t, dir) != 0o700 {
			t.Errorf("file mode %v, directory mode %v; want 0600 and 0700", mode(t, first.File), mode(t, dir))
		}

		second := bootstrap(t, db, dir, "")
		if second.Kept != first.Made {
			t.Errorf("a second start does not know the key: %+v", second)
		}
		if second.Made != "" || countKeys(t, db) != 1 {
			t.Errorf("a second start made %q; there are %d keys, want 1", second.Made, countKeys(t, db))
		}
	})
}

func TestGivenKeyIsTheAdminKey(t *testing.T) {
	onBoth(t, func(t *testing.T, open func() *store.DB) {
		db, dir := open(), t.TempDir()
		const given = "chosen-by-the-operator"
		for range 2 {
			if first := bootstrap(t, db, dir, given); first != (First{}) {
				t.Fatalf("a given key made %+v", first)
			}
		}
		asAdmin(t, db, given)
		if countKeys(t, db) != 1 {
			t.Errorf("%d keys, want 1", countKeys(t, db))
		}
		if _, err := os.Stat(filepath.Join(dir, AdminKeyFile)); !os.IsNotExist(err) {
			t.Errorf("the given key was written to a file: %v", err)
		}
	})
}

func TestLostFileIsMadeAnew(t *testing.T) {
	db, dir := openStore(t, store.Options{DataDir: t.TempDir()}), t.TempDir()
	old := bootstrap(t, db, dir, "")
	if err := os.Remove(old.File); err != nil {
		t.Fatal(err)
	}
	fresh := bootstrap(t, db, dir, "")
	if fresh.Made == "" || fresh.Made == old.Made {
		t.Fatalf("made %q after losing %q", fresh.Made, old.Made)
	}
	asAdmin(t, db, fresh.Made)
}

func TestLostDatabaseTakesTheKeptKey(t *testing.T) {
	dir := t.TempDir()
	key := bootstrap(t, openStore(t, store.Options{DataDir: t.TempDir()}), dir, "").Made
	db := openStore(t, store.Options{DataDir: t.TempDir()})
	if first := bootstrap(t, db, dir, ""); first.Made != "" {
		t.Errorf("made %q although one was kept", first.Made)
	}
	asAdmin(t, db, key)
}

func TestRevokedKeptKeyIsReplaced(t *testing.T) {
	db, dir := openStore(t, store.Options{DataDir: t.TempDir()}), t.TempDir()
	old := bootstrap(t, db, dir, "")
	revoke(t, db, old.Made)
	fresh := bootstrap(t, db, dir, "")
	asAdmin(t, db, fresh.Made)
	if again := bootstrap(t, db, dir, ""); again.Made != "" || mode(t, fresh.File) != 0o600 {
		t.Errorf("the new key was not kept: made %q again, mode %v", again.Made, mode(t, fresh.File))
	}
}

func revoke(t *testing.T, db *store.DB, key string) {
	t.Helper()
	k, err := db.APIKeys().ByHash(t.Context(), Hash(key))
	if err == nil {
		_, err = db.In(k.Tenant).Keys().Revoke(t.Context(), k.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestGivenKeyThatCannotBeAdminIsRefused(t *testing.T) {
	db := openStore(t, store.Options{DataDir: t.TempDir()})
	bootstrap(t, db, t.TempDir(), "revoked-by-somebody-else")
	revoke(t, db, "revoked-by-somebody-else")
	weak, _ := createKey(t, db, DefaultTenant, store.Key{Scopes: []string{"write"}})
	foreign, _ := createKey(t, db, "acme", store.Key{Scopes: []string{"admin"}})
	mistyped := weak[:20] + swap(weak[20]) + weak[21:]
	for given, want := range map[string]string{
		"revoked-by-somebody-else": "revoked",
		weak:                       "scope write",
		foreign:                    "tenant acme",
		mistyped:                   "mistyped",
		"short":                    "20 to 200",
	} {
		_, err := Bootstrap(t.Context(), db, t.TempDir(), given)
		wantCode(t, err, api.CodeInvalidConfig)
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), given) {
			t.Errorf("%v; want %q, and never the key", err, want)
		}
	}
}

func TestNewlineOfAGivenKeyIsNoPartOfIt(t *testing.T) {
	onBoth(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		bootstrap(t, db, t.TempDir(), "chosen-by-the-operator\n")
		asAdmin(t, db, "chosen-by-the-operator")
	})
}

func TestAnotherGivenKeyEndsTheOneBefore(t *testing.T) {
	onBoth(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		const before, after = "chosen-by-the-operator", "chosen-by-her-successor"
		other, _ := createKey(t, db, DefaultTenant, store.Key{Scopes: []string{"admin"}, Label: "ci"})
		bootstrap(t, db, t.TempDir(), before)
		for range 2 {
			bootstrap(t, db, t.TempDir(), after)
		}
		asAdmin(t, db, after)
		asAdmin(t, db, other)
		_, err := NewAuthenticator(db.APIKeys()).Authenticate(t.Context(), before)
		wantCode(t, err, api.CodeUnauthenticated)
	})
}

// Servers that start at once on several hosts make one key for all; the others say that there is one.
func TestSharedDatabaseGetsOneKey(t *testing.T) {
	url := storetest.Postgres(t)
	made, start := make(chan First, 8), make(chan struct{})
	var wg sync.WaitGroup
	for range cap(made) {
		db, dir := openStore(t, store.Options{DatabaseURL: url}), t.TempDir()
		wg.Go(func() {
			<-start
			first, err := Bootstrap(t.Context(), db, dir, "")
			if err != nil || first.Elsewhere == (first.Made != "") || first.Elsewhere && first.File != "" {
				t.Errorf("%+v, %v", first, err)
			}
			if first.Made != "" {
				made <- first
			}
		})
	}
	close(start)
	wg.Wait()
	db := openStore(t, store.Options{DatabaseURL: url})
	if len(made) != 1 || countKeys(t, db) != 1 {
		t.Fatalf("%d servers made a key, %d are recorded; want one", len(made), countKeys(t, db))
	}
	first := <-made
	asAdmin(t, db, first.Made)
	revoke(t, db, first.Made)
	if again := bootstrap(t, db, t.TempDir(), ""); again.Made == "" {
		t.Error("no key is made although none is live")
	}
}

// Replicas that start at once on one host agree on one key.
func TestReplicasRaceToTheFirstKey(t *testing.T) {
	url := storetest.Postgres(t)
	shared := t.TempDir()
	var mu sync.Mutex
	var made []string
	var wg sync.WaitGroup
	for range 8 {
		db := openStore(t, store.Options{DatabaseURL: url})
		wg.Go(func() {
			first, err := Bootstrap(t.Context(), db, shared, "")
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if first.Made != "" {
				made = append(made, first.Made)
			}
		})
	}
	wg.Wait()
	db := openStore(t, store.Options{DatabaseURL: url})
	if len(made) != 1 || countKeys(t, db) != 1 {
		t.Fatalf("%d replicas made a key, %d are recorded; want one", len(made), countKeys(t, db))
	}
	asAdmin(t, db, made[0])
}

func TestBadDataDirectoryIsExplained(t *testing.T) {
	db := openStore(t, store.Options{DataDir: t.TempDir()})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty, folder, odd := t.TempDir(), t.TempDir(), t.TempDir()
	for dir, content := range map[string]string{empty: "\n", odd: "not a key"} {
		if err := os.WriteFile(filepath.Join(dir, AdminKeyFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(folder, AdminKeyFile), 0o700); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		filepath.Join(file, "data"): "data directory",
		empty:                       "remove it",
		folder:                      "remove it",
		odd:                         "not an API key",
	} {
		_, err := Bootstrap(t.Context(), db, dir, "")
		wantCode(t, err, api.CodeInvalidConfig)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("data directory %s: %v; want %q", dir, err, want)
		}
	}
}

func TestKeptFileIsTakenAwayFromOthers(t *testing.T) {
	db, dir := openStore(t, store.Options{DataDir: t.TempDir()}), t.TempDir()
	first := bootstrap(t, db, dir, "")
	if err := os.Chmod(first.File, 0o644); err != nil {
		t.Fatal(err)
	}
	bootstrap(t, db, dir, "")
	if mode(t, first.File) != 0o600 {
		t.Errorf("mode %v, want 0600", mode(t, first.File))
	}
}

func TestBootstrapWithoutDatabase(t *testing.T) {
	db := openStore(t, store.Options{DataDir: t.TempDir()})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := Bootstrap(t.Context(), db, t.TempDir(), "")
	wantCode(t, err, api.CodeStoreUnavailable)
}
