package tool_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/tool"
)

func TestToolsAreThoseThatAgentsKnow(t *testing.T) {
	testkit.Proves(t, "P3")
	var names []string
	for _, one := range builtin.List() {
		names = append(names, one.Name)
		var schema struct {
			Type                 string
			Required             []string
			AdditionalProperties any
			Properties           map[string]struct{ Type, Description string }
		}
		if err := json.Unmarshal(one.InputSchema, &schema); err != nil {
			t.Fatal(err)
		}
		if schema.Type != "object" || len(schema.Properties) == 0 || one.Description == "" || schema.AdditionalProperties == nil {
			t.Errorf("%s: %s", one.Name, one.InputSchema)
		}
		for name, field := range schema.Properties {
			if field.Type == "" || field.Description == "" {
				t.Errorf("%s.%s has no type or description", one.Name, name)
			}
		}
	}
	is(t, "tools", strings.Join(names, " "), "bash read write edit glob grep list")
	if n := len(builtin.Tools()); n != len(names) {
		t.Errorf("%d tools, %d shown", n, len(names))
	}
}

func TestToolIsFoundByItsName(t *testing.T) {
	for name, want := range map[string]string{"bash": "bash", "Read": "read", "LS": "list", "GREP": "grep"} {
		if got, err := builtin.Find(name); err != nil || got.Name != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "rm", "bash ", "web_fetch", strings.Repeat("x", 1<<20), "\x1b[31m\n"} {
		_, err := builtin.Find(name)
		isCode(t, name, err, api.CodeUnknownTool)
		if text := fmt.Sprint(err); len(text) > 500 || strings.ContainsAny(text, "\n\x1b") {
			t.Errorf("the error is %q", text)
		}
	}
}

// The schema that is shown is the one that is checked: whatever a program that reads it finds wrong is
// refused, and the other way round.
func TestArgumentsAreCheckedAgainstTheSchemaShown(t *testing.T) {
	testkit.Proves(t, "P3")
	w := newWorld(t)
	for _, c := range []struct{ tool, arguments, location, message string }{
		{"bash", `{}`, "arguments.command", "is missing"},
		{"bash", `{"command":1}`, "arguments.command", "expected a text"},
		{"bash", `{"command":""}`, "arguments.command", "expected a text of 1 to 100000"},
		{"bash", `{"command":"true","timeout":120000}`, "arguments.timeout", "from 0 to 3600"},
		{"bash", `{"command":"true","timeout":"5"}`, "arguments.timeout", "expected a number"},
		{"bash", `{"command":"true","sudo":true}`, "arguments.sudo", "no such field; there are command, cwd, timeout"},
		{"bash", `{"Command":"true","command":"true"}`, "arguments.Command", "no such field"},
		{"bash", `{"cmd":"true","command":"true"}`, "arguments.cmd", "no such field"},
		{"read", `{"file_path":["x"]}`, "arguments.file_path", "expected a text"},
		{"read", `{"file_path":"x","offset":1.5}`, "arguments.offset", "whole number"},
		{"read", `{"file_path":"x","limit":0}`, "arguments.limit", "from 1 to 2000"},
		{"read", `{"file_path":"x","offset":1e300}`, "arguments.offset", "from 0 to 1000000000"},
		{"read", `{"file_path":"x","offset":{}}`, "arguments.offset", "whole number"},
		{"write", `{"file_path":"x"}`, "arguments.content", "is missing; expected a text"},
		{"edit", `{"file_path":"x","old_string":"","new_string":"y"}`, "arguments.old_string", "not empty"},
		{"edit", `{"file_path":"x","old_string":"a","new_string":"b","replace_all":"yes"}`, "arguments.replace_all", "true or false"},
		{"glob", `{"pattern":"` + strings.Repeat("*", 1001) + `"}`, "arguments.pattern", "1 to 1000"},
		{"grep", `{"pattern":"x","output_mode":"all"}`, "arguments.output_mode", "one of files_with_matches content count"},
		{"grep", `{"pattern":"x","head_limit":1000000}`, "arguments.head_limit", "from 1 to 10000"},
		{"list", `{"depth":11}`, "arguments.depth", "from 1 to 10"},
		{"list", `{"path":"` + strings.Repeat("x", 5001) + `"}`, "arguments.path", "at most 5000"},
	} {
		_, err := w.try(c.tool, c.arguments)
		isCode(t, c.tool, err, api.CodeInvalidRequest)
		var bad *tool.ArgumentError
		if !errors.As(err, &bad) || len(bad.Fields) != 1 || bad.Fields[0].Location != c.location {
			t.Errorf("%s %.80s: %v", c.tool, c.arguments, err)
			continue
		}
		has(t, bad.Fields[0].Message, c.message)
		var value any
		if err := json.Unmarshal([]byte(c.arguments), &value); err != nil {
			t.Fatal(err)
		}
		if shownSchema(t, c.tool).Validate(value) == nil {
			t.Errorf("%s: the schema takes %s", c.tool, c.arguments)
		}
	}
}

