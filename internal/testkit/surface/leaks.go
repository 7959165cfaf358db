package surface

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// Leaks lists the exported names whose type mentions a type of an internal package, which users of the package
// cannot name.
func (a *API) Leaks() []string {
	var found []string
	for _, name := range a.pkg.Scope().Names() {
		o := a.pkg.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		found = append(found, leaksOf(name, o.Type())...)
		named, ok := o.Type().(*types.Named)
		if _, isType := o.(*types.TypeName); !ok || !isType {
			continue
		}
		found = append(found, leaksOf(name, named.Underlying())...)
		for m := range methods(named) {
			found = append(found, leaksOf(name+"."+m.Name(), m.Type())...)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// leaksOf lists the internal types that a type mentions in its exported parts. It does not look into other named types,
// because Leaks checks each exported type separately.
func leaksOf(name string, t types.Type) (found []string) {
	visit := func(inner ...types.Type) {
		for _, t := range inner {
			found = append(found, leaksOf(name, t)...)
		}
	}
	switch t := t.(type) {
	case *types.Named:
		found = append(found, foreign(name, t.Obj())...)
		for arg := range t.TypeArgs().Types() {
			visit(arg)
		}
	case *types.Alias:
		found = append(found, foreign(name, t.Obj())...)
		visit(types.Unalias(t))
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() || f.Embedded() {
				found = append(found, leaksOf(name+"."+f.Name(), f.Type())...)
			}
		}
	case *types.Interface:
		for m := range t.ExplicitMethods() {
			found = append(found, leaksOf(name+"."+m.Name(), m.Type())...)
		}
		for e := range t.EmbeddedTypes() {
			visit(e)
		}
	case *types.Signature:
		for v := range t.Params().Variables() {
			visit(v.Type())
		}
		for v := range t.Results().Variables() {
			visit(v.Type())
		}
	case *types.Map:
		visit(t.Key(), t.Elem())
	case interface{ Elem() types.Type }: // pointers, slices, arrays and channels
		visit(t.Elem())
	}
	return found
}

func foreign(name string, o *types.TypeName) []string {
	if p := o.Pkg(); p != nil && slices.Contains(strings.Split(p.Path(), "/"), "internal") {
		return []string{fmt.Sprintf("%s mentions %s.%s", name, p.Path(), o.Name())}
	}
	return nil
}

// Undocumented lists the exported names without a comment: package-level names, methods and fields of structs.
// The comment of a group is enough for its members.
func (a *API) Undocumented() []string {
	var found []string
	miss := func(name string, docs ...*ast.CommentGroup) {
		if ast.IsExported(name[strings.LastIndex(name, ".")+1:]) && !slices.ContainsFunc(docs, func(d *ast.CommentGroup) bool { return d.Text() != "" }) {
			found = append(found, name)
		}
	}
	for _, file := range a.files {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if receiver, ok := receiverOf(d); ok {
					miss(receiver+d.Name.Name, d.Doc)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					undocumentedSpec(d, spec, miss)
				}
			}
		}
	}
	return found
}

// receiverOf returns the prefix "Type." for the name of a method, or "" for a function, and whether the receiver's type
// is exported.
func receiverOf(d *ast.FuncDecl) (prefix string, exported bool) {
	if d.Recv == nil {
		return "", true
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	name := types.ExprString(t)
	return name + ".", ast.IsExported(name)
}

func undocumentedSpec(d *ast.GenDecl, spec ast.Spec, miss func(name string, docs ...*ast.CommentGroup)) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			miss(name.Name, d.Doc, s.Doc, s.Comment)
		}
	case *ast.TypeSpec:
		miss(s.Name.Name, d.Doc, s.Doc, s.Comment)
		structure, ok := s.Type.(*ast.StructType)
		if !ok || !s.Name.IsExported() {
			return
		}
		for _, field := range structure.Fields.List {
			for _, name := range field.Names {
				miss(s.Name.Name+"."+name.Name, field.Doc, field.Comment)
			}
		}
	}
}
