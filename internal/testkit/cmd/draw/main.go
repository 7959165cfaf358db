// Command draw prints comments and names of the source code at random, for the reader test that docs/decisions
// describes. An engineer who did not write them reads each one with the line it stands on and the comment
// above, and nothing else.
//
//	go run ./internal/testkit/cmd/draw [-seed N] [-n 20] [DIR]
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	seed := flag.Uint64("seed", 1, "the same seed draws the same from the same tree")
	n := flag.Int("n", 20, "number of comments and names")
	flag.Parse()
	dir := "."
	if flag.NArg() > 0 {
		dir = flag.Arg(0)
	}
	all, err := read(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "draw:", err)
		os.Exit(1)
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i, one := range all[:min(*n, len(all))] {
		fmt.Printf("%2d  %s\n", i+1, one)
	}
}

// read returns every comment and every declared name of the files that are not tests, with their positions.
func read(dir string) (all []string, err error) {
	set := token.NewFileSet()
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && slices.Contains([]string{"bin", "testdata", ".git"}, e.Name()) {
			return filepath.SkipDir
		}
		if e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		lines := strings.Split(string(text), "\n")
		for _, c := range f.Comments {
			at := set.Position(c.Pos())
			shown := strings.TrimSpace(c.Text())
			if line := strings.TrimSpace(lines[at.Line-1]); !strings.HasPrefix(line, "//") {
				shown = line // a comment behind code
			}
			all = append(all, fmt.Sprintf("%s\n      %s", at, strings.ReplaceAll(shown, "\n", "\n      ")))
		}
		for _, name := range names(f) {
			at := set.Position(name.Pos())
			first := at.Line - 1
			for first > 0 && strings.HasPrefix(strings.TrimSpace(lines[first-1]), "//") {
				first-- // the name's comment
			}
			shown := make([]string, 0, at.Line-first)
			for _, line := range lines[first:at.Line] {
				shown = append(shown, strings.TrimSpace(line))
			}
			all = append(all, fmt.Sprintf("%s: the name %s\n      %s", at, name.Name, strings.Join(shown, "\n      ")))
		}
		return nil
	})
	return all, err
}

// names returns the names that a file declares: functions, types, fields, constants and variables of the package.
func names(f *ast.File) (found []*ast.Ident) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			found = append(found, d.Name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					found = append(found, s.Name)
					ast.Inspect(s.Type, func(n ast.Node) bool {
						if field, ok := n.(*ast.Field); ok {
							found = append(found, field.Names...)
						}
						_, function := n.(*ast.FuncType)
						return !function
					})
				case *ast.ValueSpec:
					found = append(found, s.Names...)
				}
			}
		}
	}
	return slices.DeleteFunc(found, func(name *ast.Ident) bool { return len(name.Name) < 3 })
}
