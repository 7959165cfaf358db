package testkit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// ProvesKey is the name of the test attribute that [Proves] sets. The value holds the ids, separated by spaces.
// "go test -json" prints it as an event with the action "attr".
const ProvesKey = "proves"

// areas lists the areas of requirements in the order of docs/requirements.md, with the number of requirements in
// each. Ids count from 1 without gaps.
var areas = []struct {
	letter string
	count  int
}{
	{"O", 8},  // owners and the one-sandbox rule
	{"V", 6},  // the sandbox service
	{"S", 18}, // workspace state and sync
	{"H", 8},  // hooks and templates
	{"C", 12}, // conversations, messages, tokens
	{"P", 9},  // projects
	{"T", 12}, // threads and Slack
	{"E", 9},  // errors, security, tenancy
	{"X", 11}, // operation of an installation
}

// Requirements lists every requirement id in the order of docs/requirements.md.
func Requirements() []string {
	var ids []string
	for _, area := range areas {
		for n := 1; n <= area.count; n++ {
			ids = append(ids, fmt.Sprintf("%s%d", area.letter, n))
		}
	}
	return ids
}

// Proves declares that t proves the requirements with these ids. A row marked done in
// docs/requirements.md needs at least one such test that ran, was not skipped, and passed.
// An id that does not exist fails the test.
func Proves(t testing.TB, ids ...string) {
	t.Helper()
	if len(ids) == 0 {
		t.Errorf("testkit.Proves needs at least one requirement id")
		return
	}
	known := Requirements()
	for _, id := range ids {
		if !slices.Contains(known, id) {
			t.Errorf("testkit.Proves: no requirement %q; the ids are in docs/requirements.md", id)
			return
		}
	}
	t.Attr(ProvesKey, strings.Join(ids, " "))
}
