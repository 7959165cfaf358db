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
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/boxtest"
	"github.com/berthdev/berth/internal/tool"
	"github.com/berthdev/berth/internal/tool/tooltest"
)

// served is a real sandbox whose template declares MCP servers. It is the driver of its one instance.
type served struct {
	*local.Driver
	box      *boxtest.Box
	record   sandbox.Sandbox
	down     error
	reached  atomic.Int64
	held     atomic.Int64
	template string
}

func newServed(t *testing.T) *served {
	t.Helper()
	box := boxtest.New(t, boxtest.Options{Mounts: []driver.Mount{{Source: tooltest.Server(t), Target: "/opt/tools"}}})
	return &served{Driver: box.Driver, box: box, template: "t", record: sandbox.Sandbox{
		ID: uuid.NewString(), Owner: sandbox.Owner{Tenant: "a"}, State: sandbox.Running, Incarnation: 1,
	}}
}

// handle is a handle on the instance with the record as it is now.
func (b *served) handle() *engine.Handle {
	e := engine.New(engine.Options{
		Drivers: map[string]driver.Driver{"local": b}, Store: tooltest.Holds{N: &b.held}, Templates: tooltest.Env{"OF_TEMPLATE=yes", "OF_SERVER=no"},
	})
	s := b.record
	s.Spec = sandbox.Spec{Driver: "local", Template: b.template}
	return e.HandleAt(s, b.box.ID)
}

// Guest starts the instance if it is stopped.
func (b *served) Guest(ctx context.Context, id driver.ID) (guest.Conn, error) {
	b.reached.Add(1)
	if b.down != nil {
		return nil, b.down
	}
	if st, err := b.Inspect(ctx, id); err == nil && st.Phase == driver.PhaseStopped {
		if _, err := b.Start(ctx, id); err != nil {
			return nil, err
		}
	}
	return b.Driver.Guest(ctx, id)
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

func (b *bench) try(box *served, name string, in any, timeout ...float64) (api.ToolResult, error) {
	b.t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		b.t.Fatal(err)
	}
	want := api.ExecuteTool{ToolName: name, Arguments: raw}
	for _, s := range timeout {
		want.Timeout = s
	}
	return b.Call(b.t.Context(), box.handle(), want)
}

// use uses a tool that answers, and says something about each of the words.
func (b *bench) use(box *served, name string, in any, isError bool, words ...string) api.ToolResult {
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
func (b *bench) all(box *served) api.ToolList {
	b.t.Helper()
	list, err := b.All(b.t.Context(), box.handle())
	if err != nil {
		b.t.Fatal(err)
	}
	return list
}

// processes are those that run the server in the sandbox.
func processes(t *testing.T, b *served) int {
	t.Helper()
	conn, err := b.Driver.Guest(t.Context(), b.box.ID)
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
