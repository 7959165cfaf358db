package egress_test

import (
	"os"
	"regexp"
	"testing"
)

func TestRulesInTheHowToAreRules(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/egress.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllSubmatch(page, -1)
	if len(rows) < 8 {
		t.Fatalf("%d rules found", len(rows))
	}
	for _, row := range rows {
		mustRules(t, string(row[1]))
	}
}
