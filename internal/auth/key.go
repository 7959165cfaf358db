package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"math/big"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
)

// A generated key consists of keyPrefix, 256 random bits and a checksum of both. Bits and checksum are in base 62.
const (
	keyPrefix   = "berth_"
	randomBytes = 32
	randomChars = 43 // base 62 digits that hold 256 bits
	sumChars    = 6  // base 62 digits that hold 32 bits
	keyChars    = len(keyPrefix) + randomChars + sumChars

	minChosenChars = 20 // shortest key that an operator may choose
	maxChosenChars = 200
)

const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Generate makes a new API key.
func Generate() string {
	random := make([]byte, randomBytes)
	rand.Read(random) // never returns an error
	key := keyPrefix + base62(random, randomChars)
	return key + checksum(key)
}

// CheckFormat returns an error if the key's format is not valid. A key in the format of Generate must have the right
// checksum, so that a typing error is found without a query. Any other key of 20 to 200 printable ASCII characters
// without spaces is accepted, because an operator may choose the first key.
func CheckFormat(key string) error {
	if len(key) < minChosenChars || len(key) > maxChosenChars || strings.ContainsFunc(key, isNotVisible) {
		return fault.Errorf("check key", api.CodeUnauthenticated, "this is not an API key: keys have %d to %d printable characters and no spaces", minChosenChars, maxChosenChars)
	}
	if body, ours := split(key); ours && checksum(body) != key[len(body):] {
		return fault.Errorf("check key", api.CodeUnauthenticated, "the API key is mistyped or cut: its checksum does not fit")
	}
	return nil
}

// Hash returns the hash of a key that is stored. SHA-256 is enough: a slow hash protects secrets that can be guessed,
// and 256 random bits cannot be guessed.
func Hash(key string) store.KeyHash { return sha256.Sum256([]byte(key)) }

// Prefix returns the first characters of a key, by which people recognise it. For a key that an operator chose, it
// returns fewer characters, because the key may be short.
func Prefix(key string) string {
	shown := 4
	if _, ours := split(key); ours {
		shown = len(keyPrefix) + 6
	}
	return key[:min(shown, len(key))]
}

// split returns the part of a key before its checksum. The result ours reports whether the key has the format of
// Generate.
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

// base62 returns the bytes as a number with exactly width base 62 digits.
func base62(b []byte, width int) string {
	n, base, digit := new(big.Int).SetBytes(b), big.NewInt(int64(len(digits))), new(big.Int)
	out := make([]byte, width)
	for i := width - 1; i >= 0; i-- {
		n.DivMod(n, base, digit)
		out[i] = digits[digit.Int64()]
	}
	return string(out)
}

func isNotVisible(r rune) bool { return r <= ' ' || r > '~' }
