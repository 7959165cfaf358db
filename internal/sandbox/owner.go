package sandbox

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
)

// OwnerKind is what sort of thing a sandbox belongs to.
type OwnerKind string

// The kinds of owner. A bare sandbox owns itself: its owner id is its name, else its id.
const (
	OwnerConversation OwnerKind = "conversation"
	OwnerProject      OwnerKind = "project"
	OwnerThread       OwnerKind = "thread"
	OwnerSandbox      OwnerKind = "sandbox"
)

// OwnerKinds lists every kind.
var OwnerKinds = []OwnerKind{OwnerConversation, OwnerProject, OwnerThread, OwnerSandbox}

// Owner is whom a sandbox belongs to; it has exactly one that is not deleted.
type Owner struct {
	Tenant string
	Kind   OwnerKind
	ID     string
}

func (o Owner) String() string { return fmt.Sprintf("%s %q of tenant %s", o.Kind, o.ID, o.Tenant) }

// Validate says what is wrong with the owner, or nil.
func (o Owner) Validate() error {
	if o.Tenant == "" {
		return Errorf("check owner", api.CodeInvalidID, "the owner names no tenant")
	}
	switch o.Kind {
	case OwnerConversation, OwnerProject, OwnerThread, OwnerSandbox:
	default:
		return Errorf("check owner", api.CodeInvalidID, "owner kind %q is none of conversation, project, thread, sandbox", o.Kind)
	}
	return checkOwnerID(o.ID)
}

const maxOwnerID = 255

func checkOwnerID(id string) error {
	if id == "" || len(id) > maxOwnerID {
		return Errorf("check owner", api.CodeInvalidID, "an owner id has 1 to %d bytes, this one %d", maxOwnerID, len(id))
	}
	if !utf8.ValidString(id) {
		return Errorf("check owner", api.CodeInvalidID, "the owner id is not valid UTF-8")
	}
	for _, r := range id {
		if !unicode.IsPrint(r) {
			return Errorf("check owner", api.CodeInvalidID, "the owner id holds the unprintable character %U", r)
		}
	}
	return nil
}

// nilID is the UUID of zeros, which programs send when they forgot to set one.
const nilID = "00000000-0000-0000-0000-000000000000"

// ParseID returns the canonical form of an id given from outside. Any UUID in its 36-character form will do
// but the nil one; nothing relies on an id's time.
func ParseID(s string) (string, error) {
	if !isUUID(s) {
		return "", Errorf("check id", api.CodeInvalidID, "%q is not a UUID", clip(s))
	}
	if s == nilID {
		return "", Errorf("check id", api.CodeInvalidID, "the nil UUID is no id")
	}
	return strings.ToLower(s), nil
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, r := range s {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (r == '-') {
			return false
		} else if !dash && !strings.ContainsRune("0123456789abcdefABCDEF", r) {
			return false
		}
	}
	return true
}

const maxName = 63

// CheckName says what is wrong with a name, or nil.
func CheckName(s string) error {
	if s == "" || len(s) > maxName {
		return Errorf("check name", api.CodeInvalidName, "a name has 1 to %d characters, this one %d", maxName, len(s))
	}
	for i, r := range s {
		lower := 'a' <= r && r <= 'z' || '0' <= r && r <= '9'
		if !lower && (r != '-' || i == 0) {
			return Errorf("check name", api.CodeInvalidName, "%q may not stand at position %d of a name", r, i+1)
		}
	}
	if isUUID(s) {
		return Errorf("check name", api.CodeInvalidName, "the name %q looks like an id", s)
	}
	return nil
}

// ParseRef tells whether a reference from outside is an id (returned canonical) or a name.
func ParseRef(s string) (id, name string, err error) {
	if isUUID(s) {
		id, err = ParseID(s)
		return id, "", err
	}
	if err := CheckName(s); err != nil {
		return "", "", Errorf("check id", api.CodeInvalidID, "%q is neither an id nor a name", clip(s))
	}
	return "", s, nil
}

func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
