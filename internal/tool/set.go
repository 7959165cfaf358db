package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
)

// Set is a set of tools for sandboxes.
type Set struct {
	tools   []*Tool
	list    []api.Tool
	servers *Servers // nil: no tools of MCP servers
}

// Builtin returns the set of the tools that every sandbox has.
func Builtin() *Set {
	return newSet(bashTool(), readTool(), writeTool(), editTool(), globTool(), grepTool(), listTool())
}

func newSet(tools ...*Tool) *Set {
	s := &Set{tools: tools}
	for _, t := range tools {
		schema, err := json.Marshal(t.Schema)
		if err != nil {
			panic(fmt.Sprintf("the schema of %s: %v", t.Name, err)) // schemas are fixed at build time
		}
		s.list = append(s.list, api.Tool{Name: t.Name, Description: t.Description, InputSchema: schema})
	}
	return s
}

// With returns a set with the tools of s and of MCP servers.
func (s *Set) With(servers *Servers) *Set { return &Set{s.tools, s.list, servers} }

// Tools returns the tools that every sandbox has, in the order of lists.
func (s *Set) Tools() []*Tool { return s.tools }

// List returns the tools that every sandbox has in their form in the API.
func (s *Set) List() []api.Tool { return s.list }

// All returns the tools of List and of the MCP servers of one sandbox. It starts these servers. If the sandbox's
// template has no servers, All does not connect to the sandbox.
func (s *Set) All(ctx context.Context, h *engine.Handle) (api.ToolList, error) {
	all := api.ToolList{Items: s.list}
	if s.servers == nil {
		return all, nil
	}
	more, servers, err := s.servers.list(ctx, h)
	all.Items, all.Servers = slices.Concat(s.list, more), servers
	return all, err
}

// Find returns the tool with this name. It ignores case and accepts ls for list, because some agents know the tools as
// Read or LS.
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
	return nil, fault.Errorf("find tool", api.CodeUnknownTool, "there is no tool %s; there are %s", quoted(fault.Clip(name, 100)), strings.Join(names, ", "))
}

// Call calls a tool on a sandbox. With a nil error the tool may have failed too: then IsError is set in the result.
func (s *Set) Call(ctx context.Context, h *engine.Handle, want api.ExecuteTool) (api.ToolResult, error) {
	run, err := s.runner(want.ToolName)
	if err != nil {
		return api.ToolResult{}, err
	}
	if most := MaxTime.Seconds(); !(want.Timeout >= 0 && want.Timeout <= most) { // also refuses NaN
		return api.ToolResult{}, wrong("timeout", fmt.Sprintf("expected a number of seconds from 0 to %v", most))
	}
	result, err := run(ctx, Call{Handle: h, Arguments: want.Arguments, Timeout: seconds(want.Timeout)})
	if notice := h.Notice(); err == nil && notice != "" {
		result.Content = slices.Insert(result.Content, 0, api.ToolContent{Type: "text", Text: "Note: " + notice})
	}
	return result, err
}

// runner returns the function that runs a tool.
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

// seconds converts a number of seconds.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
