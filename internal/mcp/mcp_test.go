package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/tool"
	"github.com/berthdev/berth/internal/tool/tooltest"
)

// site is a server with one endpoint for each of its sandboxes, at /NAME.
type site struct {
	t     *testing.T
	boxes map[string]*engine.Handle
	url   string
}

func options(boxes map[string]*engine.Handle) Options {
	problem := func(_ context.Context, err error) *api.Problem {
		return api.NewProblem(fault.CodeOf(err), err.Error())
	}
	return Options{
		Tools: tool.Builtin(), Version: "1.2.3", Problem: problem,
		Caller: func(r *http.Request) string { return r.Header.Get("Authorization") },
		Handle: func(r *http.Request) (*engine.Handle, error) {
			if box := boxes[r.URL.Path]; box != nil {
				return box, nil
			}
			return nil, fault.Errorf("", api.CodeNotFound, "there is no %s", r.URL.Path)
		},
		Fail: func(w http.ResponseWriter, r *http.Request, err error) {
			p := problem(r.Context(), err)
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(p.Status)
			_ = json.NewEncoder(w).Encode(p)
		},
	}
}

func newSite(t *testing.T, boxes map[string]*engine.Handle) *site {
	t.Helper()
	server := httptest.NewServer(Handler(options(boxes)))
	t.Cleanup(server.Close)
	return &site{t, boxes, server.URL}
}

// connect is the protocol's own client.
func (s *site) connect(path string) *sdk.ClientSession {
	s.t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(s.t.Context(), &sdk.StreamableClientTransport{Endpoint: s.url + path}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = session.Close() })
	return session
}

// call uses a tool and returns what it says.
func call(t *testing.T, session *sdk.ClientSession, name string, args map[string]any) (text string, result *sdk.CallToolResult) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, c := range result.Content {
		text += c.(*sdk.TextContent).Text
	}
	return text, result
}

func TestClientWorksInASandbox(t *testing.T) {
	testkit.Proves(t, "P3")
	box := tooltest.New(t)
	session := newSite(t, map[string]*engine.Handle{"/a": box.Handle()}).connect("/a")
	about := session.InitializeResult()
	if about.ServerInfo.Name != "berth" || about.ServerInfo.Version != "1.2.3" || !strings.Contains(about.Instructions, "/workspace") {
		t.Errorf("%+v", about)
	}
	if c := about.Capabilities; c.Tools == nil || c.Tools.ListChanged || c.Prompts != nil || c.Resources != nil {
		t.Errorf("%+v", c)
	}
	listed, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var shown []api.Tool
	for _, one := range listed.Tools {
		schema, err := json.Marshal(one.InputSchema)
		if err != nil {
			t.Fatal(err)
		}
		shown = append(shown, api.Tool{Name: one.Name, Description: one.Description, InputSchema: schema})
		if reads := slices.Contains([]string{"read", "glob", "grep", "list"}, one.Name); one.Annotations.ReadOnlyHint != reads {
			t.Errorf("%s: read only %v", one.Name, one.Annotations.ReadOnlyHint)
		}
	}
	want := slices.Clone(tool.Builtin().List())
	slices.SortFunc(want, func(a, b api.Tool) int { return strings.Compare(a.Name, b.Name) })
	asJSON := cmp.Transformer("json", func(raw json.RawMessage) (v any) { _ = json.Unmarshal(raw, &v); return v })
	if diff := cmp.Diff(want, shown, asJSON); diff != "" {
		t.Errorf("other tools than those of the API: %s", diff)
	}

	for _, step := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"write", map[string]any{"file_path": "/workspace/a.txt", "content": "one\ntwo\n"}, "Created a.txt (8 bytes)."},
		{"read", map[string]any{"file_path": "a.txt"}, "     1\tone\n     2\ttwo\n"},
		{"edit", map[string]any{"file_path": "a.txt", "old_string": "two", "new_string": "three"}, "Replaced 1 occurrence in a.txt."},
		{"bash", map[string]any{"command": "cat a.txt"}, "one\nthree\n"},
		{"glob", map[string]any{"pattern": "*.txt"}, "a.txt\n"},
		{"grep", map[string]any{"pattern": "th", "output_mode": "content"}, "a.txt:2:three\n"},
		{"list", map[string]any{}, "/workspace/\n  a.txt  10\n"},
	} {
		text, result := call(t, session, step.tool, step.args)
		if text != step.want || result.IsError {
			t.Errorf("%s: %q, want %q", step.tool, text, step.want)
		}
	}
	_, result := call(t, session, "bash", map[string]any{"command": "exit 3"})
	if !result.IsError || fmt.Sprint(result.Meta["berth/exit_code"]) != "3" || result.Meta["berth/truncated"] != false {
		t.Errorf("%+v", result)
	}
}

