package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every constant Event… is described once, and every described field exists in Go.
func TestEveryEventIsDescribed(t *testing.T) {
	described := map[string][]string{}
	for of, all := range map[reflect.Type][]EventInfo{reflect.TypeFor[TurnEvent](): TurnEvents, reflect.TypeFor[ExecEvent](): ExecEvents} {
		fields, used := jsonFields(of), map[string]bool{"type": true}
		for _, e := range all {
			described[e.Type] = append(described[e.Type], of.Name())
			if e.Doc == "" || e.Schema == "" {
				t.Errorf("%s has no description or no schema", e.Type)
			}
			for _, f := range e.Fields {
				used[f.Name] = true
				if _, ok := fields[f.Name]; !ok {
					t.Errorf("%s has the field %s, which %v has not", e.Type, f.Name, of)
				}
			}
		}
		for name := range fields {
			if !used[name] {
				t.Errorf("the field %s of %v belongs to no event", name, of)
			}
		}
	}
	constants := eventConstants(t)
	for name, value := range constants {
		if len(described[value]) == 0 {
			t.Errorf("%s = %q is not described", name, value)
		}
	}
	for _, value := range constants {
		delete(described, value)
	}
	if len(described) > 0 {
		t.Errorf("described without a constant: %v", slices.Sorted(maps.Keys(described)))
	}
}

func eventConstants(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, file := range []string{"exec.go", "conversation.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if ok && strings.HasPrefix(v.Names[0].Name, "Event") && len(v.Values) == 1 {
				found[v.Names[0].Name], _ = strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			}
			return true
		})
	}
	if len(found) < 18 {
		t.Fatalf("only %d constants found: %v", len(found), found)
	}
	return found
}

// jsonFields returns the fields of a struct by their names in JSON, those of embedded structs included.
func jsonFields(of reflect.Type) map[string]bool {
	fields := map[string]bool{}
	for _, f := range reflect.VisibleFields(of) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			fields[name] = true
		}
	}
	return fields
}
