package auth

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
)

func TestSecretIsMadeOnceAndKept(t *testing.T) {
	dir := t.TempDir()
	first, err := LoadSecret(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	second, err := LoadSecret(dir, "")
	if err != nil || !bytes.Equal(first.Derive("x"), second.Derive("x")) {
		t.Errorf("a second start has another secret: %v", err)
	}
	if mode(t, filepath.Join(dir, SecretFile)) != 0o600 {
		t.Errorf("mode %v, want 0600", mode(t, filepath.Join(dir, SecretFile)))
	}
	other, err := LoadSecret(t.TempDir(), "")
	if err != nil || bytes.Equal(first.Derive("x"), other.Derive("x")) {
		t.Errorf("another server has the same secret: %v", err)
	}
}

func TestGivenSecretIsTheSameEverywhere(t *testing.T) {
	const given = "one root for all replicas"
	a, errA := LoadSecret(t.TempDir(), given)
	b, errB := LoadSecret(t.TempDir(), given)
	if errA != nil || errB != nil || !bytes.Equal(a.Derive("url"), b.Derive("url")) {
		t.Fatalf("replicas derive different keys: %v, %v", errA, errB)
	}
	if bytes.Equal(a.Derive("url"), a.Derive("token")) || len(a.Derive("url")) != 32 {
		t.Error("purposes share a key, or it is not of 256 bits")
	}
}

func TestSecretThatWouldBeWeakIsRefused(t *testing.T) {
	_, err := LoadSecret(t.TempDir(), "short")
	wantCode(t, err, api.CodeInvalidConfig)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, SecretFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = LoadSecret(dir, "")
	wantCode(t, err, api.CodeInvalidConfig)
}

func TestSecretDoesNotPrint(t *testing.T) {
	const canary = "canary-of-the-root-secret"
	s, err := LoadSecret(t.TempDir(), canary)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
		if text := fmt.Sprintf(format, s); strings.Contains(text, canary) || strings.Contains(text, "99") || strings.Contains(text, "63") {
			t.Errorf("%s prints %q", format, text)
		}
	}
}
