package auth

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/seal"
	"github.com/berthdev/berth/internal/store"
)

const minSecretBytes = 16

// Secret is the root secret, from which encryption keys are derived. It is the same on all servers of
// an installation and after a restart. Formatting never prints its value.
type Secret struct{ root []byte }

// NewSecret returns the Secret with the given text. It returns an error if the text is too short.
func NewSecret(root string) (Secret, error) {
	if len(root) < minSecretBytes {
		return Secret{}, fault.Errorf("load secret", api.CodeInvalidConfig, "the root secret has %d characters; BERTH_SECRET_KEY needs at least %d", len(root), minSecretBytes)
	}
	return Secret{[]byte(root)}, nil
}

// Derive returns the 256-bit key for a purpose. A key reveals nothing about the root or about keys for other purposes.
func (s Secret) Derive(purpose string) []byte {
	key, err := hkdf.Key(sha256.New, s.root, nil, "berth "+purpose, sha256.Size)
	if err != nil {
		panic(fmt.Sprintf("derive key: %v", err)) // only possible if the length is too large
	}
	return key
}

// Fingerprint returns a short id of the secret that does not reveal it. The id is stored, logged and shown.
func (s Secret) Fingerprint() string { return hex.EncodeToString(s.Derive("fingerprint")[:6]) }

// key returns the key that encrypts values in the database.
func (s Secret) key() (seal.Key, error) {
	return seal.NewKey(s.Fingerprint(), s.Derive("values in the database"))
}

// Format keeps the root out of logs and messages for all verbs.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("(secret)")) }

// SecretSource holds the settings from which a server's root secret is loaded.
type SecretSource struct {
	DataDir  string
	Given    string   // setting secret_key; empty: the secret is stored in the data directory
	Previous []string // setting secret_key_previous: older secrets, with which stored values may still be encrypted
}

// UseSecret loads the root secret, checks it against the database and makes the database use it. It creates a new
// secret in the data directory only if the database has none, or if the database's secret is one of the previous
// secrets. So a lost file is never replaced by another secret.
func UseSecret(ctx context.Context, db *store.DB, from SecretSource) (root Secret, err error) {
	err = db.WithSchemaLock(ctx, func() error {
		previous, err := from.previous()
		if err != nil {
			return err
		}
		current, err := db.Secrets().Fingerprint(ctx)
		if err != nil {
			return err
		}
		if root, err = from.load(current, previous); err != nil {
			return err
		}
		ring, err := newRing(root, previous)
		if err != nil {
			return err
		}
		return db.Secrets().Use(ctx, ring)
	})
	return root, err
}

// previous returns the secrets of before.
func (from SecretSource) previous() (all []Secret, err error) {
	for _, text := range from.Previous {
		s, err := NewSecret(text)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Roots returns the secret that [UseSecret] has loaded and those of before, the newest first.
func (from SecretSource) Roots(root Secret) ([]Secret, error) {
	previous, err := from.previous()
	return append([]Secret{root}, previous...), err
}

func newRing(newest Secret, previous []Secret) (*seal.Ring, error) {
	first, err := newest.key()
	if err != nil {
		return nil, err
	}
	var rest []seal.Key
	for _, s := range previous {
		k, err := s.key()
		if err != nil {
			return nil, err
		}
		rest = append(rest, k)
	}
	return seal.NewRing(first, rest...), nil
}

// load returns the given secret, or else the secret in the data directory. current is the fingerprint of the secret
// that the database uses; empty: none.
func (from SecretSource) load(current string, previous []Secret) (Secret, error) {
	if from.Given != "" {
		return NewSecret(from.Given)
	}
	path := filepath.Join(from.DataDir, SecretFile)
	known := current == "" || slices.ContainsFunc(previous, func(s Secret) bool { return s.Fingerprint() == current })
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !known {
		return Secret{}, lostSecret(path, current)
	}
	kept, _, err := keep(from.DataDir, SecretFile, newSecretText)
	if err != nil {
		e := fault.Errorf("load secret", api.CodeInvalidConfig, "%s cannot be used: %w", path, err)
		e.Hint = "Restore the file from a backup, or set secret_key (BERTH_SECRET_KEY)."
		return Secret{}, e
	}
	return NewSecret(kept)
}

// lostSecret returns the error for a server without the secret that the database needs.
func lostSecret(path, current string) error {
	e := fault.Errorf("load secret", api.CodeSecretLost, "%s is missing, and the database is encrypted with the secret %s", path, current)
	e.Hint = "Restore the file from a backup, copy it from the server that made it, or set secret_key (BERTH_SECRET_KEY) to its content; servers that share a database need the same one. " +
		"Nothing was changed. If the secret is lost for good, 'berth secret forget' lists the values that are lost with it."
	return e
}

// keepError returns the error for a data directory in which a file cannot be stored, with a hint.
func keepError(op, dataDir string, err error) error {
	if errors.Is(err, errUnusable) {
		err = fmt.Errorf("%w; remove it to have a new one made", err)
	}
	e := fault.Errorf(op, api.CodeInvalidConfig, "the data directory %s cannot hold it: %w", dataDir, err)
	e.Hint = "Give a directory that this user may write to with --data-dir (BERTH_DATA_DIR)."
	return e
}

func newSecretText() string {
	random := make([]byte, randomBytes)
	rand.Read(random)
	return base62(random, randomChars)
}

// Fingerprints returns the fingerprints of the server's secrets, the newest first. It creates no secret.
func (from SecretSource) Fingerprints() (all []string, err error) {
	texts := append([]string{from.Given}, from.Previous...)
	if from.Given == "" {
		texts = texts[1:]
		f, err := os.Open(filepath.Join(from.DataDir, SecretFile))
		if err == nil {
			defer f.Close()
			var kept string
			kept, err = readLine(f)
			texts = append([]string{kept}, texts...)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	for _, text := range texts {
		s, err := NewSecret(text)
		if err != nil {
			return nil, err
		}
		all = append(all, s.Fingerprint())
	}
	return all, nil
}