// shownSchema is a tool's schema as a list of the tools shows it.
func shownSchema(t *testing.T, name string) *jsonschema.Resolved {
	t.Helper()
	for _, one := range builtin.List() {
		if one.Name != name {
			continue
		}
		var schema jsonschema.Schema
		if err := json.Unmarshal(one.InputSchema, &schema); err != nil {
			t.Fatal(err)
		}
		resolved, err := schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
		if err != nil {
			t.Fatal(err)
		}
		return resolved
	}
	t.Fatalf("no tool %s", name)
	return nil
}

func TestArgumentsThatAreNoObjectAreRefused(t *testing.T) {
	w := newWorld(t)
	for _, raw := range []string{`[]`, `"x"`, `5`, `{`, `{"path":1`, strings.Repeat("[", 1<<20), `{"a":` + strings.Repeat(`{"a":`, 20_000) + strings.Repeat("}", 20_000)} {
		_, err := w.try("list", raw)
		isCode(t, raw[:1], err, api.CodeInvalidRequest)
	}
	if _, err := w.try("list", `{`+strings.Repeat(`"x":1,`, 1000)+`"path":5}`); err == nil {
		t.Error("taken")
	}
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf(`"f%d":1`, i))
	}
	_, err := w.try("list", "{"+strings.Join(many, ",")+"}")
	var bad *tool.ArgumentError
	if !errors.As(err, &bad) || len(bad.Fields) != 10 {
		t.Errorf("%v", err)
	}
	_, err = w.try("list", `{"`+strings.Repeat("n", 1<<20)+`\n\u001b":1}`)
	if text := fmt.Sprint(err); err == nil || len(text) > 1000 || strings.ContainsAny(text, "\n\x1b") {
		t.Errorf("the error is %.2000q", text)
	}
}

// A value that was sent may be a secret: an error names the field alone.
func TestErrorsNeverRepeatValues(t *testing.T) {
	w := newWorld(t)
	for _, raw := range []string{`{"command":["hunter2"]}`, `{"command":"x","cwd":{"a":"hunter2"}}`, `{"command":"x","timeout":"hunter2"}`} {
		_, err := w.try("bash", raw)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
	}
}

// Agents spell some fields in another way, and write null for what they leave out.
func TestObviousSpellingsAreTaken(t *testing.T) {
	w := newWorld(t)
	w.put("a.txt", "Hello\n")
	for _, c := range []struct {
		tool string
		in   args
	}{
		{"read", args{"path": "a.txt", "offset": nil, "limit": nil}},
		{"read", args{"file_path": "/workspace/a.txt", "offset": 0, "limit": 5.0}},
		{"edit", args{"path": "a.txt", "old_str": "Hello", "new_str": "hello"}},
		{"grep", args{"pattern": "HELLO", "-i": true, "-C": 1, "include": "*.txt"}},
		{"list", args{"directory": "."}},
		{"bash", args{"cmd": "cat a.txt", "timeout_seconds": 60}},
	} {
		w.ok(c.tool, c.in)
	}
	for _, none := range []string{"", "null", "{}"} {
		has(t, w.call("list", none).Text(), "a.txt")
	}
	if _, err := w.try("bash", args{"command": nil}); err == nil {
		t.Error("a command of null was run")
	}
}

func TestTimeoutHasBounds(t *testing.T) {
	w := newWorld(t)
	for _, seconds := range []float64{-1, 3601, math.NaN(), math.Inf(1)} {
		_, err := w.try("list", "", seconds)
		isCode(t, fmt.Sprint(seconds), err, api.CodeInvalidRequest)
	}
	w.call("list", "", 3600)
}
