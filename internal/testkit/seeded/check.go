package seeded

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// Check returns a sentence for each mistake in the bugs: a patch that does not apply to the tree below root,
// breaks its syntax or changes tests, or a test that does not exist.
func Check(root fs.FS, bugs []Bug) []string {
	var wrong []string
	for _, bug := range bugs {
		if err := bug.checkPatch(root); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s/%s.patch: %v", Folder, bug.Name, err))
		}
		for _, test := range bug.Tests {
			if err := test.exists(root); err != nil {
				wrong = append(wrong, fmt.Sprintf("%s/%s.patch: %v", Folder, bug.Name, err))
			}
		}
	}
	return wrong
}

func (b Bug) checkPatch(root fs.FS) error {
	files, err := b.patched(root)
	if err != nil {
		return err
	}
	for name, text := range files {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "internal/testkit/") {
			return fmt.Errorf("%s: a bug goes into the product, not into its tests", name)
		}
		if path.Ext(name) != ".go" || text == nil {
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution); err != nil {
			return err
		}
	}
	return nil
}

// exists returns an error if no test function of the package matches the first part of the pattern.
func (t Test) exists(root fs.FS) error {
	files, err := fs.Glob(root, path.Join(strings.TrimPrefix(t.Package, "./"), "*_test.go"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s has no tests", t.Package)
	}
	first, _, _ := strings.Cut(t.Pattern, "/")
	pattern, err := regexp.Compile(first)
	if err != nil {
		return err
	}
	for _, name := range files {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && pattern.MatchString(f.Name.Name) {
				return nil
			}
		}
	}
	return fmt.Errorf("%s has no test %s", t.Package, t.Pattern)
}
