package auth

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

const minSecret = 16

// Secret is the root that tokens and signed addresses derive from. It is the same on every replica
// and after every restart, and prints as nothing.
type Secret struct{ root []byte }

// LoadSecret returns the root secret: the one given (BERTH_SECRET_KEY), else the one kept in the
// data directory, which is made on the first start.
func LoadSecret(dataDir, given string) (Secret, error) {
	if given == "" {
		kept, _, err := keep(dataDir, SecretFile, rand256)
		if err != nil {
			return Secret{}, keepError("keep secret", dataDir, err)
		}
		given = kept
	}
	if len(given) < minSecret {
		return Secret{}, sandbox.Errorf("load secret", api.CodeInvalidConfig, "the root secret has %d characters; BERTH_SECRET_KEY needs at least %d", len(given), minSecret)
	}
	return Secret{[]byte(given)}, nil
}

// Derive returns the 256-bit key for one purpose. Keys of different purposes say nothing about each
// other or about the root.
func (s Secret) Derive(purpose string) []byte {
	key, err := hkdf.Key(sha256.New, s.root, nil, "berth "+purpose, sha256.Size)
	if err != nil {
		panic(fmt.Sprintf("derive key: %v", err)) // only for lengths that SHA-256 cannot give
	}
	return key
}

// Format keeps the root out of logs and messages, whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("(secret)")) }

// keepError says what a person can do about a data directory that cannot hold a file.
func keepError(op, dataDir string, err error) error {
	e := sandbox.Errorf(op, api.CodeInvalidConfig, "the data directory %s cannot hold it: %w", dataDir, err)
	e.Hint = "Give a directory that this user may write to with --data-dir (BERTH_DATA_DIR)."
	return e
}

func rand256() string {
	random := make([]byte, randomBytes)
	rand.Read(random)
	return base62(random, randomChars)
}
