package mcp

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/tool"
	"github.com/berthdev/berth/internal/tool/tooltest"
)

// newServed is a site whose template t has MCP servers.
func newServed(t *testing.T, boxes map[string]*engine.Handle) *site {
	t.Helper()
	program := tooltest.Server(t) + "/server"
	servers := tool.NewServers(func(name string) map[string]template.MCPServer {
		if name != "t" {
			return nil
		}
		return map[string]template.MCPServer{"s": {Command: template.Command{program}}, "ill": {Command: template.Command{program, "exit"}}}
	})
	t.Cleanup(servers.Close)
	o := options(boxes)
	o.Tools = tool.Builtin().With(servers)
	server := httptest.NewServer(Handler(o))
	t.Cleanup(server.Close)
	return &site{t, boxes, server.URL}
}

func listed(t *testing.T, session *sdk.ClientSession) (names map[string]*sdk.Tool, meta sdk.Meta) {
	t.Helper()
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	names = map[string]*sdk.Tool{}
	for _, one := range list.Tools {
		names[one.Name] = one
	}
	if len(names) != len(list.Tools) {
		t.Errorf("%d names of %d tools", len(names), len(list.Tools))
	}
	return names, list.Meta
}

func TestClientSeesToolsOfServersInside(t *testing.T) {
	testkit.Proves(t, "P3")
	box, plain := tooltest.New(t), tooltest.New(t)
	box.Of = "t"
	w := newServed(t, map[string]*engine.Handle{"/a": box.Handle(), "/b": plain.Handle()})
	session := w.connect("/a")
	names, meta := listed(t, session)
	if len(names) != 22 || names["bash"] == nil || names["s__bash"] == nil || names["s__echo"].Annotations != nil {
		t.Errorf("%v", names)
	}
	if schema, ok := names["s__echo"].InputSchema.(map[string]any); !ok || schema["type"] != "object" || schema["required"] == nil {
		t.Errorf("%+v", names["s__echo"].InputSchema)
	}
	if text, _ := meta["berth/problems"].(string); !strings.Contains(text, "ill: The MCP server ill could not be started") {
		t.Errorf("%+v", meta)
	}
	if text, result := call(t, session, "s__echo", map[string]any{"text": "hello"}); text != "hello" || result.IsError {
		t.Errorf("%q", text)
	}
	if text, _ := call(t, session, "bash", map[string]any{"command": "echo hello"}); text != "hello\n" {
		t.Errorf("%q", text)
	}
	for name, want := range map[string]string{"ill__x": "no such database", "s__fail": "cannot be done", "s__none": "unknown_tool", "x__y": "there are ill, s"} {
		if text, result := call(t, session, name, nil); !result.IsError || !strings.Contains(text, want) {
			t.Errorf("%s: %q", name, text)
		}
	}

	session = w.connect("/b")
	if names, meta := listed(t, session); len(names) != 7 || meta["berth/problems"] != nil {
		t.Errorf("%v, %v", names, meta)
	}
	if text, result := call(t, session, "s__echo", nil); !result.IsError || !strings.Contains(text, "its template has none") {
		t.Errorf("%q", text)
	}
}

// away is a database that does not answer.
type away struct{ engine.Store }

func (away) ByID(context.Context, string, string) (sandbox.Sandbox, error) {
	return sandbox.Sandbox{}, fault.Errorf("find", api.CodeStoreUnavailable, "the database is away")
}

func TestListFailsWithWords(t *testing.T) {
	session := newServed(t, map[string]*engine.Handle{"/a": engine.New(engine.Options{Store: away{}}).Handle("t", "s", "test")}).connect("/a")
	if _, err := session.ListTools(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "the database is away (store_unavailable)") {
		t.Errorf("%v", err)
	}
	if text, result := call(t, session, "s__echo", nil); !result.IsError || !strings.Contains(text, "the database is away") {
		t.Errorf("%q", text)
	}
}
