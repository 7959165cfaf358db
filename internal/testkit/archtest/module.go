// Package archtest checks rules about the whole module: which packages may import which, that packages and
// exported names are documented, and some conventions of style.
//
// [Load] reads a source tree, [Rules] is the list of rules, and layers.go assigns each package to a layer.
// The package's own test applies all rules to Berth. Each rule also has a test that shows that the rule can fail.
package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// modulePath is the module path of Berth.
const modulePath = "github.com/berthdev/berth"

// Module is a source tree, read once for all rules.
type Module struct {
	Packages []*Package
	Texts    map[string]string // every text file by its path, Go files included
}

// Package is one folder of Go files. Load ignores folders named testdata and nested modules.
type Package struct {
	Path  string // relative to the module's root: "internal/store"
	Name  string
	Files []*File
}

// File is one parsed Go file. Load ignores build constraints, so that the rules apply to the files of every build.
type File struct {
	Path      string
	Test      bool // named *_test.go
	Generated bool
	Lines     int
	AST       *ast.File
	fset      *token.FileSet
}

// Load reads the tree below fsys. It ignores Go files that do not parse, because the compiler reports them.
func Load(fsys fs.FS) (*Module, error) {
	m := &Module{Texts: map[string]string{}}
	packages := map[string]*Package{}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && ignored(d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || name == ".git" { // .git is a file in a git worktree
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		if utf8.Valid(text) {
			m.Texts[name] = string(text)
		}
		return nil
	})
	for _, name := range sortedKeys(m.Texts) {
		if strings.HasSuffix(name, ".go") && !m.outside(name) {
			m.addFile(packages, name)
		}
	}
	return m, err
}

// ignored reports whether a folder of this name holds built, downloaded or other files that are not source.
func ignored(dir string) bool {
	hidden := strings.HasPrefix(dir, ".") && dir != ".ci" && dir != ".github"
	return hidden || dir == "bin" || dir == "node_modules" || dir == "berth-data"
}

// outside reports whether a Go file is test data or belongs to a nested module.
func (m *Module) outside(name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, nested := m.Texts[dir+"/go.mod"]; nested || path.Base(dir) == "testdata" {
			return true
		}
	}
	return false
}

func (m *Module) addFile(packages map[string]*Package, name string) {
	text := m.Texts[name]
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return
	}
	dir := path.Dir(name)
	p := packages[dir]
	if p == nil {
		p = &Package{Path: dir}
		packages[dir] = p
		m.Packages = append(m.Packages, p)
	}
	f := &File{
		Path:      name,
		Test:      strings.HasSuffix(name, "_test.go"),
		Generated: ast.IsGenerated(tree),
		Lines:     strings.Count(text, "\n"),
		AST:       tree,
		fset:      fset,
	}
	if !f.Test {
		p.Name = tree.Name.Name
	}
	p.Files = append(p.Files, f)
}

// sources returns the package's files that are not tests.
func (p *Package) sources() []*File {
	return slices.DeleteFunc(slices.Clone(p.Files), func(f *File) bool { return f.Test })
}

// imports returns every import path of the file.
func (f *File) imports() []string {
	var paths []string
	for _, spec := range f.AST.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// own returns an import path relative to the module. The second result is false if the package is not in the module.
func own(importPath string) (string, bool) {
	if importPath == modulePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

// line returns the line number of a position in the file.
func (f *File) line(pos token.Pos) int { return f.fset.Position(pos).Line }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
