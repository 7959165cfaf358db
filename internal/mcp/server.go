package mcp

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/tool"
)

const instructions = "These tools work in one sandbox, an isolated Linux machine. Its files are in " + guest.Workspace +
	", where commands start and relative paths lead from; " + guest.Home + " is its user's home. " +
	"What you leave there is there the next time, also when the sandbox was stopped in between; processes are not. " +
	"A result that was cut says so, and how to get at the rest."

// newServer makes one server for all sandboxes. The context of a call holds its sandbox.
func newServer(o Options) *sdk.Server {
	server := sdk.NewServer(
		&sdk.Implementation{Name: "berth", Title: "Berth sandbox", Version: o.Version},
		&sdk.ServerOptions{
			Instructions: instructions,
			// Without listChanged: changes of the list are not announced.
			Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
		})
	server.AddReceivingMiddleware(o.guard, o.beside)
	for _, t := range o.Tools.Tools() {
		writes := !t.ReadOnly
		server.AddTool(&sdk.Tool{
			Name: t.Name, Description: t.Description, InputSchema: t.Schema,
			Annotations: &sdk.ToolAnnotations{ReadOnlyHint: t.ReadOnly, DestructiveHint: &writes},
		}, o.call)
	}
	return server
}

// guard converts a panic to an error of the message. The SDK runs calls in new goroutines, where a panic would end the
// whole process.
func (o Options) guard(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (result sdk.Result, err error) {
		defer func() {
			if v := recover(); v != nil {
				p := o.Problem(ctx, fmt.Errorf("panic in %s: %v\n%s", method, v, debug.Stack()))
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: words(p)}
			}
		}()
		return next(ctx, method, req)
	}
}

// call calls a tool. It returns an error as a result with IsError, so that the agent sees it and can try again or do
// something else.
func (o Options) call(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	u := ctx.Value(useKey{}).(*use)
	work, stop := u.report(ctx, req)
	defer stop()
	result, err := o.Tools.Call(work, u.handle, api.ExecuteTool{ToolName: req.Params.Name, Arguments: req.Params.Arguments})
	if context.Cause(u.ctx) == errCancelled {
		return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "The call was cancelled, and what it ran was ended."}}}, nil
	}
	if err != nil {
		return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: words(o.Problem(u.ctx, err))}}}, nil
	}
	return resultOut(result, tool.Remote(req.Params.Name)), nil
}

// words returns a problem as one line of text.
func words(p *api.Problem) string {
	text := fmt.Sprintf("%s (%s). %s", p.Detail, p.Code, p.Hint)
	if p.Retryable {
		text += " The same call may work later."
	}
	return text
}

// resultOut converts a result to its form in the protocol. It drops the structured content of a built-in tool, which
// repeats the text: clients would show both to the agent. It keeps the structured content of an MCP server's tool.
func resultOut(r api.ToolResult, remote bool) *sdk.CallToolResult {
	out := &sdk.CallToolResult{IsError: r.IsError, Meta: sdk.Meta{"berth/duration_ms": r.DurationMS, "berth/truncated": r.Truncated}}
	if r.ExitCode != nil {
		out.Meta["berth/exit_code"] = *r.ExitCode
	}
	if remote {
		out.StructuredContent = r.StructuredContent
	}
	for _, c := range r.Content {
		out.Content = append(out.Content, contentOut(c))
	}
	return out
}

func contentOut(c api.ToolContent) sdk.Content {
	switch c.Type {
	case api.ContentImage:
		return &sdk.ImageContent{MIMEType: c.MIMEType, Data: c.Data}
	case api.ContentAudio:
		return &sdk.AudioContent{MIMEType: c.MIMEType, Data: c.Data}
	case api.ContentLink:
		return &sdk.ResourceLink{URI: c.URI, Name: c.Name, Title: c.Title, Description: c.Description, MIMEType: c.MIMEType}
	case api.ContentResource:
		return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: c.URI, MIMEType: c.MIMEType, Text: c.Text, Blob: c.Data}}
	}
	return &sdk.TextContent{Text: c.Text}
}
