package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/tool/tooltest"
)

// toolshop is a server whose sandboxes have real commands and files inside. All of them share one.
type toolshop struct {
	*site
	box   *tooltest.Box
	opens atomic.Int64
}

func newToolshop(t *testing.T, change ...func(*Options)) *toolshop {
	t.Helper()
	w := &toolshop{box: tooltest.New(t)}
	staff := func(o *Options) {
		o.inFake(func(f *fake.Driver) driver.Driver { return &toolDriver{f, w} })
	}
	w.site = newSite(t, append([]func(*Options){staff}, change...)...)
	return w
}

// toolDriver is the fake driver with a helper and files in its instances.
type toolDriver struct {
	*fake.Driver
	w *toolshop
}

func (d *toolDriver) Guest(ctx context.Context, id driver.ID) (guest.Conn, error) {
	d.w.opens.Add(1)
	if st, err := d.Inspect(ctx, id); err != nil || st.Phase != driver.PhaseRunning {
		return nil, cmp.Or(err, driver.ErrNotRunning)
	}
	return d.w.box.Guest(ctx, id)
}

func (d *toolDriver) Output(ctx context.Context, id driver.ID, process string, after int64) iter.Seq2[guest.Chunk, error] {
	return d.w.box.Output(ctx, id, process, after)
}

func (d *toolDriver) Files(ctx context.Context, id driver.ID, root string) (files.FS, error) {
	d.w.opens.Add(1)
	return d.w.box.Files(ctx, id, root)
}

// uses a tool of the project p.
func (w *toolshop) use(tool, arguments string, more ...string) answer {
	w.t.Helper()
	return w.post(at("p", "execute"), fmt.Sprintf(`{"tool_name":%q,"arguments":%s%s}`, tool, arguments, strings.Join(append([]string{""}, more...), ",")))
}

func (w *toolshop) file(name string) string { return filepath.Join(w.box.Workspace(), name) }

func TestToolsAreUsedInAProject(t *testing.T) {
	testkit.Proves(t, "P1", "P3")
	w := newToolshop(t)
	tools := into[api.List[api.Tool]](w.get(at("p", "tools")).is(http.StatusOK)).Items
	var names []string
	for _, tool := range tools {
		if names = append(names, tool.Name); tool.Description == "" || !strings.Contains(string(tool.InputSchema), `"properties"`) {
			t.Errorf("tool %+v", tool)
		}
	}
	if slices.Sort(names); !slices.Equal(names, []string{"bash", "edit", "glob", "grep", "list", "read", "write"}) {
		t.Errorf("tools %v", names)
	}
	w.get(at("p")).fails(api.CodeNotFound) // asking what there is makes nothing

	wrote := into[api.ToolResult](w.use("write", `{"path":"a.txt","content":"hello\n"}`).is(http.StatusOK))
	if wrote.IsError {
		t.Errorf("wrote %+v", wrote)
	}
	made := into[api.ProjectSandbox](w.get(at("p")).is(http.StatusOK))
	ran := into[api.ToolResult](w.use("bash", `{"command":"cat a.txt; echo oops >&2; exit 3"}`).is(http.StatusOK))
	if ran.ExitCode == nil || *ran.ExitCode != 3 || !ran.IsError || !strings.Contains(ran.Text(), "hello") || !strings.Contains(ran.Text(), "oops") {
		t.Errorf("ran %+v", ran)
	}
	if missing := into[api.ToolResult](w.use("read", `{"path":"b.txt"}`).is(http.StatusOK)); !missing.IsError {
		t.Errorf("a file that is not there: %+v", missing)
	}

	// The next use brings a sandbox back.
	w.remove(at("p")).is(http.StatusOK)
	w.use("bash", `{"command":"true"}`).is(http.StatusOK)
	if now := into[api.ProjectSandbox](w.get(at("p"))); now.Status != "RUNNING" || now.SandboxID != made.SandboxID {
		t.Errorf("after use: %+v", now)
	}
}

