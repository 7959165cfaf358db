package sandbox

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// OwnerKind is the kind of a sandbox's owner.
type OwnerKind string

// The kinds of owner. A sandbox of kind OwnerSandbox owns itself: its owner id is its name, or its id if it has no
// name.
const (
	OwnerConversation OwnerKind = "conversation"
	OwnerProject      OwnerKind = "project"
	OwnerThread       OwnerKind = "thread"
	OwnerSandbox      OwnerKind = "sandbox"
)

// OwnerKinds lists all kinds.
var OwnerKinds = []OwnerKind{OwnerConversation, OwnerProject, OwnerThread, OwnerSandbox}

// Owner is the object that a sandbox belongs to. An owner has exactly one sandbox that is not deleted.
type Owner struct {
	Tenant string
	Kind   OwnerKind
	ID     string
}

func (o Owner) String() string { return fmt.Sprintf("%s %q of tenant %s", o.Kind, o.ID, o.Tenant) }

// HasMessages reports whether the owner is a conversation or a thread.
func (o Owner) HasMessages() bool { return o.Kind == OwnerConversation || o.Kind == OwnerThread }

// Validate returns an error if the owner is not valid.
func (o Owner) Validate() error {
	if o.Tenant == "" {
		return fault.Errorf("check owner", api.CodeInvalidID, "the owner names no tenant")
	}
	switch o.Kind {
	case OwnerConversation, OwnerProject, OwnerThread, OwnerSandbox:
	default:
		return fault.Errorf("check owner", api.CodeInvalidID, "owner kind %q is none of conversation, project, thread, sandbox", o.Kind)
	}
	return checkOwnerID(o.ID)
}

const maxOwnerIDBytes = 255

func checkOwnerID(id string) error {
	if id == "" || len(id) > maxOwnerIDBytes {
		return fault.Errorf("check owner", api.CodeInvalidID, "an owner id has 1 to %d bytes, this one %d", maxOwnerIDBytes, len(id))
	}
	if !utf8.ValidString(id) {
		return fault.Errorf("check owner", api.CodeInvalidID, "the owner id is not valid UTF-8")
	}
	for _, r := range id {
		if !unicode.IsPrint(r) {
			return fault.Errorf("check owner", api.CodeInvalidID, "the owner id holds the unprintable character %U", r)
		}
	}
	return nil
}

// nilID is the UUID of zeros. Programs send it when an id is not set.
const nilID = "00000000-0000-0000-0000-000000000000"

// ParseID returns the canonical form of an id in a request. Any UUID in the 36-character form except the nil UUID is
// valid; the time in a UUID is never used.
func ParseID(s string) (string, error) {
	if !isUUID(s) {
		return "", fault.Errorf("check id", api.CodeInvalidID, "%q is not a UUID", fault.Clip(s, 80))
	}
	if s == nilID {
		return "", fault.Errorf("check id", api.CodeInvalidID, "the nil UUID is no id")
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

const maxNameBytes = 63

// CheckName returns an error if the name is not valid.
func CheckName(s string) error {
	if s == "" || len(s) > maxNameBytes {
		return fault.Errorf("check name", api.CodeInvalidName, "a name has 1 to %d characters, this one %d", maxNameBytes, len(s))
	}
	for i, r := range s {
		lower := 'a' <= r && r <= 'z' || '0' <= r && r <= '9'
		if !lower && (r != '-' || i == 0) {
			return fault.Errorf("check name", api.CodeInvalidName, "%q may not stand at position %d of a name", r, i+1)
		}
	}
	if isUUID(s) {
		return fault.Errorf("check name", api.CodeInvalidName, "the name %q looks like an id", s)
	}
	return nil
}

// ParseRef parses a reference in a request. It returns either an id, in canonical form, or a name.
func ParseRef(s string) (id, name string, err error) {
	if isUUID(s) {
		id, err = ParseID(s)
		return id, "", err
	}
	if err := CheckName(s); err != nil {
		return "", "", fault.Errorf("check id", api.CodeInvalidID, "%q is neither an id nor a name", fault.Clip(s, 80))
	}
	return "", s, nil
}
