package sandbox

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// Limits of an environment and of metadata. They exist because lists of sandboxes contain the metadata of each
// sandbox, and each create sends the environment to the driver.
const (
	maxEntries    = 64
	maxEntryName  = 256
	maxEntryBytes = 16 << 10 // names and values of all entries
)

// CheckEnv returns an error if the environment of a sandbox is not valid. The error contains no value, and of a name
// only the part up to the first bad character: the rest may be a secret.
func CheckEnv(env map[string]string) error {
	if err := checkEntries(env); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if name == "" {
			return badSpec("a variable has no name")
		}
		if at := badLetter(name); at >= 0 {
			_, size := utf8.DecodeRuneInString(name[at:])
			return badSpec("the name that begins with %q is not one of a variable: use A-Z, a-z, 0-9 and '_', and no digit first", fault.Clip(name[:at+size], 80))
		}
	}
	return nil
}

// CheckMetadata returns an error if the metadata of a sandbox is not valid.
func CheckMetadata(metadata map[string]string) error { return checkEntries(metadata) }

// maxModel is the length of the longest name of a model in bytes.
const maxModel = 200

// CheckModel returns an error if the name of a model is not valid. The empty name is valid. Which models exist is known
// to agents and their services only.
func CheckModel(name string) error {
	unfit := func(r rune) bool { return !unicode.IsPrint(r) }
	if len(name) > maxModel || !utf8.ValidString(name) || strings.ContainsFunc(name, unfit) || strings.HasPrefix(name, "-") || strings.TrimSpace(name) != name {
		return badSpec("a model has a name of at most %d printable characters, with no '-' and no space before it", maxModel)
	}
	return nil
}

func checkEntries(entries map[string]string) error {
	if len(entries) > maxEntries {
		return badSpec("at most %d entries are possible, these are %d", maxEntries, len(entries))
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		value := entries[name]
		if len(name) > maxEntryName {
			return badSpec("a name has at most %d bytes, one has %d", maxEntryName, len(name))
		}
		if strings.ContainsRune(name+value, 0) {
			return badSpec("an entry holds a NUL character")
		}
		total += len(name) + len(value)
	}
	if total > maxEntryBytes {
		return badSpec("names and values have at most %d bytes in all, these have %d", maxEntryBytes, total)
	}
	return nil
}

// badLetter returns the index of the first character that is not valid in the name of a variable, or -1.
func badLetter(name string) int {
	for i, r := range name {
		letter := r == '_' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z'
		if digit := '0' <= r && r <= '9'; !letter && (!digit || i == 0) {
			return i
		}
	}
	return -1
}

func badSpec(format string, args ...any) error {
	return fault.Errorf("", api.CodeInvalidRequest, format, args...)
}
