// Package surface checks the exported API of a package: [Load] type-checks the package, [API.Text] lists the API for a
// golden file, [API.Leaks] finds internal types in the API, and [API.Undocumented] finds names without a comment.
package surface

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// API is the exported API of one package.
type API struct {
	pkg   *types.Package
	files []*ast.File
}

// Load type-checks the package in a directory. It compiles the imported packages or takes them from the build cache.
func Load(dir string) (*API, error) {
	exports, err := exportFiles(dir)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	files, err := parse(fset, dir)
	if err != nil {
		return nil, err
	}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if name := exports[path]; name != "" {
			return os.Open(name)
		}
		return nil, fmt.Errorf("no export data of %s", path)
	})}
	pkg, err := conf.Check(files[0].Name.Name, fset, files, nil)
	return &API{pkg, files}, err
}

// exportFiles returns the files with the export data of the package's imports, by import path.
func exportFiles(dir string) (map[string]string, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".")
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return nil, fmt.Errorf("go list in %s: %w: %s", dir, err, exit.Stderr)
	} else if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for line := range bytes.Lines(out) {
		path, file, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		found[path] = file
	}
	return found, nil
}

func parse(fset *token.FileSet, dir string) (files []*ast.File, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no Go files in %s", dir)
	}
	return files, nil
}

// Text lists the exported API, one line for each constant, variable, function, type, field and method, sorted.
func (a *API) Text() string {
	var lines []string
	for _, name := range a.pkg.Scope().Names() {
		if o := a.pkg.Scope().Lookup(name); o.Exported() {
			lines = append(lines, a.describe(o)...)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

func (a *API) describe(o types.Object) []string {
	switch o := o.(type) {
	case *types.Const:
		return []string{fmt.Sprintf("const %s %s = %s", o.Name(), a.typeText(o.Type()), o.Val())}
	case *types.TypeName:
		return a.describeType(o)
	}
	return []string{types.ObjectString(o, a.qualify)}
}

func (a *API) describeType(o *types.TypeName) []string {
	line := "type " + o.Name()
	if o.IsAlias() {
		return []string{line + " = " + a.typeText(types.Unalias(o.Type()))}
	}
	named := o.Type().(*types.Named)
	structure, ok := named.Underlying().(*types.Struct)
	if !ok {
		line += " " + a.typeText(named.Underlying())
	} else {
		line += " struct"
	}
	lines := []string{line}
	if ok {
		for f := range structure.Fields() {
			if f.Exported() {
				lines = append(lines, fmt.Sprintf("type %s struct, %s %s", o.Name(), f.Name(), a.typeText(f.Type())))
			}
		}
	}
	for m := range methods(named) {
		lines = append(lines, types.ObjectString(m, a.qualify))
	}
	return lines
}

// methods iterates over the exported methods of a type and of its pointer type.
func methods(named *types.Named) func(yield func(*types.Func) bool) {
	return func(yield func(*types.Func) bool) {
		for m := range named.Methods() {
			if m.Exported() && !yield(m) {
				return
			}
		}
	}
}

func (a *API) typeText(t types.Type) string { return types.TypeString(t, a.qualify) }

// qualify returns the import path of another package, and "" for this package.
func (a *API) qualify(p *types.Package) string {
	if p == a.pkg {
		return ""
	}
	return p.Path()
}
