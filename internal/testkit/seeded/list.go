package seeded

import (
	"fmt"
	"regexp"
	"strings"
)

// Bug is one line of seeded.txt.
type Bug struct {
	Tag     string
	Package string // as "go test" takes it: ./internal/store
	Test    string // the -run pattern
	Breaks  string // in words
	Always  bool   // make test runs it too
}

var tagName = regexp.MustCompile(`^seeded_[a-z0-9]+$`)

// ParseList reads seeded.txt: "tag | package | test | what it breaks", with "| always" at the end of
// those that make test runs. Patterns may contain | without spaces around it.
func ParseList(text string) ([]Bug, error) {
	var bugs []Bug
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		bug, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		bugs = append(bugs, bug)
	}
	return bugs, nil
}

func parseLine(line string) (Bug, error) {
	cells := strings.Split(line, " | ")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	always := len(cells) == 5 && cells[4] == "always"
	if len(cells) != 4 && !always {
		return Bug{}, fmt.Errorf("want \"tag | package | test | what it breaks\" and perhaps \"| always\", got %q", line)
	}
	bug := Bug{Tag: cells[0], Package: cells[1], Test: cells[2], Breaks: cells[3], Always: always}
	if !tagName.MatchString(bug.Tag) {
		return Bug{}, fmt.Errorf("the tag %q does not look like seeded_name", bug.Tag)
	}
	if !strings.HasPrefix(bug.Package, "./") || bug.Test == "" || bug.Breaks == "" {
		return Bug{}, fmt.Errorf("want a package that begins with ./, a test and a reason, got %q", line)
	}
	if _, err := regexp.Compile(bug.Test); err != nil {
		return Bug{}, err
	}
	return bug, nil
}
