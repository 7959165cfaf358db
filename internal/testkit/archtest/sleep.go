package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
)

// testsDoNotSleep finds calls of time.Sleep in tests. They are allowed inside a synctest bubble, where a sleep is
// exact and takes no real time.
func testsDoNotSleep(m *Module) (found []string) {
	for _, p := range m.Packages {
		for _, f := range p.Files {
			if !f.Test {
				continue
			}
			for _, pos := range sleeps(f) {
				found = append(found, fmt.Sprintf("%s:%d: time.Sleep outside synctest.Test; use testkit.Eventually or a fake clock's bubble", f.Path, f.line(pos)))
			}
		}
	}
	return found
}

func sleeps(f *File) (found []token.Pos) {
	clock, bubble := localName(f, "time"), localName(f, "testing/synctest")
	if clock == "" {
		return nil
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && selects(call.Fun, bubble, "Test") {
			return false
		}
		if e, ok := n.(ast.Expr); ok && selects(e, clock, "Sleep") {
			found = append(found, e.Pos())
		}
		return true
	})
	return found
}

// localName returns the file's name for an imported package, or "" if the file does not import it.
func localName(f *File, importPath string) string {
	for i, p := range f.imports() {
		if p != importPath {
			continue
		}
		if name := f.AST.Imports[i].Name; name != nil {
			return name.Name
		}
		return path.Base(importPath)
	}
	return ""
}

func selects(e ast.Expr, pkg, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name || pkg == "" {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == pkg
}
