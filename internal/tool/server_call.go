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
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/template"
)

// command returns the command that starts a server, with the variables of the server and of the sandbox.
func command(ctx context.Context, h *engine.Handle, spec template.MCPServer) (guest.Cmd, error) {
	cmd := guest.Cmd{Argv: spec.Command}
	for name, value := range spec.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return h.Command(ctx, cmd)
}

// call calls a tool of a server. The server checks the arguments. Its schema is not used for that, because it comes from
// the sandbox.
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
	of, err := call.Handle.Template(ctx)
	if err != nil {
		return api.ToolResult{}, err
	}
	if _, ok := p.declared(of)[server]; !ok { // checked before enter, which starts the sandbox
		return api.ToolResult{}, p.unknown(of, server)
	}
	s, err := p.enter(ctx, call.Handle, server)
	if err != nil {
		return api.ToolResult{}, err
	}
	defer p.leave(s)
	defer call.Handle.HoldLate(ctx, "exec")()
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(call.Timeout, s.limit()), errTime)
	defer cancel()
	if err := p.has(ctx, s, name); err != nil {
		return api.ToolResult{}, err
	}
	s.wire.received.Store(0)
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

// has returns an error if the server does not have the tool. If the tool is not in the cached list, has fetches the
// list again.
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
	return fault.Errorf("find tool", api.CodeUnknownTool, "the MCP server %s has no tool %s; there are %s",
		s.key.server, quoted(fault.Clip(name, 100)), fault.Clip(strings.Join(names, ", "), notes))
}

// trouble returns the error of a call without a result. A server that did not answer in time is not used again.
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
	return refuse("The MCP server %s gave an answer that is no result: %s", s.key.server, plain(fault.Clip(err.Error(), notes/2)))
}

// Remote reports whether name is the name of an MCP server's tool.
func Remote(name string) bool { _, _, ok := split(name); return ok }
