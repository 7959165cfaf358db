package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/berthdev/berth/api"
)

// schema is what the command line reads of a tool's schema.
type schema struct {
	Properties map[string]parameter `json:"properties"`
	Required   []string             `json:"required"`
}

// parameter is one argument that a tool takes.
type parameter struct {
	Type        kinds  `json:"type"`
	Description string `json:"description"`

	name     string
	required bool
}

// kinds is what a value may be: one word in a schema, or several.
type kinds []string

// UnmarshalJSON takes what it understands.
func (k *kinds) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*k = kinds{one}
		return nil
	}
	_ = json.Unmarshal(data, (*[]string)(k))
	return nil
}

// schemaOf reads a tool's schema. What cannot be understood is left to the server, which checks all of it.
func schemaOf(t api.Tool) (s schema) {
	_ = json.Unmarshal(t.InputSchema, &s)
	return s
}

// parameters are the arguments in the order a person gives them: the required ones first.
func (s schema) parameters() (ps []parameter) {
	for name, p := range s.Properties {
		p.name, p.required = name, slices.Contains(s.Required, name)
		ps = append(ps, p)
	}
	place := func(p parameter) int {
		if i := slices.Index(s.Required, p.name); i >= 0 {
			return i
		}
		return len(s.Required)
	}
	slices.SortFunc(ps, func(a, b parameter) int { return cmp.Or(place(a)-place(b), cmp.Compare(a.name, b.name)) })
	return ps
}

// names are those of the arguments; those with a ? may be left out.
func (s schema) names() string {
	var names []string
	for _, p := range s.parameters() {
		if !p.required {
			p.name += "?"
		}
		names = append(names, p.name)
	}
	return strings.Join(names, " ")
}

// tools lists the tools of a project's sandbox.
func tools(id string) func(context.Context, *connection) iter.Seq2[api.Tool, error] {
	return func(ctx context.Context, c *connection) iter.Seq2[api.Tool, error] {
		return these(c.Projects.Tools(ctx, id))
	}
}

// parameters lists the arguments of one tool.
func parameters(id, tool string) func(context.Context, *connection) iter.Seq2[parameter, error] {
	return func(ctx context.Context, c *connection) iter.Seq2[parameter, error] {
		all, err := c.Projects.Tools(ctx, id)
		i := slices.IndexFunc(all, func(t api.Tool) bool { return t.Name == tool })
		if i < 0 {
			return these[parameter](nil, err)
		}
		return these(schemaOf(all[i]).parameters(), nil)
	}
}

// mostArguments is how much of stdin is read as arguments; no server takes more.
const mostArguments = 64 << 20

var errArguments = &usageError{"arguments are KEY=VALUE pairs, one JSON object, or - for one on stdin", "'berth project tool --help' shows how they are written."}

// toolArguments makes one JSON object of what was typed behind the tool's name. No error repeats it.
func (f *frame) toolArguments(ctx context.Context, c *connection, id, tool string, given []string) (json.RawMessage, error) {
	switch {
	case len(given) == 0:
		return nil, nil
	case len(given) == 1 && given[0] == "-":
		data, err := io.ReadAll(io.LimitReader(f.Stdin, mostArguments))
		if err != nil {
			return nil, fmt.Errorf("read the arguments: %w", err)
		}
		return object(data)
	case len(given) == 1 && strings.HasPrefix(strings.TrimSpace(given[0]), "{"):
		return object([]byte(given[0]))
	}
	values, err := keyed(given)
	if err != nil {
		return nil, err
	}
	for p, err := range parameters(id, tool)(ctx, c) {
		if err != nil {
			return nil, err
		}
		if text, ok := values[p.name].(string); ok {
			values[p.name] = p.value(text)
		}
	}
	return json.Marshal(values)
}

// object is one JSON object and nothing else.
func object(data []byte) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil || fields == nil {
		return nil, errArguments
	}
	return data, nil
}

// keyed reads KEY=VALUE pairs.
func keyed(given []string) (map[string]any, error) {
	values := map[string]any{}
	for _, pair := range given {
		key, value, ok := strings.Cut(pair, "=")
		if _, twice := values[key]; !ok || key == "" || twice {
			return nil, errArguments
		}
		values[key] = value
	}
	return values, nil
}

// value is a text as what the parameter takes: numbers, switches, lists and objects are written as in
// JSON. One that is none of these stays a text, and the server says what it should be.
func (p parameter) value(text string) any {
	if len(p.Type) == 0 || slices.Contains(p.Type, "string") || !json.Valid([]byte(text)) {
		return text
	}
	return json.RawMessage(text)
}
