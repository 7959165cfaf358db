package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// Misfit is the error of an invalid value: the reason, and a valid form. An UnmarshalTOML method returns it to
// [Section.Decode].
type Misfit struct{ Why, Fix string }

func (m *Misfit) Error() string { return m.Why + "; " + m.Fix }

// decoder fills structs from TOML tables. The decoding of the TOML package stops at the first invalid value; decoder
// reports all of them with their positions.
type decoder struct {
	file     *file
	problems []Problem
}

// table fills the struct that v points to from the table p.
func (d *decoder) table(path []string, p toml.Primitive, v any) {
	fields := fieldsOf(reflect.ValueOf(v).Elem())
	if !d.isTable(p) {
		d.refuse(path, p, "is not a table", "write "+strings.Join(namesOf(fields), ", ")+" under it")
		return
	}
	children := d.file.children(p)
	for _, key := range sortedByLine(d.file, children) {
		at := append(path[:len(path):len(path)], toml.Key{key}.String())
		if field, ok := fields[key]; ok {
			d.value(at, children[key], field)
		} else {
			d.refuse(at, children[key], "is not a key of templates", suggestKey(key, namesOf(fields)))
		}
	}
}

func (d *decoder) value(path []string, p toml.Primitive, field reflect.Value) {
	to := field.Addr().Interface()
	own, ok := to.(toml.Unmarshaler)
	switch {
	case ok:
		d.unmarshal(path, p, own)
	case field.Kind() == reflect.Struct:
		d.table(path, p, to)
	case field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct:
		d.tables(path, p, field)
	case field.Kind() == reflect.Map && field.Type().Elem().Kind() == reflect.Struct:
		d.named(path, p, field)
	default:
		misplaced := field.Kind() == reflect.Map && !d.isTable(p)
		if misplaced || d.file.meta.PrimitiveDecode(p, to) != nil {
			d.refuse(path, p, "has a type that does not fit", "write "+formOf(field.Type()))
		}
	}
}

func (d *decoder) unmarshal(path []string, p toml.Primitive, to toml.Unmarshaler) {
	err := to.UnmarshalTOML(d.raw(p))
	var misfit *Misfit
	switch {
	case errors.As(err, &misfit):
		d.refuse(path, p, misfit.Why, misfit.Fix)
	case err != nil:
		d.refuse(path, p, err.Error(), "write something else")
	}
}

func (d *decoder) raw(p toml.Primitive) (v any) {
	// Every TOML value decodes into an empty interface, so there is no error.
	_ = d.file.meta.PrimitiveDecode(p, &v)
	return v
}

// isTable reports whether p is a table. The TOML package does not check it: any value decodes into a map, as an empty
// table.
func (d *decoder) isTable(p toml.Primitive) bool {
	_, ok := d.raw(p).(map[string]any)
	return ok
}

// tables replaces field by the list of structs in p. The parser has no positions for the items of a list, so problems
// in them get the position of the list.
func (d *decoder) tables(path []string, p toml.Primitive, field reflect.Value) {
	var items []toml.Primitive
	if d.file.meta.PrimitiveDecode(p, &items) != nil {
		d.refuse(path, p, "has a type that does not fit", "write "+formOf(field.Type()))
		return
	}
	field.Set(reflect.MakeSlice(field.Type(), len(items), len(items)))
	inner := &decoder{file: d.file}
	for i, item := range items {
		last := fmt.Sprintf("%s[%d]", path[len(path)-1], i+1)
		inner.table(append(path[:len(path)-1:len(path)-1], last), item, field.Index(i).Addr().Interface())
	}
	for _, problem := range inner.problems {
		problem.Origin = d.file.origin(p)
		d.problems = append(d.problems, problem)
	}
}

// named replaces field by the map of structs in p.
func (d *decoder) named(path []string, p toml.Primitive, field reflect.Value) {
	if !d.isTable(p) {
		d.refuse(path, p, "has a type that does not fit", "write "+formOf(field.Type()))
		return
	}
	field.Set(reflect.MakeMap(field.Type()))
	children := d.file.children(p)
	for _, key := range sortedByLine(d.file, children) {
		one := reflect.New(field.Type().Elem())
		d.value(append(path[:len(path):len(path)], toml.Key{key}.String()), children[key], one.Elem())
		field.SetMapIndex(reflect.ValueOf(key), one.Elem())
	}
}

func (d *decoder) refuse(path []string, p toml.Primitive, why, fix string) {
	d.problems = append(d.problems, Problem{Key: strings.Join(path, "."), Origin: d.file.origin(p), Why: why, Fix: fix})
}

// fieldsOf returns the fields of a struct by their TOML names.
func fieldsOf(v reflect.Value) map[string]reflect.Value {
	found := map[string]reflect.Value{}
	for i := range v.NumField() {
		if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("toml"), ","); name != "" && name != "-" {
			found[name] = v.Field(i)
		}
	}
	return found
}

func namesOf(fields map[string]reflect.Value) []string { return slices.Sorted(maps.Keys(fields)) }

// formOf describes how to write a value of the type in TOML.
func formOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return formOf(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return "a list of tables, such as [{…}, {…}]"
		}
		return `a list of texts in quotes, such as ["a", "b"]`
	case reflect.Map:
		if t.Elem().Kind() == reflect.Struct {
			return "a table of tables, such as {name = {…}}"
		}
		return `a table of texts, such as {name = "value"}`
	}
	return "text in double quotes"
}
