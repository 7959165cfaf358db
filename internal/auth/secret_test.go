package auth

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

func TestSecretIsMadeOnceAndKept(t *testing.T) {
	testkit.Proves(t, "X2")
	onBoth(t, func(t *testing.T, open func() *store.DB) {
		dir := t.TempDir()
		first, err := UseSecret(t.Context(), open(), SecretSource{DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		second, err := UseSecret(t.Context(), open(), SecretSource{DataDir: dir})
		if err != nil || !bytes.Equal(first.Derive("x"), second.Derive("x")) {
			t.Errorf("a second start has another secret: %v", err)
		}
		if mode(t, filepath.Join(dir, SecretFile)) != 0o600 {
			t.Errorf("mode %v, want 0600", mode(t, filepath.Join(dir, SecretFile)))
		}
		recorded, err := open().Secrets().Fingerprint(t.Context())
		if err != nil || recorded != first.Fingerprint() {
			t.Errorf("the database has the fingerprint %q, want %q: %v", recorded, first.Fingerprint(), err)
		}
	})
}

// A server that shares the database, from a machine with an empty data directory, makes no secret that the others
// do not have; nor does one whose file was lost.
func TestMissingSecretIsNotReplaced(t *testing.T) {
	onBoth(t, func(t *testing.T, open func() *store.DB) {
		dir, empty := t.TempDir(), t.TempDir()
		made, err := UseSecret(t.Context(), open(), SecretSource{DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, SecretFile))
		if err != nil {
			t.Fatal(err)
		}
		_, err = UseSecret(t.Context(), open(), SecretSource{DataDir: empty})
		wantCode(t, err, api.CodeSecretLost)
		if !strings.Contains(err.Error(), made.Fingerprint()) || !strings.Contains(err.Error(), empty) {
			t.Errorf("the error names the file and the secret: %v", err)
		}
		if left, err := os.ReadDir(empty); err != nil || len(left) > 0 {
			t.Errorf("left in the data directory: %v, %v", left, err)
		}
		// The operator gives it the other server's secret.
		if _, err := UseSecret(t.Context(), open(), SecretSource{DataDir: empty, Given: strings.TrimSpace(string(text))}); err != nil {
			t.Error(err)
		}
		_, err = UseSecret(t.Context(), open(), SecretSource{DataDir: empty, Given: "another secret altogether"})
		wantCode(t, err, api.CodeSecretMismatch)
	})
}

// Without a file, a new secret is made if the operator names the one that it replaces.
func TestSecretInTheDataDirectoryIsReplaced(t *testing.T) {
	onBoth(t, func(t *testing.T, open func() *store.DB) {
		dir := t.TempDir()
		was, err := UseSecret(t.Context(), open(), SecretSource{DataDir: dir, Given: "the old root of everything"})
		if err != nil {
			t.Fatal(err)
		}
		is, err := UseSecret(t.Context(), open(), SecretSource{DataDir: dir, Previous: []string{"the old root of everything"}})
		if err != nil || is.Fingerprint() == was.Fingerprint() {
			t.Fatalf("%v replaces %v: %v", is.Fingerprint(), was.Fingerprint(), err)
		}
	})
}

func TestGivenSecretIsTheSameEverywhere(t *testing.T) {
	const given = "one root for all replicas"
	a, errA := NewSecret(given)
	b, errB := NewSecret(given)
	if errA != nil || errB != nil || !bytes.Equal(a.Derive("url"), b.Derive("url")) || a.Fingerprint() != b.Fingerprint() {
		t.Fatalf("replicas derive different keys: %v, %v", errA, errB)
	}
	if bytes.Equal(a.Derive("url"), a.Derive("token")) || len(a.Derive("url")) != 32 {
		t.Error("purposes share a key, or it is not of 256 bits")
	}
}

func TestSecretThatWouldBeWeakIsRefused(t *testing.T) {
	_, err := NewSecret("short")
	wantCode(t, err, api.CodeInvalidConfig)
	onBoth(t, func(t *testing.T, open func() *store.DB) {
		for _, from := range []SecretSource{{Given: "short"}, {Previous: []string{"short"}}} {
			from.DataDir = t.TempDir()
			_, err := UseSecret(t.Context(), open(), from)
			wantCode(t, err, api.CodeInvalidConfig)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, SecretFile), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := UseSecret(t.Context(), open(), SecretSource{DataDir: dir})
		wantCode(t, err, api.CodeInvalidConfig)
		if strings.Contains(err.Error(), "have a new one made") {
			t.Errorf("the error asks to remove what may be in a backup: %v", err)
		}
	})
}

func TestSecretDoesNotPrint(t *testing.T) {
	const canary = "canary-of-the-root-secret"
	s, err := NewSecret(canary)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
		if text := fmt.Sprintf(format, s); strings.Contains(text, canary) || strings.Contains(text, "99") || strings.Contains(text, "63") {
			t.Errorf("%s prints %q", format, text)
		}
	}
}
