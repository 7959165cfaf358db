package template_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/testkit"
)

func TestMCPServersOfATemplate(t *testing.T) {
	testkit.Proves(t, "P3")
	r, report := at(t, `
[templates.tools.mcp_servers.files]
command = ["npx", "files"]
env = {TOKEN = "hush"}
timeout = "2m"
[templates.tools.mcp_servers.time-zone_2]
command = "exec time-server"

[templates.more]
extends = "tools"
[templates.more.mcp_servers.files]
command = "other"
`).load(t)
	if err := report.Err(); err != nil {
		t.Fatal(err)
	}
	servers := r.MCPServers("tools")
	files := servers["files"]
	if len(servers) != 2 || !slices.Equal(files.Command, []string{"npx", "files"}) || files.Env["TOKEN"] != "hush" || time.Duration(files.Timeout) != 2*time.Minute {
		t.Errorf("%+v", servers)
	}
	files.Env["TOKEN"], files.Command[0] = "changed", "changed"
	delete(servers, "files")
	if again := r.MCPServers("tools")["files"]; again.Env["TOKEN"] != "hush" || again.Command[0] != "npx" {
		t.Errorf("whoever asked changed it: %+v", again)
	}
	more := r.MCPServers("more")
	if len(more) != 2 || more["files"].Command[2] != "other" || more["files"].Env != nil || more["time-zone_2"].Command[2] != "exec time-server" {
		t.Errorf("%+v", more)
	}
	if r.MCPServers("default") != nil || r.MCPServers("nope") != nil {
		t.Error("servers that nobody declared")
	}
	if !slices.Contains(r.Secrets(), "hush") {
		t.Error("its environment is not among the secrets")
	}
	if err := r.Add(template.Template{Name: "go", MCPServers: map[string]template.MCPServer{"a": {}}}); err == nil || !strings.Contains(err.Error(), "templates.go.mcp_servers.a.command is missing") {
		t.Errorf("%v", err)
	}
	if err := r.Add(template.Template{Name: "go", MCPServers: map[string]template.MCPServer{"a": {Command: template.Command{"a\x00"}}}}); err == nil || !strings.Contains(err.Error(), "NUL") {
		t.Errorf("%v", err)
	}
}

func TestBadMCPServersAreRefusedWithWords(t *testing.T) {
	for servers, want := range map[string]string{
		`a = "x"`:                                      `.mcp_servers.a (FILE:2) is not a table; write command, env, timeout under it`,
		`"a__b" = {command = "x"}`:                     `.mcp_servers = "a__b" (FILE:2) is no name of a server`,
		`"a_" = {command = "x"}`:                       `.mcp_servers = "a_" (FILE:2) is no name of a server`,
		`"" = {command = "x"}`:                         `.mcp_servers (FILE:2) is no name of a server`,
		`"Files" = {command = "x"}`:                    `.mcp_servers = "Files" (FILE:2) is no name of a server`,
		strings.Repeat("a", 33) + ` = {command = "x"}`: `(FILE:2) is no name of a server; write up to 32`,
		`a = {}`:             `.mcp_servers.a.command (FILE:2) is missing`,
		`a = {command = []}`: `.mcp_servers.a.command (FILE:2) is missing`,
		`a = {command = 5}`:  `.mcp_servers.a.command (FILE:2) is no command`,
		`a = {command = "x", env = {"A=B" = "secret-value"}}`: `.mcp_servers.a.env (FILE:2) cannot be used`,
		`a = {command = "x", timeout = "2h"}`:                 `.mcp_servers.a.timeout = "2h0m0s" (FILE:2) is no time that a call may take; write at most 1h`,
		`a = {command = "x", timeout = "0s"}`:                 `.mcp_servers.a.timeout (FILE:2) is no time to run`,
		`a = {comand = "x", command = "x"}`:                   `.mcp_servers.a.comand (FILE:2) is not a key of templates; did you mean command?`,
		`a = {command = "x", env = {B = 5}}`:                  `.mcp_servers.a.env (FILE:2) has a type that does not fit`,
		strings.Join(many(9, `a%d = {command = "x"}`), ", "):  `.mcp_servers (FILE:2) are 9, more than 8`,
	} {
		p := at(t, "[templates.x]\nmcp_servers = {"+servers+"}\n")
		_, report := p.load(t)
		said := fmt.Sprint(report.Err())
		if len(report.Problems) != 1 || !strings.Contains(said, strings.ReplaceAll(want, "FILE", "file "+p.file)) || strings.Contains(said, "secret-value") {
			t.Errorf("%s: want %s, got\n%s", servers, want, said)
		}
	}
	_, report := at(t, "[templates.x]\nmcp_servers = [\"files\"]\n").load(t)
	if said := fmt.Sprint(report.Err()); !strings.Contains(said, "has a type that does not fit; write a table of tables, such as {name = {…}}") {
		t.Error(said)
	}
}
