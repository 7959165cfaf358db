package project

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
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

// schema is the part of a tool's schema that the command line uses.
type schema struct {
	Properties map[string]parameter `json:"properties"`
	Required   []string             `json:"required"`
}

// parameter describes one argument of a tool.
type parameter struct {
	Type        kinds  `json:"type"`
	Description string `json:"description"`

	name     string
	required bool
}

// kinds are the types that a value may have. In a schema it is one name or a list.
type kinds []string

// UnmarshalJSON accepts a name or a list of names, and ignores all else.
func (k *kinds) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*k = kinds{one}
		return nil
	}
	_ = json.Unmarshal(data, (*[]string)(k))
	return nil
}

// schemaOf parses a tool's schema. It ignores parts that it cannot parse, because the server checks the arguments.
func schemaOf(t api.Tool) (s schema) {
	_ = json.Unmarshal(t.InputSchema, &s)
	return s
}

// parameters returns the tool's arguments, the required ones first.
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

// names returns the names of the arguments in one line. Optional arguments have a ? after the name.
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

// tools returns a function that lists the tools of a project's sandbox.
func tools(id string) func(context.Context, *remote.Connection) iter.Seq2[api.Tool, error] {
	return func(ctx context.Context, c *remote.Connection) iter.Seq2[api.Tool, error] {
		return ui.Items(c.Projects.Tools(ctx, id))
	}
}

// parameters returns a function that lists the arguments of one tool.
func parameters(id, tool string) func(context.Context, *remote.Connection) iter.Seq2[parameter, error] {
	return func(ctx context.Context, c *remote.Connection) iter.Seq2[parameter, error] {
		all, err := c.Projects.Tools(ctx, id)
		i := slices.IndexFunc(all, func(t api.Tool) bool { return t.Name == tool })
		if i < 0 {
			return ui.Items[parameter](nil, err)
		}
		return ui.Items(schemaOf(all[i]).parameters(), nil)
	}
}

// maxArguments is the maximum size of arguments on stdin in bytes. No server accepts more.
const maxArguments = 64 << 20

var errArguments = ui.Usage("arguments are KEY=VALUE pairs, one JSON object, or - for one on stdin", "'berth project tool --help' shows how they are written.")

// toolArguments converts the arguments after the tool's name to a JSON object. Errors do not contain the arguments.
func (a *app) toolArguments(ctx context.Context, c *remote.Connection, id, tool string, given []string) (json.RawMessage, error) {
	switch {
	case len(given) == 0:
		return nil, nil
	case len(given) == 1 && given[0] == "-":
		data, err := io.ReadAll(io.LimitReader(a.Stdin, maxArguments))
		if err != nil {
			return nil, fmt.Errorf("read the arguments: %w", err)
		}
		return object(data)
	case len(given) == 1 && strings.HasPrefix(strings.TrimSpace(given[0]), "{"):
		return object([]byte(given[0]))
	}
	values, err := parsePairs(given)
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

// object returns data if it is exactly one JSON object.
func object(data []byte) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil || fields == nil {
		return nil, errArguments
	}
	return data, nil
}

// parsePairs parses KEY=VALUE pairs.
func parsePairs(given []string) (map[string]any, error) {
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

// value converts text to a JSON value if the parameter is not a string: a number, boolean, list or object. Text that is
// not valid JSON stays a string, which the server will refuse.
func (p parameter) value(text string) any {
	if len(p.Type) == 0 || slices.Contains(p.Type, "string") || !json.Valid([]byte(text)) {
		return text
	}
	return json.RawMessage(text)
}
