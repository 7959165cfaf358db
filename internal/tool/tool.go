// Package tool implements the tools that agents call in a sandbox: bash, read, write, edit, glob, grep and list, and the
// tools of MCP servers.
//
// [Builtin] returns the [Set] of the built-in tools. [Set.Call] calls a tool by its name through an [engine.Handle]. The
// arguments of a built-in tool are checked against the schema that agents see. [Servers] runs the MCP servers of
// templates inside sandboxes; [Set.With] adds their tools to a set.
//
// Tools access files from outside the sandbox, through files.FS, not with a shell. Only bash and MCP servers run inside.
// Data from a sandbox is treated as hostile, and so are the calls of agents, which read such data: every walk, match
// and answer is bounded. A shortened answer has a note about how to get the rest.
//
// An error that the agent can correct (no such file, exit code 1) is a result with IsError. An error of Berth (the
// sandbox cannot run) is a Go error with a code.
package tool

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
)

// Tool is one tool.
type Tool struct {
	Name        string
	Description string
	Schema      *jsonschema.Schema // the schema of the arguments, which are an object
	ReadOnly    bool               // the tool changes nothing in the sandbox
	Run         func(ctx context.Context, call Call) (api.ToolResult, error)
}

// Call is one call of a tool.
type Call struct {
	Handle    *engine.Handle  // the sandbox
	Arguments json.RawMessage // an object; empty and null mean an object without fields
	Timeout   time.Duration   // zero: the tool's default
}

// The default and maximum timeouts of tools.
const (
	CommandTime = 2 * time.Minute // default of commands
	MaxTime     = time.Hour       // maximum of commands
	FileTime    = time.Minute     // default of the tools that access files from outside
	MaxFileTime = 5 * time.Minute // maximum of the tools that access files from outside
)

// job is a call whose arguments were checked.
type job struct {
	handle  *engine.Handle
	timeout time.Duration // zero: the tool's default
}

// spec describes a tool, without the type of its arguments.
type spec struct {
	name, description string
	readOnly          bool
	aliases           map[string]string // field names by other names that agents use for them
	limits            func(fields map[string]*jsonschema.Schema)
}

// define makes a tool from its description and a function with arguments of type In, a struct.
func define[In any](s spec, run func(ctx context.Context, j *job, in In) (api.ToolResult, error)) *Tool {
	args := newArguments[In](s)
	return &Tool{
		Name: s.name, Description: s.description, Schema: args.schema, ReadOnly: s.readOnly,
		Run: func(ctx context.Context, call Call) (api.ToolResult, error) {
			var in In
			if err := args.read(call.Arguments, &in); err != nil {
				return api.ToolResult{}, err
			}
			start := time.Now()
			result, err := run(ctx, &job{call.Handle, call.Timeout}, in)
			if err != nil {
				result, err = asResult(err)
			}
			result.DurationMS = time.Since(start).Milliseconds()
			return result, err
		},
	}
}
