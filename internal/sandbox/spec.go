package sandbox

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
)

// What an environment, and what metadata, may hold. Every list of sandboxes carries the metadata of
// all of them, and every create sends the environment on.
const (
	maxEntries    = 64
	maxEntryName  = 256
	maxEntryBytes = 16 << 10 // names and values of all entries
)

// CheckEnv says what is wrong with the environment of a sandbox, or nil. It repeats no value, nor what
// follows a misplaced '=' in a name: either may be a secret.
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
			return badSpec("the name that begins with %q is not one of a variable: use A-Z, a-z, 0-9 and '_', and no digit first", clip(name[:at+size]))
		}
	}
	return nil
}

// CheckMetadata says what is wrong with the metadata of a sandbox, or nil.
func CheckMetadata(metadata map[string]string) error { return checkEntries(metadata) }

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

// badLetter is where the first character stands that the name of a variable cannot have there, or -1.
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
	return Errorf("", api.CodeInvalidRequest, format, args...)
}
