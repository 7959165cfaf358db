package config

import (
	"fmt"
	"slices"

	"github.com/BurntSushi/toml"
)

// Section is one [templates.NAME] table, read by the package that knows what
// may stand in it.
type Section struct {
	// Origin is "file PATH:LINE".
	Origin string

	name string
	meta *toml.MetaData
	raw  toml.Primitive
}

// Decode fills v, a pointer to a struct with toml tags. A key that v has no
// field for is an error.
func (s Section) Decode(v any) error {
	if err := s.meta.PrimitiveDecode(s.raw, v); err != nil {
		return fmt.Errorf("read template %s (%s): %w", s.name, s.Origin, err)
	}
	prefix := []string{"templates", s.name}
	for _, key := range s.meta.Undecoded() {
		if len(key) > 2 && slices.Equal(key[:2], prefix) {
			return fmt.Errorf("read template %s (%s): %s is not a key of templates", s.name, s.Origin, toml.Key(key[2:]))
		}
	}
	return nil
}

func (f *file) takeTemplates(p toml.Primitive, v any, origin string) {
	var sections map[string]toml.Primitive
	tables, ok := v.(map[string]any)
	if !ok || f.meta.PrimitiveDecode(p, &sections) != nil {
		f.problems = append(f.problems, Problem{Key: "templates", Origin: origin,
			Why: "is not a table", Fix: "write a section [templates.NAME] for each template"})
		return
	}
	f.templates = map[string]Section{}
	for _, name := range sortedByLine(f, sections) {
		section := Section{name: name, meta: &f.meta, raw: sections[name],
			Origin: fmt.Sprintf("file %s:%d", f.path, f.line(sections[name]))}
		if fault := section.check(tables[name]); fault != nil {
			f.problems = append(f.problems, Problem{Key: "templates." + name, Origin: section.Origin,
				Why: fault.why, Fix: fault.fix})
			continue
		}
		f.templates[name] = section
	}
}

func (s Section) check(v any) *fault {
	if _, ok := v.(map[string]any); !ok {
		return faultf("write a section [templates."+s.name+"]", "is not a table")
	}
	_, fault := parseName(s.name)
	return fault
}
