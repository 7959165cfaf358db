package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

// Clients may choose the ids of sandboxes and conversations, and each tenant chooses on its own. In the database an id
// is unique over all tenants. If another tenant has an id already, the row gets a scoped id: the chosen id, scopeMark
// and a digest of the tenant. Clients always see the chosen id.
const (
	uuidLength  = 36
	scopeMark   = "-t"
	scopeDigits = 11
)

// ScopedID returns the scoped form of an id that a client of the tenant chose. A scoped id is returned unchanged.
func ScopedID(tenant, id string) string {
	if len(id) != uuidLength {
		return id
	}
	sum := sha256.Sum256([]byte("berth tenant " + tenant))
	return id + scopeMark + hex.EncodeToString(sum[:])[:scopeDigits]
}

// PublicID returns the id that clients see.
func PublicID(id string) string {
	if len(id) == uuidLength+len(scopeMark)+scopeDigits && id[uuidLength:][:len(scopeMark)] == scopeMark && isUUID(id[:uuidLength]) {
		return id[:uuidLength]
	}
	return id
}

var scopedIDs = regexp.MustCompile(`([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})` + scopeMark + `[0-9a-f]{11}\b`)

// PublicIDs replaces all scoped ids in a text by the ids that clients see.
func PublicIDs(text string) string {
	if !strings.Contains(text, scopeMark) {
		return text
	}
	return scopedIDs.ReplaceAllString(text, "$1")
}
