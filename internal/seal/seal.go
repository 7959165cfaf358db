// Package seal encrypts values before they are stored. A [Ring] holds the keys of one server. [Ring.Seal] encrypts a
// value with one key and stores the key's fingerprint with it; [Ring.Open] finds the key by the fingerprint. So a key
// can be replaced while values of the old key still exist.
//
// A sealed value is bound to its cell (tenant, table, row, column). A copy in another cell cannot be opened.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// prefix begins every sealed text. No JSON text begins with this prefix.
const prefix = "sealed:1:"

// Cell identifies the database cell of a value.
type Cell struct{ Tenant, Table, Row, Column string }

// bytes encodes the cell as the associated data of the encryption. Each part is prefixed with its length, so that
// different cells have different encodings.
func (p Cell) bytes() (out []byte) {
	for _, part := range []string{p.Tenant, p.Table, p.Row, p.Column} {
		out = binary.AppendUvarint(out, uint64(len(part)))
		out = append(out, part...)
	}
	return out
}

// Key is a key for AES-256-GCM, with the fingerprint of the secret that it is derived from.
type Key struct {
	fingerprint string
	aead        cipher.AEAD
}

// NewKey returns the Key of 32 secret bytes. The fingerprint must not contain a colon, because it is stored before a
// colon in every sealed value.
func NewKey(fingerprint string, key []byte) (Key, error) {
	if fingerprint == "" || strings.Contains(fingerprint, ":") {
		return Key{}, fmt.Errorf("make key: bad fingerprint %q", fingerprint)
	}
	if len(key) != 32 {
		return Key{}, fmt.Errorf("make key: it has %d bytes, not 32", len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return Key{}, err
	}
	aead, err := cipher.NewGCM(block)
	return Key{fingerprint, aead}, err
}

// Format keeps the key out of logs and messages.
func (k Key) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "(key %s)", k.fingerprint) }

// Ring holds the keys of a server, the newest first. All of them can decrypt.
type Ring struct{ keys []Key }

// NewRing returns a ring of the newest key and the previous ones. Duplicates are dropped. Values are encrypted with
// the newest key once all servers know it.
func NewRing(newest Key, previous ...Key) *Ring {
	r := &Ring{keys: []Key{newest}}
	for _, k := range previous {
		if !r.Has(k.fingerprint) {
			r.keys = append(r.keys, k)
		}
	}
	return r
}

// Fingerprints returns the fingerprints of all keys, the newest first.
func (r *Ring) Fingerprints() (all []string) {
	for _, k := range r.keys {
		all = append(all, k.fingerprint)
	}
	return all
}

// Newest returns the fingerprint of the newest key.
func (r *Ring) Newest() string { return r.keys[0].fingerprint }

// Has reports whether the ring has the key with the fingerprint.
func (r *Ring) Has(fingerprint string) bool {
	_, ok := r.key(fingerprint)
	return ok
}

func (r *Ring) key(fingerprint string) (Key, bool) {
	for _, k := range r.keys {
		if k.fingerprint == fingerprint {
			return k, true
		}
	}
	return Key{}, false
}

// Seal encrypts the text for its cell with the key that has the fingerprint.
func (r *Ring) Seal(fingerprint, text string, at Cell) (string, error) {
	k, ok := r.key(fingerprint)
	if !ok {
		return "", &UnknownKeyError{fingerprint}
	}
	nonce := make([]byte, k.aead.NonceSize(), k.aead.NonceSize()+len(text)+k.aead.Overhead())
	rand.Read(nonce)
	sealed := k.aead.Seal(nonce, nonce, []byte(text), at.bytes())
	return prefix + fingerprint + ":" + base64.RawURLEncoding.EncodeToString(sealed), nil
}

// ErrDamaged is the error of a sealed text that was changed or belongs to another cell.
var ErrDamaged = errors.New("the encrypted value was changed, or belongs to another row")

// UnknownKeyError is the error of a text that is sealed with a key that the ring does not have.
type UnknownKeyError struct{ Fingerprint string }

func (e *UnknownKeyError) Error() string {
	return "the value is encrypted with the secret " + e.Fingerprint + ", which this server does not have"
}

// Open decrypts a sealed text for its cell.
func (r *Ring) Open(text string, at Cell) (string, error) {
	fingerprint, ok := Fingerprint(text)
	if !ok {
		return "", fmt.Errorf("open value: %w", ErrDamaged)
	}
	k, ok := r.key(fingerprint)
	if !ok {
		return "", &UnknownKeyError{fingerprint}
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text[len(prefix)+len(fingerprint)+1:])
	if err != nil || len(sealed) < k.aead.NonceSize() {
		return "", fmt.Errorf("open value: %w", ErrDamaged)
	}
	plain, err := k.aead.Open(nil, sealed[:k.aead.NonceSize()], sealed[k.aead.NonceSize():], at.bytes())
	if err != nil {
		return "", fmt.Errorf("open value: %w", ErrDamaged)
	}
	return string(plain), nil
}

// Sealed reports whether the text is sealed.
func Sealed(text string) bool { return strings.HasPrefix(text, prefix) }

// Fingerprint returns the fingerprint of the key of a sealed text. It returns false if the text is not sealed.
func Fingerprint(text string) (string, bool) {
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return "", false
	}
	fingerprint, _, ok := strings.Cut(rest, ":")
	return fingerprint, ok && fingerprint != ""
}
