package mcp

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/tool/tooltest"
)

// begun waits until a command has written its pid, and returns a check that it has ended.
func begun(t *testing.T, box *tooltest.Box, name string) (ended func()) {
	t.Helper()
	var pid []byte
	testkit.Eventually(t, time.Minute, func() (err error) {
		pid, err = os.ReadFile(filepath.Join(box.Workspace(), name))
		return err
	})
	return func() {
		t.Helper()
		testkit.Eventually(t, time.Minute, func() error {
			if state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat"); err == nil && !strings.Contains(string(state), ") Z ") {
				return fmt.Errorf("it still runs: %s", state)
			}
			return nil
		})
	}
}

const sleeper = `{"jsonrpc":"2.0","id":%[1]s,"method":"tools/call","params":{"name":"bash","arguments":{"command":"echo $$ > pid-%[2]s; mv pid-%[2]s %[2]s; exec sleep 1000","timeout":3600}}}`

// A notice of the caller that made a call ends its command, and the call says so; DELETE ends all calls of a caller.
// Another caller, another sandbox and another id end nothing.
func TestCallsAreCancelled(t *testing.T) {
	testkit.Proves(t, "P9")
	box := tooltest.New(t)
	s := newSite(t, map[string]*engine.Handle{"/a": box.Handle(), "/b": box.Handle()})
	cancel := func(path, id, who string) {
		t.Helper()
		body := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"enough"}}`, id)
		if status, answer, _ := s.post(path, body, "Authorization", who); status != http.StatusAccepted {
			t.Errorf("%d %s", status, answer)
		}
	}
	answers := make(chan string, 2)
	for id, name := range map[string]string{"7": "one", `"x"`: "two"} {
		go func() {
			_, answer, _ := s.post("/a", fmt.Sprintf(sleeper, id, name), "Authorization", "me")
			answers <- answer
		}()
	}
	one, two := begun(t, box, "one"), begun(t, box, "two")
	cancel("/a", "7", "another")
	cancel("/b", "7", "me")
	cancel("/a", "8", "me")
	cancel("/a", "7", "me")
	if answer := <-answers; !strings.Contains(answer, `"id":7`) || !strings.Contains(answer, "was cancelled") {
		t.Errorf("answered %s", answer)
	}
	one()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, s.url+"/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "me")
	res, err := http.DefaultClient.Do(r)
	if err != nil || res.StatusCode != http.StatusNoContent || res.Body.Close() != nil {
		t.Fatalf("%+v, %v", res, err)
	}
	if answer := <-answers; !strings.Contains(answer, `"id":"x"`) || !strings.Contains(answer, "was cancelled") {
		t.Errorf("answered %s", answer)
	}
	two()
}

// Of two calls with one id, by two clients with one key, none is ended: it is not known which is meant.
func TestAmbiguousCancelEndsNothing(t *testing.T) {
	r, at := new(running), place{"me", "/a"}
	first, endFirst := r.begin(t.Context(), at, []byte("1"))
	second, endSecond := r.begin(t.Context(), at, []byte("1"))
	if err := r.cancel(t.Context(), at, []byte("1")); err != nil || first.Err() != nil || second.Err() != nil {
		t.Error("one was ended")
	}
	endSecond()
	if err := r.cancel(t.Context(), at, []byte("1")); err != nil || context.Cause(first) != errCancelled {
		t.Error("it was not ended")
	}
	if endFirst(); len(r.calls) != 0 {
		t.Errorf("left %v", r.calls)
	}
}

// connect connects the protocol's own client, which passes on the progress it is sent.
func connect(t *testing.T, url string, progress chan<- *sdk.ProgressNotificationParams) *sdk.ClientSession {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { progress <- r.Params },
	})
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// The protocol's own client gets progress, and its cancelled call ends.
func TestClientIsToldOfProgress(t *testing.T) {
	testkit.Proves(t, "P9")
	box := tooltest.New(t)
	s := newSite(t, map[string]*engine.Handle{"/a": box.Handle()})
	progress := make(chan *sdk.ProgressNotificationParams, 100)
	session := connect(t, s.url+"/a", progress)
	params := &sdk.CallToolParams{Name: "bash", Arguments: map[string]any{"command": "echo $$ > pid; mv pid begun; while [ ! -e go ]; do sleep 0.05; done; echo done"}}
	params.SetProgressToken("mine")
	results := make(chan string, 1)
	go func() {
		result, err := session.CallTool(t.Context(), params)
		if err != nil {
			results <- err.Error()
			return
		}
		results <- result.Content[0].(*sdk.TextContent).Text
	}()
	ended := begun(t, box, "begun")
	first, second := <-progress, <-progress
	if first.ProgressToken != "mine" || second.Progress <= first.Progress || !strings.Contains(second.Message, "bash has run for") {
		t.Errorf("got %+v, then %+v", first, second)
	}
	if err := os.WriteFile(filepath.Join(box.Workspace(), "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if text := <-results; text != "done\n" {
		t.Errorf("it said %q", text)
	}
	ended()

	ctx, cancel := context.WithCancel(t.Context())
	params = &sdk.CallToolParams{Name: "bash", Arguments: map[string]any{"command": "echo $$ > pid; mv pid again; exec sleep 1000"}}
	done := make(chan error, 1)
	go func() {
		_, err := session.CallTool(ctx, params)
		done <- err
	}()
	ended = begun(t, box, "again")
	cancel()
	if err := <-done; err == nil {
		t.Error("a cancelled call succeeded")
	}
	ended()
}

// The progress that an MCP server inside reports reaches the caller, in its own steps.
func TestProgressOfAServerInsideIsForwarded(t *testing.T) {
	testkit.Proves(t, "P9")
	box := tooltest.New(t)
	box.Of = "t"
	s := newServed(t, map[string]*engine.Handle{"/a": box.Handle()})
	steps := make(chan *sdk.ProgressNotificationParams, 10_000)
	session := connect(t, s.url+"/a", steps)
	stop := filepath.Join(box.Workspace(), "stop")
	params := &sdk.CallToolParams{Name: "s__steps", Arguments: map[string]any{"text": stop}}
	if text, _ := call(t, session, params.Name, map[string]any{"text": stop}); text != "no progress was asked for" {
		t.Errorf("without a token: %q", text)
	}
	params.SetProgressToken("mine")
	results := make(chan string, 1)
	go func() {
		result, err := session.CallTool(t.Context(), params)
		if err != nil {
			results <- err.Error()
			return
		}
		results <- result.Content[0].(*sdk.TextContent).Text
	}()
	last := 0.
	for inside := 0; inside < 3; {
		p := <-steps
		if p.ProgressToken != "mine" || p.Progress <= last || p.Progress > 1e5 {
			t.Fatalf("progress %+v after %v", p, last)
		}
		if last = p.Progress; p.Message == "step" && p.Total >= 1000 {
			inside++
		}
	}
	if err := os.WriteFile(stop, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if text := <-results; text != "done" {
		t.Errorf("it answered %q", text)
	}
}

// Results of servers inside pass whole: pictures, links and structured content.
func TestResultsPassWhole(t *testing.T) {
	testkit.Proves(t, "P9")
	box := tooltest.New(t)
	box.Of = "t"
	session := newServed(t, map[string]*engine.Handle{"/a": box.Handle()}).connect("/a")
	result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "s__media"})
	if err != nil || len(result.Content) != 5 {
		t.Fatalf("%+v, %v", result, err)
	}
	image, isImage := result.Content[0].(*sdk.ImageContent)
	link, isLink := result.Content[2].(*sdk.ResourceLink)
	file, isFile := result.Content[4].(*sdk.EmbeddedResource)
	if !isImage || string(image.Data) != "png" || !isLink || link.URI != "file:///a" || !isFile || string(file.Resource.Blob) != "blob" {
		t.Errorf("%+v", result.Content)
	}
	if result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "s__data"}); err != nil || fmt.Sprint(result.StructuredContent) != "map[a:1]" {
		t.Errorf("%+v, %v", result, err)
	}
}
