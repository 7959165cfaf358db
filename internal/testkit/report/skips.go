package report

import (
	"fmt"
	"regexp"
	"strings"
)

// allowance is one line of allowed_skips.txt: "pattern | reason".
type allowance struct {
	pattern *regexp.Regexp
	reason  string
}

// neverReason matches things that make test installs or requires. A test may not be skipped because one is missing.
var neverReason = regexp.MustCompile(`(?i)\b(root|postgres(ql)?|s3|claude|agent cli)\b`)

// parseSkips reads allowed_skips.txt. A pattern is a regular expression that must match a whole name in the form
// "package.TestName/subtest".
func parseSkips(text string) ([]allowance, error) {
	var list []allowance
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cut := strings.LastIndex(line, " | ")
		if cut < 0 || strings.TrimSpace(line[cut+3:]) == "" {
			return nil, fmt.Errorf("line %d: want \"pattern | reason\", got %q", n+1, line)
		}
		pattern, reason := strings.TrimSpace(line[:cut]), strings.TrimSpace(line[cut+3:])
		if word := neverReason.FindString(reason); word != "" {
			return nil, fmt.Errorf("line %d: %q is never a reason to skip: make test provides it", n+1, word)
		}
		re, err := regexp.Compile("^(?:" + pattern + ")$")
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		list = append(list, allowance{re, reason})
	}
	return list, nil
}

// refusedSkips lists the skipped tests that no line of allowed_skips.txt allows, with their output.
func (r *results) refusedSkips(allowed []allowance) []string {
	var refused []string
	for _, t := range r.sorted() {
		if t.status == skipped && !anyAllows(allowed, t.String()) {
			refused = append(refused, fmt.Sprintf("%s was skipped: %s", t, t.said()))
		}
	}
	return refused
}

func anyAllows(allowed []allowance, name string) bool {
	for _, a := range allowed {
		if a.pattern.MatchString(name) {
			return true
		}
	}
	return false
}

// said returns the test's output on one line, without the lines of the testing package.
func (t *test) said() string {
	var words []string
	for _, line := range t.output {
		if !isFrame(line) && !strings.HasPrefix(strings.TrimSpace(line), "--- ") {
			words = append(words, strings.Fields(line)...)
		}
	}
	if len(words) == 0 {
		return "it gave no reason"
	}
	return strings.Join(words, " ")
}
