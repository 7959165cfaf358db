package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"math/big"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// A key we make is keyPrefix, 256 random bits and a checksum over both, the latter two in base 62.
const (
	keyPrefix   = "berth_"
	randomBytes = 32
	randomChars = 43 // base 62 digits that hold 256 bits
	sumChars    = 6  // base 62 digits that hold 32 bits
	keyChars    = len(keyPrefix) + randomChars + sumChars

	minForeign = 20
	maxForeign = 200
)

const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Generate makes a new API key.
func Generate() string {
	random := make([]byte, randomBytes)
	rand.Read(random) // never fails: the runtime ends the process instead
	key := keyPrefix + base62(random, randomChars)
	return key + checksum(key)
}

// CheckFormat says what is wrong with the form of a key, or nil. A key of our own form must carry the
// right checksum, so that a typing error is told from an unknown key without asking the database.
// Any other 20 to 200 printable ASCII characters without spaces pass: an operator may choose the
// first key freely.
func CheckFormat(key string) error {
	if len(key) < minForeign || len(key) > maxForeign || strings.ContainsFunc(key, notVisible) {
		return sandbox.Errorf("check key", api.CodeUnauthenticated, "this is not an API key: keys have %d to %d printable characters and no spaces", minForeign, maxForeign)
	}
	if body, ours := split(key); ours && checksum(body) != key[len(body):] {
		return sandbox.Errorf("check key", api.CodeUnauthenticated, "the API key is mistyped or cut: its checksum does not fit")
	}
	return nil
}

// Hash is what is stored of a key. A plain SHA-256 will do: with 256 random bits there is nothing to
// guess, so nothing that a slow hash would slow down.
func Hash(key string) store.KeyHash { return sha256.Sum256([]byte(key)) }

// Prefix returns the characters by which people recognise a key. Of a key that somebody chose, which
// may be short, it gives away fewer.
func Prefix(key string) string {
	shown := 4
	if _, ours := split(key); ours {
		shown = len(keyPrefix) + 6
	}
	return key[:min(shown, len(key))]
}

// split returns what the checksum of a key covers, and whether the key has our form at all.
func split(key string) (body string, ours bool) {
	if len(key) != keyChars || !strings.HasPrefix(key, keyPrefix) {
		return "", false
	}
	for _, r := range key[len(keyPrefix):] {
		if !strings.ContainsRune(digits, r) {
			return "", false
		}
	}
	return key[:keyChars-sumChars], true
}

func checksum(body string) string {
	sum := crc32.ChecksumIEEE([]byte(body))
	return base62([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}, sumChars)
}

// base62 writes the number that the bytes hold in exactly width digits.
func base62(b []byte, width int) string {
	n, base, digit := new(big.Int).SetBytes(b), big.NewInt(int64(len(digits))), new(big.Int)
	out := make([]byte, width)
	for i := width - 1; i >= 0; i-- {
		n.DivMod(n, base, digit)
		out[i] = digits[digit.Int64()]
	}
	return string(out)
}

func notVisible(r rune) bool { return r <= ' ' || r > '~' }
