package cli

import (
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
)

func TestProjectToolsShowsArguments(t *testing.T) {
	f := newProject(t)
	f.canned = cannedLife()
	s := newShell(t, f)
	contains(t, "tools", s.ok("project", "tools", "shop"), "TOOL     WHAT IT DOES", "bash     Run a command with bash in the sandbox  command timeout?\n", "path hidden? limit? odd?\n", "strange  -  ")
	if out := s.ok("project", "tools", "shop", "-q"); out != "bash\nread\nstrange\n" {
		t.Errorf("-q printed %q", out)
	}
	if got := decode[api.ToolList](t, s.ok("project", "tools", "shop", "--json")); len(got.Items) != 3 || len(got.Items[0].InputSchema) == 0 || len(got.Servers) != 1 {
		t.Errorf("--json printed %+v", got)
	}
}

// An MCP server without its tools is nothing that a list should pass over, whoever reads it.
func TestProjectToolsWarnsOfServers(t *testing.T) {
	f := newProject(t)
	f.canned = cannedLife()
	request := "GET " + shopPath + "/tools"
	list := f.canned[request].(api.ToolList)
	list.Servers = append(list.Servers, api.ToolServer{Name: "docs", Problem: "it ended with exit code 3.\n[stderr]\nno such database"})
	f.canned[request] = list
	s := newShell(t, f)
	for _, flag := range []string{"--server=" + f.URL, "-q"} {
		r := s.berth("project", "tools", "shop", flag)
		if r.code != 0 || !strings.Contains(r.out, "strange") || r.err != "berth: server docs: it ended with exit code 3. [stderr] no such database\n" {
			t.Errorf("%s: %+v", flag, r)
		}
	}
	if got := decode[api.ToolList](t, s.ok("project", "tools", "shop", "--json")); len(got.Servers) != 2 || !strings.HasSuffix(got.Servers[1].Problem, "database") {
		t.Errorf("--json printed %+v", got)
	}
}

func TestProjectToolReadsItsArgumentsAsTheSchemaSays(t *testing.T) {
	f := newProject(t)
	f.canned = cannedLife()
	request := "POST " + shopPath + "/execute"
	f.canned[request] = api.ToolResult{Content: []api.ToolContent{{Type: "text", Text: "fine"}}}
	for _, c := range []struct {
		args []string
		in   string
		want string
	}{
		{args: []string{"read"}, want: `{"tool_name":"read"}`},
		{args: []string{"read", "path=1", "limit=20", "hidden=true", "x=5", "odd=6"}, want: `{"tool_name":"read","arguments":{"hidden":true,"limit":20,"odd":"6","path":"1","x":"5"}}`},
		{args: []string{"read", "path=a=b", "limit=many"}, want: `{"tool_name":"read","arguments":{"limit":"many","path":"a=b"}}`},
		{args: []string{"bash", "command=", "timeout=1.5", "--timeout", "90s"}, want: `{"tool_name":"bash","arguments":{"command":"","timeout":1.5},"timeout":90}`},
		{args: []string{"nosuch", "x=5"}, want: `{"tool_name":"nosuch","arguments":{"x":"5"}}`},
		{args: []string{"strange", "x=5"}, want: `{"tool_name":"strange","arguments":{"x":"5"}}`},
		{args: []string{"read", ` {"path": 1}`}, want: `{"tool_name":"read","arguments":{"path":1}}`},
		{args: []string{"read", "-"}, in: "{\"path\": \"a\"}\n", want: `{"tool_name":"read","arguments":{"path":"a"}}`},
	} {
		s := newShell(t, f)
		s.deps.Stdin = strings.NewReader(c.in)
		if out := s.ok(append([]string{"project", "tool", "shop"}, c.args...)...); out != "fine\n" {
			t.Errorf("%q printed %q", c.args, out)
		}
		if got := f.bodies[request]; got != c.want {
			t.Errorf("%q sent %s, want %s", c.args, got, c.want)
		}
	}
}

func TestProjectToolRefusesWhatItCannotRead(t *testing.T) {
	f := newProject(t)
	f.canned = cannedLife()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"read", "hunter2"}, "arguments are KEY=VALUE pairs, one JSON object, or - for one on stdin"},
		{[]string{"read", "=hunter2"}, "arguments are KEY=VALUE"},
		{[]string{"read", "a=1", "a=hunter2"}, "arguments are KEY=VALUE"},
		{[]string{"read", "{hunter2"}, "'berth project tool --help' shows how they are written."},
		{[]string{"read", "-"}, "arguments are KEY=VALUE"},
		{[]string{"read", "--timeout", "0s"}, "--timeout takes a time above zero"},
		{[]string{}, "needs the ID of one project and the name of a tool"},
	} {
		s := newShell(t, f)
		s.deps.Stdin = strings.NewReader("null hunter2")
		r := s.berth(append([]string{"project", "tool", "shop"}, c.args...)...)
		if r.code != 125 || !strings.Contains(r.err, c.want) || strings.Contains(r.err, "hunter2") {
			t.Errorf("%q: %+v; want %q", c.args, r, c.want)
		}
	}
	delete(f.canned, "GET "+shopPath+"/tools")
	if r := newShell(t, f).berth("project", "tool", "shopp", "read", "a=1"); r.code != 125 || !strings.Contains(r.err, "Did you mean shop?") {
		t.Errorf("%+v", r)
	}
	f.canned["POST "+shopPath+"/execute"] = api.CodeUnknownTool
	if r := newShell(t, f).berth("project", "tool", "shop", "nosuch"); r.code != 125 || !strings.Contains(r.err, "'berth project tools shop' lists the tools") {
		t.Errorf("%+v", r)
	}
}

func TestProjectToolEndsAsTheToolDid(t *testing.T) {
	f := newProject(t)
	f.canned = cannedLife()
	s := newShell(t, f)
	if r := s.berth("project", "tool", "shop", "bash", "command=x"); r.code != 3 || r.out != "out\n[exit code 3]\n" || r.err != "" {
		t.Errorf("a command: %+v", r)
	}
	if r := s.berth("project", "tool", "shop", "bash", "--json"); r.code != 3 || *decode[api.ToolResult](t, r.out).ExitCode != 3 {
		t.Errorf("--json: %+v", r)
	}
	f.canned["POST "+shopPath+"/execute"] = api.ToolResult{Content: []api.ToolContent{{Type: "text", Text: "no such file"}}, IsError: true}
	if r := s.berth("project", "tool", "shop", "read"); r.code != 1 || r.out != "" || r.err != "no such file\n" {
		t.Errorf("a file tool: %+v", r)
	}
	f.canned["POST "+shopPath+"/execute"] = api.ToolResult{Content: []api.ToolContent{{Type: "text", Text: "a\x1b]0;title\x07b"}}}
	m := newTerminal(t)
	s.at(m).berth("project", "tool", "shop", "read")
	m.Wait("b\n")
	if strings.Contains(m.Text(), "\x1b]0") {
		t.Errorf("the tool drove the terminal: %q", m.Text())
	}
}
