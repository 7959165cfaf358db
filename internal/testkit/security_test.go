package testkit_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Every test that docs/SECURITY.md names exists in the package that it names.
func TestSecurityNamesTestsThatExist(t *testing.T) {
	root := "../.."
	page, err := os.ReadFile(filepath.Join(root, "docs", "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`([a-z]+)\\.(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(string(page), -1)
	if len(names) < 50 {
		t.Fatalf("only %d tests are named", len(names))
	}
	for _, name := range names {
		if !declares(t, root, name[1], name[2]) {
			t.Errorf("there is no test %s in a package %s", name[2], name[1])
		}
	}
}

// declares reports whether a package of that name, at any depth of internal, has the test.
func declares(t *testing.T, root, pkg, test string) bool {
	t.Helper()
	var files []string
	for _, pattern := range []string{"internal/" + pkg, "internal/*/" + pkg} {
		found, err := filepath.Glob(filepath.Join(root, pattern, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`(?m)^func ` + test + `\(`).Match(text) {
			return true
		}
	}
	return false
}