func TestTroubleIsAResultThatSaysWhy(t *testing.T) {
	testkit.Proves(t, "P3")
	box := tooltest.New(t)
	session := newSite(t, map[string]*engine.Handle{"/a": box.Handle()}).connect("/a")
	box.Down = fault.Errorf("reach sandbox", api.CodeDriverUnreachable, "the driver is on strike")
	for name, args := range map[string]map[string]any{
		"the driver is on strike (driver_unreachable). What was asked for is recorded": {"command": "true"},
		"arguments.command: is missing":                      {},
		"arguments.command: expected a text":                 {"command": 5},
		"arguments.nice: there is no such field; there are ": {"command": "true", "nice": 5},
	} {
		text, result := call(t, session, "bash", args)
		if !result.IsError || !strings.Contains(text, name) {
			t.Errorf("%v: %q", args, text)
		}
	}
	if text, _ := call(t, session, "bash", map[string]any{"command": "true"}); !strings.HasSuffix(text, "may work later.") {
		t.Errorf("%q", text)
	}
	if _, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "rm"}); err == nil || !strings.Contains(err.Error(), "unknown tool") {
		t.Errorf("%v", err)
	}
}

// Any replica answers any request: what one server began another one goes on with.
func TestNoReplicaKeepsASession(t *testing.T) {
	testkit.Proves(t, "P3")
	a, b := tooltest.New(t), tooltest.New(t)
	boxes := map[string]*engine.Handle{"/a": a.Handle(), "/b": b.Handle()}
	servers := []http.Handler{Handler(options(boxes)), Handler(options(boxes)), Handler(options(boxes))}
	var mu sync.Mutex
	next := 0
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		next++
		h := servers[next%len(servers)]
		mu.Unlock()
		if r.Header.Get("Mcp-Session-Id") != "" {
			t.Error("there is a session")
		}
		h.ServeHTTP(w, r)
	}))
	defer front.Close()
	s := &site{t, boxes, front.URL}
	var all sync.WaitGroup
	for path, box := range map[string]*tooltest.Box{"/a": a, "/b": b} {
		session := s.connect(path)
		for i := range 20 {
			all.Go(func() {
				name := fmt.Sprintf("file-%d", i)
				call(t, session, "write", map[string]any{"file_path": name, "content": path})
				if text, _ := call(t, session, "read", map[string]any{"file_path": name}); !strings.HasSuffix(text, path+"\n") {
					t.Errorf("%s of %s holds %q", name, path, text)
				}
				if data, err := os.ReadFile(filepath.Join(box.Workspace(), name)); err != nil || string(data) != path {
					t.Errorf("%s of %s: %q, %v", name, path, data, err)
				}
			})
		}
	}
	all.Wait()
	for _, h := range servers {
		if n := len(h.(*handler).calls.calls); n > 0 {
			t.Errorf("calls of %d callers are left", n)
		}
	}
}

