package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/boxtest"
	"github.com/berthdev/berth/internal/tool"
	"github.com/berthdev/berth/internal/tool/tooltest"
)

// served is a real sandbox whose template declares MCP servers.
type served struct {
	*boxtest.Box
	record   sandbox.Sandbox
	down     error
	reached  atomic.Int64
	held     atomic.Int64
	template string
}

// Template is the record's, whatever else is wrong.
func (b *served) Template(context.Context) (string, error) { return b.template, nil }

func (b *served) Sandbox(context.Context) (sandbox.Sandbox, error) { return b.record, b.down }

func (b *served) Guest(ctx context.Context) (guest.Conn, error) {
	b.reached.Add(1)
	return b.Box.Guest(ctx)
}

func (b *served) Command(_ sandbox.Sandbox, cmd guest.Cmd) guest.Cmd { return b.Box.Command(cmd) }

func (b *served) Hold(context.Context, string) func() {
	b.held.Add(1)
	return func() {}
}

func newServed(t *testing.T) *served {
	t.Helper()
	box := boxtest.New(t, boxtest.Options{Mounts: []driver.Mount{{Source: tooltest.Server(t), Target: "/opt/tools"}}, Env: []string{"OF_TEMPLATE=yes", "OF_SERVER=no"}})
	return &served{Box: box, template: "t", record: sandbox.Sandbox{
		ID: uuid.NewString(), Owner: sandbox.Owner{Tenant: "a"}, Spec: sandbox.Spec{Template: "t"}, Incarnation: 1,
	}}
}

// bench is tools with servers, for any number of sandboxes.
type bench struct {
	t       *testing.T
	servers *tool.Servers
	*tool.Set
}

// mode is a server that goes wrong in one way.
func mode(name string) template.MCPServer {
	return template.MCPServer{Command: template.Command{"/opt/tools/server", name}, Timeout: template.Duration(time.Minute)}
}

func newBench(t *testing.T, servers map[string]template.MCPServer) *bench {
	t.Helper()
	p := tool.NewServers(func(name string) map[string]template.MCPServer {
		if name != "t" {
			return nil
		}
		return servers
	})
	t.Cleanup(p.Close)
	return &bench{t, p, tool.Builtin().With(p)}
}

func (b *bench) try(box tool.Box, name string, in any, timeout ...float64) (api.ToolResult, error) {
	b.t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		b.t.Fatal(err)
	}
	want := api.ExecuteTool{ToolName: name, Arguments: raw}
	for _, s := range timeout {
		want.Timeout = s
	}
	return b.Call(b.t.Context(), box, want)
}

// use uses a tool that answers, and says something about each of the words.
func (b *bench) use(box tool.Box, name string, in any, isError bool, words ...string) api.ToolResult {
	b.t.Helper()
	result, err := b.try(box, name, in)
	if err != nil {
		b.t.Fatalf("%s: %v", name, err)
	}
	if result.IsError != isError || len(result.Text()) > 31_000 || strings.TrimSpace(result.Text()) == "" {
		b.t.Errorf("%s: error %v, %d bytes: %.500s", name, result.IsError, len(result.Text()), result.Text())
	}
	has(b.t, result.Text(), words...)
	return result
}

// all lists everything.
func (b *bench) all(box tool.Box) api.ToolList {
	b.t.Helper()
	list, err := b.All(b.t.Context(), box)
	if err != nil {
		b.t.Fatal(err)
	}
	return list
}

// processes are those that run the server in the sandbox.
func processes(t *testing.T, b *served) int {
	t.Helper()
	conn, err := b.Box.Guest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var out strings.Builder
	script := `for p in /proc/[0-9]*; do [ "$(readlink $p/exe)" = /opt/tools/server ] && echo one; done; true`
	if _, err := conn.Run(t.Context(), guest.Cmd{Argv: []string{"sh", "-c", script}}, guest.Stdio{Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	return strings.Count(out.String(), "one")
}

// left waits until so many processes are left.
func left(t *testing.T, b *served, want int) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func() error {
		if n := processes(t, b); n != want {
			return fmt.Errorf("%d processes of servers, not %d", n, want)
		}
		return nil
	})
}
