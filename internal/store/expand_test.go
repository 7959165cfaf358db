package store_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/testkit"
)

// lastUnchecked is the newest migration from before the rule.
const lastUnchecked = "00004_turn_log.sql"

// Replicas are upgraded one after the other, so a Berth of the commit before works on the new schema for a
// while. A migration therefore only adds. What no running Berth uses any more is removed by a later one, in a
// statement under a comment "-- contract: " that says since when it is unused.
func TestMigrationsOnlyExpand(t *testing.T) {
	testkit.Proves(t, "X3")
	files, err := filepath.Glob("migrations/*.sql")
	noError(t, err)
	for _, file := range files {
		if filepath.Base(file) <= lastUnchecked {
			continue
		}
		text, err := os.ReadFile(file)
		noError(t, err)
		for _, problem := range contracting(string(text)) {
			t.Errorf("%s: %s", filepath.Base(file), problem)
		}
	}
}

var (
	comment    = regexp.MustCompile(`(?m)--.*$`)
	contractOf = regexp.MustCompile(`(?m)^-- contract: \S.{10,}$`)
	removes    = regexp.MustCompile(`(?i)\b(drop|rename|truncate|alter\s+column|delete\s+from)\b`)
	required   = regexp.MustCompile(`(?is)\badd\s+column\b.*\bnot\s+null\b`)
	defaults   = regexp.MustCompile(`(?i)\bdefault\b`)
)

// contracting lists the statements that a Berth of the schema before could fail on.
func contracting(text string) (problems []string) {
	for statement := range strings.SplitSeq(text, ";") {
		code := strings.TrimSpace(comment.ReplaceAllString(statement, ""))
		switch {
		case contractOf.MatchString(statement):
		case removes.MatchString(code):
			problems = append(problems, "removes or renames without a line \"-- contract: why no running Berth uses it\" above it: "+code)
		case required.MatchString(code) && !defaults.MatchString(code):
			problems = append(problems, "adds a required column without a default, which inserts of the Berth before do not fill: "+code)
		}
	}
	return problems
}

func TestContractingStatementsAreFound(t *testing.T) {
	for text, want := range map[string]int{
		"create table a (b text not null); create index c on a (b);":            0,
		"alter table a add column b text not null default '';":                  0,
		"alter table a add column b text;":                                      0,
		"-- drop everything\ncreate table a (b text);":                          0,
		"alter table a add column b text not null;":                             1,
		"drop table a; alter table b rename to a;":                              2,
		"alter table a drop column b;":                                          1,
		"alter table a alter column b set not null;":                            1,
		"-- contract: unused since schema 9\ndrop table a;\ndrop table b;":      1,
		"-- contract: unused since schema 9\ndrop table a;":                     0,
		"-- contract: \ndrop table a;":                                          1,
		"alter table a add column b text; alter table a add c int; truncate d;": 1,
	} {
		if got := contracting(text); len(got) != want {
			t.Errorf("%q: found %q, want %d", text, got, want)
		}
	}
}
