package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/tool"
)

// beside adds the tools of MCP servers inside the sandbox, which differ between sandboxes, to lists and calls.
func (o Options) beside(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		u, _ := ctx.Value(useKey{}).(*use)
		if call, ok := req.(*sdk.CallToolRequest); ok && tool.Remote(call.Params.Name) {
			return o.call(ctx, call)
		}
		result, err := next(ctx, method, req)
		if list, ok := result.(*sdk.ListToolsResult); ok && err == nil {
			return o.more(u, list)
		}
		return result, err
	}
}

// more adds the tools of MCP servers to a list. The problems of servers are in the _meta of the list: an agent could not
// correct them, but the user of the client can.
func (o Options) more(u *use, list *sdk.ListToolsResult) (sdk.Result, error) {
	all, err := o.Tools.All(u.ctx, u.handle)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: words(o.Problem(u.ctx, err))}
	}
	full := *list
	full.Tools = append([]*sdk.Tool(nil), list.Tools...)
	for _, t := range all.Items {
		if tool.Remote(t.Name) {
			full.Tools = append(full.Tools, &sdk.Tool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema})
		}
	}
	if problems := problemsOf(all.Servers); problems != "" {
		full.Meta = sdk.Meta{"berth/problems": problems}
	}
	return &full, nil
}

func problemsOf(servers []api.ToolServer) string {
	var all []string
	for _, s := range servers {
		if s.Problem != "" {
			all = append(all, fmt.Sprintf("%s: %s", s.Name, s.Problem))
		}
	}
	return strings.Join(all, "\n")
}
