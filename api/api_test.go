package api

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

func TestCodeTableIsWhole(t *testing.T) {
	snake := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	seen := map[Code]bool{}
	for _, c := range Codes {
		if seen[c.Code] {
			t.Errorf("%s stands twice", c.Code)
		}
		seen[c.Code] = true
		if !snake.MatchString(string(c.Code)) || c.Title == "" || c.Hint == "" {
			t.Errorf("%s: not snake_case, or without words", c.Code)
		}
		if c.Status != 0 && (c.Status < 400 || c.Status > 599) {
			t.Errorf("%s: status %d", c.Code, c.Status)
		}
	}
}

func TestProblemComesFromTheTable(t *testing.T) {
	p := NewProblem(CodeRateLimited, "1,000 requests in this second")
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"status":429`, `"code":"rate_limited"`, `"retryable":true`, `"hint":"Wait`, `"type":"/docs/problems#rate_limited"`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("%s lacks %s", raw, want)
		}
	}
	if got := p.Error(); got != "1,000 requests in this second (rate_limited)" {
		t.Errorf("got %q", got)
	}
	if got := NewProblem(CodeNotFound, "").Error(); got != "Not found (not_found)" {
		t.Errorf("got %q", got)
	}
	if got := NewProblem("no_such_code", "x"); got.Code != CodeInternal || got.Status != 500 {
		t.Errorf("an unknown code became %+v", got)
	}
}
