package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/tool/tooltest"
)

// MCP servers of the template are listed and used like the built-in tools. A list makes and starts nothing.
func TestToolsOfMCPServersInAProject(t *testing.T) {
	testkit.Proves(t, "P3")
	program := tooltest.Server(t) + "/server"
	w := newToolshop(t, func(o *Options) {
		o.Templates = template.New(template.Options{Driver: "fake"})
		err := o.Templates.Add(template.Template{Name: "default", Tenants: []string{template.AllTenants}, MCPServers: map[string]template.MCPServer{
			"good": {Command: template.Command{program}}, "ill": {Command: template.Command{program, "exit"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(w.servers.Close)
	list := func(key string) api.ToolList {
		t.Helper()
		return into[api.ToolList](w.do(call{method: "GET", path: at("p", "tools"), key: key}).is(http.StatusOK))
	}
	idle := func(what string) {
		t.Helper()
		if got := list(w.read); len(got.Items) != 7 || len(got.Servers) != 2 || !strings.Contains(got.Servers[0].Problem, "does not run (sandbox_not_running)") {
			t.Errorf("%s: %d, %+v", what, len(got.Items), got.Servers)
		}
	}
	idle("no sandbox")
	w.get(at("p")).fails(api.CodeNotFound)

	said := into[api.ToolResult](w.use("good__echo", `{"text":"hello"}`).is(http.StatusOK))
	if said.Text() != "hello" || said.IsError {
		t.Errorf("%+v", said)
	}
	got := list(w.read)
	if len(got.Items) != 22 || got.Servers[0].Tools != 15 || !strings.Contains(got.Servers[1].Problem, "no such database") {
		t.Errorf("%d, %+v", len(got.Items), got.Servers)
	}
	if bad := w.use("good__nope", `{}`).fails(api.CodeUnknownTool); !strings.Contains(bad.Detail, "good__echo") {
		t.Errorf("%+v", bad)
	}
	w.use("nope__echo", `{}`).fails(api.CodeUnknownTool)
	w.use("good__echo", `[]`).fails(api.CodeInvalidRequest)
	if ill := into[api.ToolResult](w.use("ill__echo", `{}`).is(http.StatusOK)); !ill.IsError {
		t.Errorf("%+v", ill)
	}
	shown := into[api.Template](w.get(templatesPath + "/default").is(http.StatusOK))
	if strings.Join(shown.MCPServers, " ") != "good ill" {
		t.Errorf("%+v", shown)
	}

	w.remove(at("p")).is(http.StatusOK)
	idle("an archive")
	w.get(at("sandboxes", "tools")).fails(api.CodeInvalidID)
}
