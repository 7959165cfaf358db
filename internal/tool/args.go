package tool

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// ArgumentError says what is wrong with the arguments of a call. It is invalid_request.
type ArgumentError struct {
	Fields []api.FieldError // locations are arguments.NAME, arguments and timeout; values are never repeated
}

func (e *ArgumentError) Error() string {
	all := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		all[i] = f.Location + ": " + f.Message
	}
	return strings.Join(all, "; ")
}

// Unwrap gives it its code.
func (e *ArgumentError) Unwrap() error {
	return &sandbox.Error{Code: api.CodeInvalidRequest, Err: fmt.Errorf("%s", e.Error()), Hint: "Compare the arguments with the tool's input_schema."}
}

func wrong(location, message string) *ArgumentError {
	return &ArgumentError{[]api.FieldError{{Location: location, Message: message}}}
}

// arguments reads the arguments of one tool.
type arguments struct {
	schema  *jsonschema.Schema
	fields  map[string]*jsonschema.Resolved
	aliases map[string]string
}

// newArguments makes the schema of In, with the limits that Go's types do not tell. It panics where that
// makes no sense: all of it is fixed at build time.
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
	clean, err := json.Marshal(values) // so that 5.0 is a whole number, as in the schema
	if err == nil {
		err = json.Unmarshal(clean, into)
	}
	if err != nil {
		return wrong("arguments", "expected what the schema describes: "+err.Error())
	}
	return nil
}

// tidy gives fields their own names. One that is null is one that was left out, as many programs write it.
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

// check names each field that is wrong. The verdict on a value is the schema library's; the words are ours,
// because its own repeat the value.
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
			bad = append(bad, api.FieldError{Location: "arguments." + shown(clip(name, 80)), Message: "there is no such field; there are " + a.names()})
		case field.Validate(values[name]) != nil:
			bad = append(bad, api.FieldError{Location: "arguments." + name, Message: expected(a.schema.Properties[name])})
		}
	}
	return bad
}

// maxBad is how many fields are told of at once.
const maxBad = 10

func (a *arguments) names() string {
	return strings.Join(slices.Sorted(maps.Keys(a.schema.Properties)), ", ")
}

// expected puts a field's schema into words.
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

// between limits a number and says what it is when it is left out.
func between(s *jsonschema.Schema, least, most float64, otherwise any) {
	s.Minimum, s.Maximum = &least, &most
	if otherwise != nil {
		s.Default, _ = json.Marshal(otherwise) // a number
	}
}

// long limits a text.
func long(s *jsonschema.Schema, least, most int) {
	if s.MaxLength = &most; least > 0 {
		s.MinLength = &least
	}
}

func oneOf(s *jsonschema.Schema, otherwise string, values ...any) {
	s.Enum = values
	s.Default, _ = json.Marshal(otherwise) // a text
}
