package tool

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// ArgumentError lists the wrong arguments of a call. Its code is invalid_request.
type ArgumentError struct {
	Fields []api.FieldError // with the location arguments.NAME, arguments or timeout; they never contain values
}

func (e *ArgumentError) Error() string {
	all := make([]string, min(len(e.Fields), mostTold))
	for i, f := range e.Fields[:len(all)] {
		all[i] = f.Location + ": " + f.Message
	}
	text := strings.Join(all, "; ")
	if more := len(e.Fields) - len(all); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// mostTold is the maximum number of wrong arguments in an error's text.
const mostTold = 10

// Unwrap returns a fault.Error with the code and a hint.
func (e *ArgumentError) Unwrap() error {
	return &fault.Error{Code: api.CodeInvalidRequest, Err: fmt.Errorf("%s", e.Error()), Hint: "Compare the arguments with the tool's input_schema."}
}

func wrong(location, message string) *ArgumentError {
	return &ArgumentError{[]api.FieldError{{Location: location, Message: message}}}
}

// arguments checks and decodes the arguments of one tool.
type arguments struct {
	schema  *jsonschema.Schema
	fields  map[string]*jsonschema.Resolved
	aliases map[string]string // field names by their aliases
}

// newArguments makes the schema of In, with the limits of s, which Go types cannot express. It panics on an error: the
// tools are fixed at build time.
func newArguments[In any](s spec) *arguments {
	schema, err := jsonschema.For[In](nil)
	if err != nil {
		panic(fmt.Sprintf("the arguments of %s: %v", s.name, err))
	}
	s.limits(schema.Properties)
	a := &arguments{schema: schema, fields: map[string]*jsonschema.Resolved{}, aliases: s.aliases}
	for name, field := range schema.Properties {
		if a.fields[name], err = field.Resolve(nil); err != nil {
			panic(fmt.Sprintf("the argument %s of %s: %v", name, s.name, err))
		}
	}
	return a
}

// read checks the arguments against the schema and decodes them.
func (a *arguments) read(raw json.RawMessage, into any) error {
	var values map[string]any
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &values); err != nil {
			return wrong("arguments", "expected a JSON object")
		}
	}
	a.tidy(values)
	if bad := a.check(values); len(bad) > 0 {
		return &ArgumentError{bad}
	}
	clean, err := json.Marshal(values) // writes 5.0 as 5, which decodes into an int
	if err == nil {
		err = json.Unmarshal(clean, into)
	}
	if err != nil {
		return wrong("arguments", "expected what the schema describes: "+err.Error())
	}
	return nil
}

// tidy removes null values, which many programs send for missing fields, and replaces aliases by field names.
func (a *arguments) tidy(values map[string]any) {
	maps.DeleteFunc(values, func(_ string, v any) bool { return v == nil })
	for alias, name := range a.aliases {
		value, given := values[alias]
		if _, both := values[name]; given && !both {
			values[name] = value
			delete(values, alias)
		}
	}
}

// check returns an error for each wrong field. The schema library validates the values. Its messages are not used,
// because they repeat the value.
func (a *arguments) check(values map[string]any) (bad []api.FieldError) {
	for _, name := range a.schema.Required {
		if _, ok := values[name]; !ok {
			bad = append(bad, api.FieldError{Location: "arguments." + name, Message: "is missing; " + expected(a.schema.Properties[name])})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		field, known := a.fields[name]
		switch {
		case len(bad) == maxBad:
			return bad
		case !known:
			bad = append(bad, api.FieldError{Location: "arguments." + shown(fault.Clip(name, 80)), Message: "there is no such field; there are " + a.names()})
		case field.Validate(values[name]) != nil:
			bad = append(bad, api.FieldError{Location: "arguments." + name, Message: expected(a.schema.Properties[name])})
		}
	}
	return bad
}

// maxBad is the maximum number of problems that are reported at once.
const maxBad = 10

func (a *arguments) names() string {
	return strings.Join(slices.Sorted(maps.Keys(a.schema.Properties)), ", ")
}

// expected describes a field's schema in words.
func expected(s *jsonschema.Schema) string {
	switch {
	case s.Enum != nil:
		return "expected one of " + strings.Trim(fmt.Sprint(s.Enum), "[]")
	case s.Type == "boolean":
		return "expected true or false"
	case s.Type == "integer":
		return fmt.Sprintf("expected a whole number from %.0f to %.0f", *s.Minimum, *s.Maximum)
	case s.Type == "number":
		return fmt.Sprintf("expected a number from %.0f to %.0f", *s.Minimum, *s.Maximum)
	case s.MinLength != nil && s.MaxLength != nil:
		return fmt.Sprintf("expected a text of %d to %d characters", *s.MinLength, *s.MaxLength)
	case s.MaxLength != nil:
		return fmt.Sprintf("expected a text of at most %d characters", *s.MaxLength)
	case s.MinLength != nil:
		return "expected a text that is not empty"
	}
	return "expected a text"
}

// between sets the minimum, the maximum and the default of a number. A nil default is not set.
func between(s *jsonschema.Schema, least, most float64, otherwise any) {
	s.Minimum, s.Maximum = &least, &most
	if otherwise != nil {
		s.Default, _ = json.Marshal(otherwise) // a number
	}
}

// long sets the minimum and maximum length of a text.
func long(s *jsonschema.Schema, least, most int) {
	if s.MaxLength = &most; least > 0 {
		s.MinLength = &least
	}
}

func oneOf(s *jsonschema.Schema, otherwise string, values ...any) {
	s.Enum = values
	s.Default, _ = json.Marshal(otherwise) // a text
}