// A bad call is refused before a sandbox is created for it.
func TestBadToolCalls(t *testing.T) {
	testkit.Proves(t, "P3", "E1")
	w := newToolshop(t)
	for _, c := range []struct {
		body        string
		code        api.Code
		where, says string
	}{
		{`{"tool_name":"rm -rf","arguments":{}}`, api.CodeUnknownTool, "", "bash"},
		{`{"tool_name":"bash","arguments":{}}`, api.CodeInvalidRequest, "body.arguments.command", "missing"},
		{`{"tool_name":"bash","arguments":{"command":7}}`, api.CodeInvalidRequest, "body.arguments.command", "text"},
		{`{"tool_name":"bash","arguments":{"command":"x","shell":"zsh"}}`, api.CodeInvalidRequest, "body.arguments.shell", "no such field"},
		{`{"tool_name":"bash","arguments":"ls"}`, api.CodeInvalidRequest, "body.arguments", "object"},
		{`{"tool_name":"bash","arguments":{"command":"x"},"timeout":-1}`, api.CodeInvalidRequest, "body.timeout", "0"},
		{`{"tool_name":"bash","arguments":{"command":"x"},"timeout":3601}`, api.CodeInvalidRequest, "body.timeout", "3600"},
		{`{"tool_name":"bash","arguments":{"command":"x"},"timeout":"1s"}`, api.CodeInvalidRequest, "body.timeout", "number"},
		{`{"tool":"bash"}`, api.CodeInvalidRequest, "body.tool", "tool_name"},
		{`{"arguments":{}}`, api.CodeInvalidRequest, "body", "tool_name"},
		{`bash ls`, api.CodeInvalidRequest, "body", "not JSON"},
		{``, api.CodeInvalidRequest, "", "body"},
	} {
		p := w.post(at("p", "execute"), c.body).fails(c.code)
		if !strings.Contains(p.Detail, c.says) || c.where != "" && !slices.ContainsFunc(p.Errors, func(e api.FieldError) bool { return e.Location == c.where }) {
			t.Errorf("%s: %+v", c.body, p)
		}
	}
	w.post(at("sandboxes", "execute"), `{"tool_name":"bash","arguments":{"command":"x"}}`).fails(api.CodeInvalidID)
	w.post(at(strings.Repeat("x", 256), "execute"), `{"tool_name":"bash","arguments":{"command":"x"}}`).fails(api.CodeInvalidID)
	w.get(at("sandboxes", "tools")).fails(api.CodeInvalidID)
	w.get(at("p")).fails(api.CodeNotFound)
	if n := w.opens.Load(); n != 0 {
		t.Errorf("the inside was reached %d times", n)
	}
	newSite(t).post(at("p", "execute"), `{"tool_name":"bash","arguments":{"command":"x"}}`).fails(api.CodeUnsupported)
}

// A tool has its own time, longer than that of other requests or shorter.
func TestToolsKeepTheirOwnTime(t *testing.T) {
	testkit.Proves(t, "P3")
	w := newToolshop(t, func(o *Options) { o.RequestTimeout = 2 * time.Second })
	w.ensured("p")
	slow := into[api.ToolResult](w.use("bash", `{"command":"sleep 3; echo done"}`).is(http.StatusOK))
	if slow.IsError || !strings.Contains(slow.Text(), "done") {
		t.Errorf("slow: %+v", slow)
	}
	cut := into[api.ToolResult](w.use("bash", `{"command":"sleep 300"}`, `"timeout":0.2`).is(http.StatusOK))
	if cut.ExitCode == nil || *cut.ExitCode != 124 {
		t.Errorf("cut: %+v", cut)
	}
}

// Under one key a tool is used once, also if its caller is gone before the answer.
func TestToolIsUsedOnceUnderOneKey(t *testing.T) {
	w := newToolshop(t)
	w.ensured("p")
	c := call{
		method: "POST", path: at("p", "execute"), key: w.write, header: map[string]string{idempotencyHeader: "k"},
		body: `{"tool_name":"bash","arguments":{"command":"echo run >> runs; until [ -e go ]; do sleep 0.05; done; echo done"}}`,
	}
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, err := w.send(ctx, c); left <- err }()
	testkit.Eventually(t, long, func() error { _, err := os.Stat(w.file("runs")); return err })
	w.do(c).fails(api.CodeKeyInFlight)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the first caller: %v", err)
	}
	if err := os.WriteFile(w.file("go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, long, func() error {
		a := w.do(c)
		if a.status != http.StatusOK {
			return fmt.Errorf("%d %s", a.status, a.body)
		}
		if got := into[api.ToolResult](a); a.header.Get(replayedHeader) != "true" || !strings.Contains(got.Text(), "done") {
			t.Errorf("again: %v %s", a.header, a.body)
		}
		return nil
	})
	if runs, err := os.ReadFile(w.file("runs")); err != nil || string(runs) != "run\n" {
		t.Errorf("runs %q, %v", runs, err)
	}
}

// Without a key, what a caller asked for ends with its connection.
func TestToolEndsWithItsCaller(t *testing.T) {
	w := newToolshop(t)
	w.ensured("p")
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := w.send(ctx, call{
			method: "POST", path: at("p", "execute"), key: w.write,
			body: `{"tool_name":"bash","arguments":{"command":"touch begun; sleep 600"}}`,
		})
		left <- err
	}()
	testkit.Eventually(t, long, func() error { _, err := os.Stat(w.file("begun")); return err })
	cancel()
	<-left
	testkit.Eventually(t, long, func() error {
		lines := w.log.lines(t, "request")
		if last := lines[len(lines)-1]; last["route"] != oneProject+"/sandbox/execute" {
			return fmt.Errorf("the request has not ended; the last that did is %v", last)
		}
		return nil
	})
}