// A caller that is gone ends its command.
func TestCommandEndsWithItsRequest(t *testing.T) {
	box := tooltest.New(t)
	s := newSite(t, map[string]*engine.Handle{"/a": box.Handle()})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/a",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bash","arguments":{"command":"echo $$ > pid; mv pid begun; exec sleep 1000","timeout":3600}}}`))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		res, err := http.DefaultClient.Do(r)
		if err == nil {
			err = res.Body.Close()
		}
		ended <- err
	}()
	var pid []byte
	testkit.Eventually(t, time.Minute, func() (err error) {
		pid, err = os.ReadFile(filepath.Join(box.Workspace(), "begun"))
		return err
	})
	cancel()
	<-ended
	testkit.Eventually(t, time.Minute, func() error {
		if state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat"); err == nil && !strings.Contains(string(state), ") Z ") {
			return fmt.Errorf("it still runs: %s", state)
		}
		return nil
	})
}

// post sends one request as it is; header are pairs.
func (s *site) post(path, body string, header ...string) (status int, answer string, h http.Header) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, string(data), res.Header
}

const listTools = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

// People try an endpoint with curl: no handshake, few headers, one JSON document. Names and origins are
// checked by the server in front, which may know others than localhost.
func TestPlainRequestsAreAnswered(t *testing.T) {
	testkit.Proves(t, "P3")
	s := newSite(t, map[string]*engine.Handle{"/a": tooltest.New(t).Handle()})
	for _, header := range [][]string{
		{}, {"Accept", "application/json"}, {"Accept", "*/*", "Content-Type", "application/json"},
		{"Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2025-06-18"},
		{"Host", "berth.example.com", "Origin", "https://berth.example.com"},
		{"Mcp-Session-Id", "of another server"},
	} {
		status, body, h := s.post("/a", listTools, header...)
		if status != http.StatusOK || h.Get("Content-Type") != "application/json" || h.Get("Mcp-Session-Id") != "" || !strings.Contains(body, `"name":"bash"`) {
			t.Errorf("%v: %d %.300s", header, status, body)
		}
	}
	status, body, _ := s.post("/a", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if status != http.StatusAccepted || body != "" {
		t.Errorf("%d %s", status, body)
	}
}

func TestRefusalsAreProblems(t *testing.T) {
	testkit.Proves(t, "P3")
	s := newSite(t, map[string]*engine.Handle{"/a": tooltest.New(t).Handle()})
	for _, c := range []struct {
		path, body string
		header     []string
		code       api.Code
	}{
		{"/b", listTools, nil, api.CodeNotFound},
		{"/a", "", nil, api.CodeInvalidRequest},
		{"/a", "nonsense", nil, api.CodeInvalidRequest},
		{"/a", `{"jsonrpc":"2.0"}`, nil, api.CodeInvalidRequest},
		{"/a", ` [` + listTools + `]`, nil, api.CodeInvalidRequest},
		{"/a", `{"jsonrpc":"2.0","id":1,"method":"no/such"}`, nil, api.CodeInvalidRequest},
		{"/a", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":5}`, nil, ""},
		{"/a", strings.Repeat("[", 1<<20), nil, api.CodeInvalidRequest},
		{"/a", `{"a":` + strings.Repeat("[", 1<<20), nil, api.CodeInvalidRequest},
		{"/a", listTools, []string{"Content-Type", "text/plain"}, api.CodeUnsupportedMedia},
		{"/a", listTools, []string{"Accept", "text/html"}, api.CodeInvalidRequest},
		{"/a", listTools, []string{"MCP-Protocol-Version", "1999-01-01"}, api.CodeInvalidRequest},
		{"/a", strings.Repeat(" ", maxBody+1), nil, api.CodeBodyTooLarge},
	} {
		status, body, h := s.post(c.path, c.body, c.header...)
		if c.code == "" { // a message that is understood so far is answered in the protocol's words
			if !strings.Contains(body, `"error"`) {
				t.Errorf("%.80s: %d %.300s", c.body, status, body)
			}
			continue
		}
		var p api.Problem
		if err := json.Unmarshal([]byte(body), &p); err != nil || p.Code != c.code || status != c.code.Info().Status || h.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%.80s %v: %d %.300s", c.body, c.header, status, body)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		r, err := http.NewRequestWithContext(t.Context(), method, s.url+"/a", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != "DELETE, POST" {
			t.Errorf("%s: %d", method, res.StatusCode)
		}
	}
}

// A subscription could keep a request for ever. There is nothing to announce, and it ends at once.
func TestNobodyListens(t *testing.T) {
	s := newSite(t, map[string]*engine.Handle{"/a": tooltest.New(t).Handle()})
	const version = "2026-07-28"
	status, body, _ := s.post("/a", `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"`+version+
		`","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},"notifications":{"toolsListChanged":true}}}`,
		"MCP-Protocol-Version", version, "Mcp-Method", "subscriptions/listen")
	if !strings.Contains(body, `"result"`) || strings.Contains(body, `"toolsListChanged":true`) {
		t.Errorf("%d %s", status, body)
	}
}

// A bug in a tool ends its call, not the server.
func TestPanicEndsOneCall(t *testing.T) {
	s := newSite(t, map[string]*engine.Handle{"/a": new(engine.Handle), "/b": tooltest.New(t).Handle()})
	_, body, _ := s.post("/a", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"list","arguments":{}}}`)
	if !strings.Contains(body, `"id":7`) || !strings.Contains(body, "(internal)") {
		t.Errorf("%s", body)
	}
	if status, body, _ := s.post("/b", listTools); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
}
