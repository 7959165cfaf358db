package seeded

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// Folder is the folder of the patches, relative to the module's root. Its files are <package>/<name>.patch.
const Folder = "internal/testkit/seeded/bugs"

// Bug is one patch file.
type Bug struct {
	Name   string // path below Folder without .patch: store/nofence
	Breaks string // description of the bug's effect
	Tests  []Test // tests that must all fail with the bug
	diff   []fileDiff
}

// Test is one test that must notice a bug.
type Test struct {
	Package string // package argument of "go test": ./internal/store
	Pattern string // argument of "go test -run"
	Always  bool   // whether make test also runs this test with the bug
}

// Load reads all patches below root, sorted by name.
func Load(root fs.FS) ([]Bug, error) {
	var bugs []Bug
	err := fs.WalkDir(root, Folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if path.Ext(name) != ".patch" {
			return fmt.Errorf("%s: want a file <package>/<name>.patch", name)
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		bug, err := ParseBug(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		bug.Name = strings.TrimSuffix(strings.TrimPrefix(name, Folder+"/"), ".patch")
		bugs = append(bugs, bug)
		return nil
	})
	return bugs, err
}

// ParseBug parses the header and the diff of one patch.
func ParseBug(text string) (Bug, error) {
	var bug Bug
	header, diff, found := strings.Cut(text, "diff --git ")
	for n, line := range strings.Split(header, "\n") {
		if err := bug.readHeader(strings.TrimSpace(line)); err != nil {
			return Bug{}, fmt.Errorf("line %d: %w", n+1, err)
		}
	}
	if bug.Breaks == "" || len(bug.Tests) == 0 {
		return Bug{}, errors.New(`want "Breaks: …" and "Test: ./package ^TestName$" before the diff`)
	}
	if !found {
		return Bug{}, errors.New("no diff in the patch")
	}
	var err error
	if bug.diff, err = parseDiff("diff --git " + diff); err != nil {
		return Bug{}, err
	}
	return bug, nil
}

func (b *Bug) readHeader(line string) error {
	key, value, _ := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	switch {
	case line == "":
		return nil
	case key == "Breaks" && value != "" && b.Breaks == "":
		b.Breaks = value
		return nil
	case key == "Test":
		test, err := parseTest(value)
		b.Tests = append(b.Tests, test)
		return err
	}
	return fmt.Errorf(`want one "Breaks: …" and "Test: …" lines, got %q`, line)
}

func parseTest(value string) (Test, error) {
	words := strings.Fields(value)
	always := len(words) == 3 && words[2] == "always"
	if len(words) != 2 && !always || !strings.HasPrefix(words[0], "./") {
		return Test{}, fmt.Errorf(`want "./package ^TestName$", optionally with "always", got %q`, value)
	}
	if _, err := regexp.Compile(words[1]); err != nil {
		return Test{}, err
	}
	return Test{Package: words[0], Pattern: words[1], Always: always}, nil
}
