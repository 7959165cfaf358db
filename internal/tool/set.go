package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// Set is the tools of a sandbox.
type Set struct {
	tools   []*Tool
	list    []api.Tool
	servers *Servers // nil: none
}

// Builtin are the tools that every sandbox has.
func Builtin() *Set {
	return newSet(bashTool(), readTool(), writeTool(), editTool(), globTool(), grepTool(), listTool())
}

func newSet(tools ...*Tool) *Set {
	s := &Set{tools: tools}
	for _, t := range tools {
		schema, err := json.Marshal(t.Schema)
		if err != nil {
			panic(fmt.Sprintf("the schema of %s: %v", t.Name, err)) // it is fixed at build time
		}
		s.list = append(s.list, api.Tool{Name: t.Name, Description: t.Description, InputSchema: schema})
	}
	return s
}

// With is the set with the tools of MCP servers beside its own.
func (s *Set) With(servers *Servers) *Set { return &Set{s.tools, s.list, servers} }

// Tools are those that every sandbox has, in the order in which they are shown.
func (s *Set) Tools() []*Tool { return s.tools }

// List is what the API tells of them.
func (s *Set) List() []api.Tool { return s.list }

// All is what one sandbox has: the same, and the tools of its MCP servers, which run for that. If its template
// has none the sandbox is not reached.
func (s *Set) All(ctx context.Context, box Box) (api.ToolList, error) {
	all := api.ToolList{Items: s.list}
	if s.servers == nil {
		return all, nil
	}
	more, servers, err := s.servers.list(ctx, box)
	all.Items, all.Servers = slices.Concat(s.list, more), servers
	return all, err
}

// Find finds a tool by its name. Agents that know it as Read or LS mean the same.
func (s *Set) Find(name string) (*Tool, error) {
	want := strings.ToLower(name)
	if want == "ls" {
		want = "list"
	}
	names := make([]string, 0, len(s.tools))
	for _, t := range s.tools {
		if t.Name == want {
			return t, nil
		}
		names = append(names, t.Name)
	}
	return nil, sandbox.Errorf("find tool", api.CodeUnknownTool, "there is no tool %s; there are %s", quoted(clip(name, 100)), strings.Join(names, ", "))
}

// Call uses a tool on a sandbox. A nil error is no success: the result may say that it failed.
func (s *Set) Call(ctx context.Context, box Box, want api.ExecuteTool) (api.ToolResult, error) {
	run, err := s.runner(want.ToolName)
	if err != nil {
		return api.ToolResult{}, err
	}
	if most := MaxTime.Seconds(); !(want.Timeout >= 0 && want.Timeout <= most) { // not a number is neither
		return api.ToolResult{}, wrong("timeout", fmt.Sprintf("expected a number of seconds from 0 to %v", most))
	}
	result, err := run(ctx, Call{Box: box, Arguments: want.Arguments, Timeout: seconds(want.Timeout)})
	if n, ok := box.(interface{ Notice() string }); ok && err == nil && n.Notice() != "" {
		result.Content = slices.Insert(result.Content, 0, api.ToolContent{Type: "text", Text: "Note: " + n.Notice()})
	}
	return result, err
}

// runner is what runs the tool of that name.
func (s *Set) runner(name string) (func(context.Context, Call) (api.ToolResult, error), error) {
	if server, its, ok := split(name); ok && s.servers != nil {
		return func(ctx context.Context, call Call) (api.ToolResult, error) {
			return s.servers.call(ctx, server, its, call)
		}, nil
	}
	t, err := s.Find(name)
	if err != nil {
		return nil, err
	}
	return t.Run, nil
}

// seconds is a time that came as a number.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
