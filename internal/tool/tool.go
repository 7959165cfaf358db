// Package tool is what an agent can have done in a sandbox: bash, read, write, edit, glob, grep and list, and
// what the MCP servers can do that its template declares.
//
// [Builtin] is the [Set] of them; [Set.Call] runs one by its name on a [Box]. The schema that a tool shows
// is the one that its arguments are checked against. [Servers] start MCP servers inside the sandbox and talk
// to them; [Set.With] puts their tools beside the others.
//
// Files are reached from outside, through files.FS, never with a shell; only bash and MCP servers run inside.
// Whatever comes out of a sandbox is hostile, and whoever calls a tool may be led by it: every walk, match
// and answer is bounded, and an answer that was cut says so and how to get at the rest.
//
// What went wrong for the agent (no such file, exit code 1) is a result that says so. What went wrong for
// Berth (the sandbox cannot run) is an error with a code of the table.
package tool

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
)

// Box is what the tools need of one sandbox.
type Box interface {
	Template(ctx context.Context) (string, error) // of the sandbox, which is not made for that
	Sandbox(ctx context.Context) (sandbox.Sandbox, error)
	Guest(ctx context.Context) (guest.Conn, error)
	Command(s sandbox.Sandbox, cmd guest.Cmd) guest.Cmd
	Files(ctx context.Context, root string) (files.FS, error)
	Hold(ctx context.Context, kind string) (release func())
}

// Tool is one tool.
type Tool struct {
	Name        string
	Description string
	Schema      *jsonschema.Schema // of its arguments, an object
	ReadOnly    bool               // it changes nothing in the sandbox
	Run         func(ctx context.Context, call Call) (api.ToolResult, error)
}

// Call is one use of a tool.
type Call struct {
	Box       Box
	Arguments json.RawMessage // an object; empty and null are one without fields
	Timeout   time.Duration   // zero is the tool's default
}

// How long a tool may take, unless told otherwise and at most: a command, and what works on files, which
// does so on this side.
const (
	CommandTime = 2 * time.Minute
	MaxTime     = time.Hour
	FileTime    = time.Minute
	MaxFileTime = 5 * time.Minute
)

// job is a call whose arguments were checked.
type job struct {
	box     Box
	timeout time.Duration // zero: none was asked for
}

// spec is what a tool is made of, besides its type of arguments.
type spec struct {
	name, description string
	readOnly          bool
	aliases           map[string]string // other names that fields are known by
	limits            func(fields map[string]*jsonschema.Schema)
}

// define makes a tool whose arguments are a struct.
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
			result, err := run(ctx, &job{call.Box, call.Timeout}, in)
			if err != nil {
				result, err = asResult(err)
			}
			result.DurationMS = time.Since(start).Milliseconds()
			return result, err
		},
	}
}
