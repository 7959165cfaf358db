package config

import (
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// Section is one [templates.NAME] table. Package template decodes it.
type Section struct {
	// Origin is the position of the section: "file PATH:LINE".
	Origin string

	name string
	file *file
	raw  toml.Primitive
}

// Decode fills v, a pointer to a struct whose fields have toml tags. It returns an [*Error] with a problem for each
// unknown key and each invalid value. Fields without a key in the section stay unchanged.
func (s Section) Decode(v any) error {
	d := &decoder{file: s.file}
	d.table([]string{"templates", s.name}, s.raw, v)
	if len(d.problems) > 0 {
		return &Error{Problems: d.problems}
	}
	return nil
}

// Has reports whether the section has the key.
func (s Section) Has(key string) bool {
	_, ok := s.file.children(s.raw)[key]
	return ok
}

// OriginOf returns the position of a key below the section as "file PATH:LINE". If the key does not exist, it returns
// the position of the nearest table around it.
func (s Section) OriginOf(path ...string) string {
	at := s.raw
	for _, key := range path {
		child, ok := s.file.children(at)[key]
		if !ok {
			break
		}
		at = child
	}
	return s.file.origin(at)
}

func (f *file) takeTemplates(p toml.Primitive, v any, origin string) {
	tables, ok := v.(map[string]any)
	if !ok {
		f.problems = append(f.problems, Problem{Key: "templates", Origin: origin,
			Why: "is not a table", Fix: "write a section [templates.NAME] for each template"})
		return
	}
	f.templates = map[string]Section{}
	sections := f.children(p)
	for _, name := range sortedByLine(f, sections) {
		section := Section{name: name, file: f, raw: sections[name], Origin: f.origin(sections[name])}
		if fault := section.check(tables[name]); fault != nil {
			f.problems = append(f.problems, Problem{Key: toml.Key{"templates", name}.String(), Origin: section.Origin,
				Why: fault.why, Fix: fault.fix})
			continue
		}
		f.templates[name] = section
	}
}

func (s Section) check(v any) *badValue {
	if _, ok := v.(map[string]any); !ok {
		return badValuef("write a section [templates."+s.name+"]", "is not a table")
	}
	_, fault := parseName(s.name)
	return fault
}

// children returns the values of a table by key. It returns nothing if p is not a table.
func (f *file) children(p toml.Primitive) map[string]toml.Primitive {
	var found map[string]toml.Primitive
	// A value that is not a table decodes to an empty map.
	_ = f.meta.PrimitiveDecode(p, &found)
	return found
}

func (f *file) origin(p toml.Primitive) string {
	return fmt.Sprintf("file %s:%d", f.path, f.line(p))
}

// suggestKey returns a suggestion for an unknown key.
func suggestKey(key string, known []string) string {
	if near := nearestOf(key, known); near != "" {
		return "did you mean " + near + "?"
	}
	return "remove it; the keys are " + strings.Join(known, ", ")
}