// client connects an MCP client to the project.
func (w *toolshop) client(id, key string) (*sdk.ClientSession, error) {
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	return c.Connect(w.t.Context(), &sdk.StreamableClientTransport{
		Endpoint: w.server.URL + strings.TrimSuffix(at(id), "/sandbox") + "/mcp", HTTPClient: &http.Client{Transport: withKey(key)},
		MaxRetries: -1, DisableStandaloneSSE: true,
	}, nil)
}

type withKey string

func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(k))
	return http.DefaultTransport.RoundTrip(r)
}

// An MCP client uses a project's sandbox.
func TestProjectIsAnMCPServer(t *testing.T) {
	testkit.Proves(t, "P3")
	w := newToolshop(t)
	session, err := w.client("org/repo", w.write)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 7 {
		t.Fatalf("tools %+v, %v", tools, err)
	}
	w.get(at("org/repo")).fails(api.CodeNotFound) // nothing was done yet
	result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "bash", Arguments: map[string]any{"command": "echo hi from inside"}})
	if err != nil || result.IsError || len(result.Content) == 0 || !strings.Contains(result.Content[0].(*sdk.TextContent).Text, "hi from inside") {
		t.Fatalf("called %+v, %v", result, err)
	}
	if made := into[api.ProjectSandbox](w.get(at("org/repo")).is(http.StatusOK)); made.Status != "RUNNING" {
		t.Errorf("made %+v", made)
	}
	result, err = session.CallTool(t.Context(), &sdk.CallToolParams{Name: "bash", Arguments: map[string]any{"cmnd": "x"}})
	if err != nil || !result.IsError {
		t.Errorf("bad arguments: %+v, %v", result, err)
	}

	path := projectsPath + "/p/mcp"
	w.do(call{method: "DELETE", path: path, key: w.write}).is(http.StatusNoContent)
	w.do(call{method: "DELETE", path: path, key: w.read}).fails(api.CodeForbidden)
	for _, method := range []string{"GET", "PUT"} {
		a := w.do(call{method: method, path: path, key: w.write})
		if a.fails(api.CodeMethodNotAllowed); a.header.Get("Allow") != "DELETE, POST" {
			t.Errorf("%s: %v", method, a.header)
		}
	}
	w.do(call{method: "POST", path: path, body: "{}"}).fails(api.CodeUnauthenticated)
	w.do(call{method: "POST", path: path, key: w.read, body: "{}"}).fails(api.CodeForbidden)
	w.post(path, "not JSON").fails(api.CodeInvalidRequest)
	w.post(path, "[]").fails(api.CodeInvalidRequest)
	w.post(projectsPath+"/sandboxes/mcp", "{}").fails(api.CodeInvalidID)
	w.post(path, `{"jsonrpc":"2.0","method":"notifications/initialized"}`).is(http.StatusAccepted)
	if _, err := w.client("p", "berth_no_key_at_all"); err == nil {
		t.Error("a client without a key got in")
	}
}

// While a tool takes long, timers stay away from its sandbox.
func TestLongToolHoldsItsSandbox(t *testing.T) {
	testkit.Proves(t, "P3")
	w := newToolshop(t)
	made := w.ensured("p")
	held := func(n int) func() error {
		return func() error {
			holds, err := w.db.Holds().List(t.Context(), made.SandboxID)
			if err != nil || len(holds) != n {
				return fmt.Errorf("holds %+v, %v; want %d", holds, err, n)
			}
			return nil
		}
	}
	done := make(chan answer, 1)
	go func() { done <- w.use("bash", `{"command":"until [ -e go ]; do sleep 0.05; done"}`) }()
	testkit.Eventually(t, long, held(1))
	if err := os.WriteFile(w.file("go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	(<-done).is(http.StatusOK)
	testkit.Eventually(t, long, held(0))
}

// What keeps the sandbox from running is a problem, for every tool.
func TestToolsOfASandboxThatCannotRun(t *testing.T) {
	w := newToolshop(t)
	w.fake.On(fake.Create).Fail(fmt.Errorf("%w: no room", driver.ErrInvalid))
	for tool, arguments := range map[string]string{"bash": `{"command":"true"}`, "read": `{"path":"a"}`} {
		if p := w.use(tool, arguments).fails(api.CodeDriverRefused); !strings.Contains(p.Detail, "no room") {
			t.Errorf("%s: %+v", tool, p)
		}
	}
	got := into[api.ProjectSandbox](w.get(at("p")).is(http.StatusOK))
	if got.Status != "ERROR" || !strings.Contains(got.ErrorMessage, "no room") {
		t.Errorf("the record: %+v", got)
	}
}
