package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

func onePackageDocEach(m *Module) (found []string) {
	for _, p := range m.Packages {
		sources := p.sources()
		if len(sources) == 0 {
			continue
		}
		var docs []string
		for _, f := range sources {
			if f.AST.Doc != nil && f.AST.Doc.Text() != "" {
				docs = append(docs, f.Path)
				if !beginsWithName(f.AST.Doc.Text(), p) {
					found = append(found, fmt.Sprintf("%s: the package doc does not begin with what it is about: \"Package %s ...\"", f.Path, p.Name))
				}
			}
		}
		if len(docs) != 1 {
			found = append(found, fmt.Sprintf("%s has %d package docs %v, want one", p.Path, len(docs), docs))
		}
	}
	return found
}

// beginsWithName reports whether the package doc begins by Go's convention: "Package name ...", or for a program
// "Command name ..." or "Name ...".
func beginsWithName(doc string, p *Package) bool {
	if p.Name != "main" {
		return strings.HasPrefix(doc, "Package "+p.Name+" ")
	}
	first, _, _ := strings.Cut(doc, " ")
	return first == "Command" || strings.EqualFold(first, path.Base(p.Path))
}

func exportedNamesAreDocumented(m *Module) (found []string) {
	for _, p := range m.Packages {
		if p.Name == "main" {
			continue
		}
		for _, f := range p.sources() {
			if f.Generated {
				continue
			}
			for _, decl := range f.AST.Decls {
				for _, name := range undocumented(decl) {
					found = append(found, fmt.Sprintf("%s:%d: %s has no doc comment", f.Path, f.line(decl.Pos()), name))
				}
			}
		}
	}
	return found
}

func undocumented(decl ast.Decl) []string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		return undocumentedFunc(d)
	case *ast.GenDecl:
		return undocumentedGroup(d)
	}
	return nil
}

// wellKnown lists methods of interfaces in the standard library. They need no doc comment.
var wellKnown = []string{"Error", "String", "Unwrap", "ServeHTTP", "Read", "Write", "Close", "Len", "Less", "Swap"}

func undocumentedFunc(d *ast.FuncDecl) []string {
	if d.Doc.Text() != "" || !d.Name.IsExported() {
		return nil
	}
	if d.Recv == nil {
		return []string{d.Name.Name}
	}
	receiver := receiverName(d.Recv.List[0].Type)
	if !ast.IsExported(receiver) || slices.Contains(wellKnown, d.Name.Name) {
		return nil
	}
	return []string{receiver + "." + d.Name.Name}
}

func receiverName(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiverName(t.X)
	case *ast.IndexExpr:
		return receiverName(t.X)
	case *ast.IndexListExpr:
		return receiverName(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// undocumentedGroup returns the exported names without a comment in a declaration of types, constants or variables.
// For constants and variables a comment on the group is enough. Each type of a group needs a separate comment.
func undocumentedGroup(d *ast.GenDecl) (names []string) {
	group := d.Doc.Text() != ""
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && s.Doc.Text() == "" && (!group || d.Lparen.IsValid()) {
				names = append(names, s.Name.Name)
			}
		case *ast.ValueSpec:
			if !group && s.Doc.Text() == "" && s.Comment.Text() == "" && (d.Tok == token.CONST || d.Tok == token.VAR) {
				names = append(names, exported(s.Names)...)
			}
		}
	}
	return names
}

func exported(idents []*ast.Ident) (names []string) {
	for _, id := range idents {
		if id.IsExported() {
			names = append(names, id.Name)
		}
	}
	return names
}
