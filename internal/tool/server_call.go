package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template"
)

// command is how a server is started. Of variables that are there twice the last one holds: programs differ in
// which of them they take.
func command(box Box, s sandbox.Sandbox, spec template.MCPServer) guest.Cmd {
	cmd := guest.Cmd{Argv: spec.Command}
	for name, value := range spec.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return box.Command(s, cmd)
}

// call uses a tool of a server. What it is asked for is for the server to check: its schema is what somebody
// in the sandbox wrote, and not to be worked with here.
func (p *Servers) call(ctx context.Context, server, name string, call Call) (api.ToolResult, error) {
	start := time.Now()
	result, err := p.use(ctx, server, name, call)
	if err != nil {
		result, err = asResult(err)
	}
	result.DurationMS = time.Since(start).Milliseconds()
	return result, err
}

func (p *Servers) use(ctx context.Context, server, name string, call Call) (api.ToolResult, error) {
	arguments := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(cmp.Or(string(call.Arguments), "{}")), &arguments); err != nil {
		return api.ToolResult{}, wrong("arguments", "expected a JSON object")
	}
	of, err := call.Box.Template(ctx)
	if err != nil {
		return api.ToolResult{}, err
	}
	if _, ok := p.declared(of)[server]; !ok { // no sandbox is made for that
		return api.ToolResult{}, p.unknown(of, server)
	}
	s, err := p.enter(ctx, call.Box, server)
	if err != nil {
		return api.ToolResult{}, err
	}
	defer p.leave(s)
	defer holdLate(ctx, call.Box)()
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(call.Timeout, s.limit()), errTime)
	defer cancel()
	if err := p.has(ctx, s, name); err != nil {
		return api.ToolResult{}, err
	}
	s.wire.said.Store(0)
	params := &sdk.CallToolParams{Name: name, Arguments: arguments}
	token, unfollow := s.wire.follow(ctx)
	defer unfollow()
	if token != nil {
		params.SetProgressToken(token)
	}
	answer, err := s.client.CallTool(ctx, params)
	if err != nil {
		return api.ToolResult{}, p.trouble(ctx, s, err)
	}
	return resultIn(answer), nil
}

// has fails unless the server has the tool. One that it may have got meanwhile is asked for.
func (p *Servers) has(ctx context.Context, s *session, name string) error {
	var tools []api.Tool
	for _, holds := range []time.Duration{listHolds, 0} {
		var err error
		if tools, _, err = s.tools.list(ctx, s, holds); err != nil {
			p.drop(s)
			return err
		}
		if slices.ContainsFunc(tools, func(t api.Tool) bool { return t.Name == qualified(s.key.server, name) }) {
			return nil
		}
	}
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}
	return sandbox.Errorf("find tool", api.CodeUnknownTool, "the MCP server %s has no tool %s; there are %s",
		s.key.server, quoted(clip(name, 100)), clip(strings.Join(names, ", "), notes))
}

// trouble is why a call was not answered. A server that hangs is not used again.
func (p *Servers) trouble(ctx context.Context, s *session, err error) error {
	said, ok := errors.AsType[*jsonrpc.Error](err)
	switch {
	case overtime(ctx):
		p.drop(s)
		return refuse("The MCP server %s did not answer in time; it may or may not have done it, and is started anew for the next call.%s", s.key.server, s.lastWords())
	case ctx.Err() != nil:
		return ctx.Err()
	case !s.wire.open():
		p.drop(s)
		return refuse("The MCP server %s is gone; it may or may not have done it, and is started anew for the next call: %s", s.key.server, s.why(ctx, err))
	case ok:
		return refuse("%s (error %d of the MCP server %s)", plain(said.Message), said.Code, s.key.server)
	}
	return refuse("The MCP server %s gave an answer that is no result: %s", s.key.server, plain(clip(err.Error(), notes/2)))
}

// Remote reports whether a name is one of an MCP server's tool.
func Remote(name string) bool { _, _, ok := split(name); return ok }
