package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/tool/tooltest"
)

// toolList is what the API lists in the project p.
func toolList(t *testing.T, p *process, key string) (list api.ToolList) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/api/v1/projects/p/sandbox/tools", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&list); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", res.Status, err)
	}
	return list
}

func useTool(t *testing.T, c *client.Client, name, arguments string) string {
	t.Helper()
	result, err := c.Projects.Execute(t.Context(), "p", api.ExecuteTool{ToolName: name, Arguments: json.RawMessage(arguments)})
	if err != nil || result.IsError {
		t.Fatalf("%s: %+v, %v", name, result, err)
	}
	return result.Text()
}

// bearer sends the key.
type bearer string

func (k bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(k))
	return http.DefaultTransport.RoundTrip(r)
}

// MCP servers of a template work in real sandboxes, over all that may happen to those and to the server.
func TestMCPServersOfATemplate(t *testing.T) {
	testkit.Proves(t, "P3", "E2")
	t.Parallel()
	env := withConfig(t, local(t), `
default_template = "tooled"
[templates.tooled]
extends = "default"
tenants = ["*"]
mounts = [{source = "`+tooltest.Server(t)+`", target = "/opt/tools"}]
env = {OF_TEMPLATE = "template", OF_SERVER = "template"}
[templates.tooled.mcp_servers.good]
command = ["/opt/tools/server"]
env = {OF_SERVER = "server-secret"}
[templates.tooled.mcp_servers.ill]
command = "exec /opt/tools/server exit"
`)
	p := start(t, env)
	c := p.client(t)
	list := toolList(t, p, testKey)
	if len(list.Items) != 7 || len(list.Servers) != 2 || !strings.Contains(list.Servers[0].Problem, "does not run") {
		t.Errorf("without a sandbox: %d, %+v", len(list.Items), list.Servers)
	}
	if _, err := c.Projects.Get(t.Context(), "p"); problem(err).Code != api.CodeNotFound {
		t.Errorf("a list made a sandbox: %v", err)
	}

	// An MCP client asks for the list before anything else, and needs it.
	mcp, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: p.url + "/api/v1/projects/p/mcp", HTTPClient: &http.Client{Transport: bearer(testKey)}, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := mcp.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 22 || !strings.Contains(fmt.Sprint(tools.Meta["berth/problems"]), "no such database") {
		t.Fatalf("%+v, %v", tools, err)
	}
	said, err := mcp.CallTool(t.Context(), &sdk.CallToolParams{Name: "good__env"})
	if err != nil || said.Content[0].(*sdk.TextContent).Text != "template server-secret /workspace 1000" {
		t.Errorf("%+v, %v", said, err)
	}

	list = toolList(t, p, testKey)
	if len(list.Items) != 22 || list.Servers[0].Tools != 15 || !strings.Contains(list.Servers[1].Problem, "exit code 3") {
		t.Errorf("%d, %+v", len(list.Items), list.Servers)
	}
	useTool(t, c, "write", `{"file_path":"name","content":"mine"}`)
	before := useTool(t, c, "good__pid", `{}`)
	if again := useTool(t, c, "good__pid", `{}`); again != before || !strings.HasPrefix(again, "mine ") {
		t.Errorf("%s, then %s", before, again)
	}

	// Another tenant's project of the same name is another sandbox with another server.
	key, err := c.Keys.Create(t.Context(), api.CreateKey{Label: "other", Tenant: "acme", Scope: api.ScopeAdmin})
	if err != nil {
		t.Fatal(err)
	}
	if theirs := useTool(t, p.clientOf(t, key.Secret), "good__pid", `{}`); strings.Contains(theirs, "mine") {
		t.Errorf("theirs is %q", theirs)
	}

	got, err := c.Projects.Get(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	sb := c.Sandboxes
	for name, do := range map[string]func() error{
		"stop":    func() error { _, err := sb.Stop(t.Context(), got.SandboxID); return err },
		"restart": func() error { _, err := sb.Restart(t.Context(), got.SandboxID); return err },
		"freeze":  func() error { _, err := sb.Freeze(t.Context(), got.SandboxID); return err },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if text := useTool(t, c, "good__pid", `{}`); !strings.HasPrefix(text, "mine ") {
			t.Errorf("after %s: %q", name, text)
		}
	}
	if _, err := sb.Stop(t.Context(), got.SandboxID); err != nil {
		t.Fatal(err)
	}
	if list := toolList(t, p, testKey); len(list.Items) != 7 || !strings.Contains(list.Servers[0].Problem, "does not run") {
		t.Errorf("stopped: %d, %+v", len(list.Items), list.Servers)
	}
	if s, err := sb.Get(t.Context(), got.SandboxID); err != nil || s.State != "stopped" {
		t.Errorf("a list started it: %+v, %v", s, err)
	}

	// What a server that was killed had started ends, and the next one has its own.
	before = useTool(t, c, "good__pid", `{}`)
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	p = start(t, env)
	c = p.client(t)
	box := box{t, c, got.SandboxID}
	count := `for e in /proc/[0-9]*/exe; do readlink $e; done | grep -c /opt/tools/server`
	testkit.Eventually(t, time.Minute, func() error {
		if left := box.sh(count).Stdout; left != "0\n" {
			return fmt.Errorf("%s servers are left", left)
		}
		return nil
	})
	if after := useTool(t, c, "good__pid", `{}`); after == before {
		t.Errorf("the same process: %s", after)
	}
	box.says(count, "1\n")
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(p.logs.String(), "server-secret") {
		t.Error("a server's environment is in the log")
	}
}
