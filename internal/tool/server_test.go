package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/testkit"
)

func TestServersToolsStandBesideTheBuiltInOnes(t *testing.T) {
	testkit.Proves(t, "P3")
	box := newServed(t)
	first := mode("good")
	first.Env = map[string]string{"OF_SERVER": "own"}
	b := newBench(t, map[string]template.MCPServer{"one": first, "two": mode("garbage"), "gone": {Command: template.Command{"/opt/tools/nothing"}}, "ill": mode("exit")})

	list := b.all(box)
	seen := map[string]bool{}
	for _, one := range list.Items {
		if seen[one.Name] {
			t.Errorf("two tools are called %s", one.Name)
		}
		seen[one.Name] = true
		if !json.Valid(one.InputSchema) || strings.Contains(one.Name, "__") != (len(seen) > 7) {
			t.Errorf("%+v", one)
		}
	}
	for _, name := range []string{"bash", "one__bash", "two__bash", "one__echo", "two__echo"} {
		if !seen[name] {
			t.Errorf("no %s in the list", name)
		}
	}
	if t.Failed() {
		return
	}
	if i := slices.IndexFunc(list.Items, func(one api.Tool) bool { return one.Name == "one__echo" }); !strings.Contains(string(list.Items[i].InputSchema), `"required":["text"]`) {
		t.Errorf("%s", list.Items[i].InputSchema)
	}
	if n := len(list.Servers); n != 4 || list.Servers[2].Tools != 15 || list.Servers[2].Problem != "" || list.Servers[3].Tools != 15 {
		t.Errorf("%+v", list.Servers)
	}
	is(t, "the order", list.Servers[0].Name+list.Servers[1].Name+list.Servers[2].Name+list.Servers[3].Name, "goneillonetwo")
	has(t, list.Servers[0].Problem, "gone could not be started", "127")
	has(t, list.Servers[1].Problem, "ill could not be started", "exit code 3", "no such database")

	b.use(box, "one__echo", args{"text": "hello"}, false, "hello")
	is(t, "env", b.use(box, "one__env", args{}, false).Text(), "yes own /workspace 1000")
	is(t, "env", b.use(box, "two__env", nil, false).Text(), "yes no /workspace 1000")
	b.use(box, "bash", args{"command": "echo the shell"}, false, "the shell")
	b.use(box, "one__bash", args{"command": "echo the shell"}, false, "not the shell you know")
	b.use(box, "gone__bash", args{}, true, "could not be started", "127")
	b.use(box, "ill__bash", args{}, true, "no such database")
	left(t, box, 2)
}

func TestResultsOfServers(t *testing.T) {
	testkit.Proves(t, "P3", "P9")
	box := newServed(t)
	b := newBench(t, map[string]template.MCPServer{"s": mode("good")})
	b.use(box, "s__fail", nil, true, "it cannot be done")
	b.use(box, "s__broken", nil, true, "out of paper", "MCP server s")
	b.use(box, "s__echo", args{"text": 5}, true, "text") // the server checks what it is asked for
	b.use(box, "s__echo", args{}, true, "text")
	b.use(box, "s__nothing", nil, false, "(no output)")
	media := b.use(box, "s__media", nil, false, "image/png", "audio/wav", "file:///a", "text of b", "file:///c, 4 bytes")
	want := []api.ToolContent{
		{Type: api.ContentImage, MIMEType: "image/png", Data: []byte("png")}, {Type: api.ContentAudio, MIMEType: "audio/wav", Data: []byte("wave")},
		{Type: api.ContentLink, URI: "file:///a", Name: "a"},
		{Type: api.ContentResource, URI: "file:///b", Text: "text of b"}, {Type: api.ContentResource, URI: "file:///c", Data: []byte("blob")},
	}
	if diff := cmp.Diff(want, media.Content); diff != "" || media.Truncated {
		t.Errorf("it is not passed whole: %s", diff)
	}
	if r := b.use(box, "s__data", nil, false, `{"a":1}`); r.StructuredContent == nil {
		t.Errorf("%+v", r)
	}
	if r := b.use(box, "s__much", nil, false, "much"); r.StructuredContent == nil || r.Truncated {
		t.Errorf("%d pieces, cut %v", len(r.Content), r.Truncated)
	}
	if r := b.use(box, "s__big", args{"n": 1_000_000}, false, "bytes left out", "Ask for less"); !r.Truncated {
		t.Error("it does not say that it was cut")
	}
	if r := b.use(box, "s__big", args{"n": 1000}, false); r.Truncated || len(r.Text()) != 1000 {
		t.Errorf("%+v", r)
	}
	b.use(box, "s__add", args{"text": "later"}, false, "added")
	b.use(box, "s__later", nil, false, "new")
	if list := b.all(box); !slices.ContainsFunc(list.Items, func(one api.Tool) bool { return one.Name == "s__later" }) {
		t.Errorf("%+v", list.Servers)
	}
}

func TestBadCallsOfServers(t *testing.T) {
	testkit.Proves(t, "P3", "E1")
	box := newServed(t)
	b := newBench(t, map[string]template.MCPServer{"s": mode("good")})
	for name, in := range map[string]any{"x__echo": args{}, "S__echo": args{}, "__echo": args{}, "x__": args{}} {
		_, err := b.try(box, name, in)
		isCode(t, name, err, api.CodeUnknownTool)
		has(t, err.Error(), "there are s")
	}
	_, err := b.try(box, "s__echo", "text")
	isCode(t, "arguments", err, api.CodeInvalidRequest)
	_, err = b.try(box, "s__echo", args{}, -1)
	isCode(t, "timeout", err, api.CodeInvalidRequest)
	box.template = "other"
	_, err = b.try(box, "s__echo", args{})
	isCode(t, "another template", err, api.CodeUnknownTool)
	has(t, err.Error(), "none")
	if list := b.all(box); len(list.Items) != 7 || len(list.Servers) != 0 {
		t.Errorf("%+v", list)
	}
	if n := box.reached.Load(); n != 0 {
		t.Errorf("the sandbox was reached %d times", n)
	}

	box.template = "t"
	for _, name := range []string{"s__nope", "s__", "s__Echo", "s__echo\n"} {
		_, err := b.try(box, name, args{})
		isCode(t, name, err, api.CodeUnknownTool)
		has(t, err.Error(), "s__echo")
	}
	box.down = fault.Errorf("reach sandbox", api.CodeNotRunning, "it is stopped")
	_, err = b.try(box, "s__echo", args{})
	isCode(t, "down", err, api.CodeNotRunning)
	if list := b.all(box); len(list.Items) != 7 || !strings.Contains(list.Servers[0].Problem, "it is stopped (sandbox_not_running)") {
		t.Errorf("%+v", list.Servers)
	}
}

// A server that hangs costs its time, and nothing else.
func TestHungServers(t *testing.T) {
	testkit.Proves(t, "P3", "E6")
	box := newServed(t)
	hung := mode("hang")
	hung.Timeout = template.Duration(5 * time.Second)
	b := newBench(t, map[string]template.MCPServer{"s": mode("good"), "hung": hung, "raw": mode("strange")})
	b.use(box, "hung__echo", nil, true, "could not be started", "did not answer in time", "fetching the internet")
	left(t, box, 0)

	before := b.use(box, "s__pid", nil, false).Text()
	result, err := b.try(box, "s__hang", args{}, 0.3)
	if err != nil || !result.IsError {
		t.Fatalf("%+v, %v", result, err)
	}
	has(t, result.Text(), "did not answer in time")
	if now := b.use(box, "s__pid", nil, false).Text(); now == before {
		t.Error("the server that hangs is used again")
	}
	left(t, box, 1)

	// One that does not read takes what fits into its pipe.
	b.use(box, "raw__deafen", nil, false)
	result, err = b.try(box, "raw__odd", args{"text": strings.Repeat("x", 500_000)}, 0.5)
	if err != nil || !result.IsError {
		t.Fatalf("%+v, %v", result, err)
	}
	b.use(box, "raw__shout", nil, true, "gone", "more than 4 MiB")
	b.use(box, "raw__odd", nil, true, "no result")
}

// A list waits for a server, but not for longer than its caller.
func TestListDoesNotWaitForever(t *testing.T) {
	box := newServed(t)
	hung := mode("hang")
	hung.Timeout = template.Duration(300 * time.Millisecond)
	b := newBench(t, map[string]template.MCPServer{"s": mode("good"), "hung": hung})
	list := b.all(box)
	if list.Servers[1].Problem != "" || list.Servers[1].Tools == 0 {
		t.Errorf("%+v", list.Servers)
	}
	has(t, list.Servers[0].Problem, "did not answer in time")

	slow := newBench(t, map[string]template.MCPServer{"s": mode("hang")})
	slow.servers.Wait(200 * time.Millisecond)
	has(t, slow.all(box).Servers[0].Problem, "not ready yet")
	if n := slow.servers.Running(); n != 1 { // it has its own time
		t.Errorf("%d servers", n)
	}
}

// A caller that is gone gets nothing, and the server is there for others.
func TestCallerOfAServerLeaves(t *testing.T) {
	box := newServed(t)
	b := newBench(t, map[string]template.MCPServer{"s": mode("good"), "hung": mode("hang")})
	pid := b.use(box, "s__pid", nil, false).Text()
	for _, name := range []string{"s__hang", "hung__hang"} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := b.Call(ctx, box.handle(), api.ExecuteTool{ToolName: name})
		if cancel(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
	is(t, "the same process", b.use(box, "s__pid", nil, false).Text(), pid)
}

func TestServersThatGoWrong(t *testing.T) {
	testkit.Proves(t, "P3", "E6")
	box := newServed(t)
	servers := map[string]template.MCPServer{}
	want := map[string]string{
		"exit": "exit code 3", "frame": "more than 4 MiB", "flood": "more than 16 MiB", "ask": "asked for more",
		"refuses": "tools are out",
	}
	for name := range want {
		servers[name] = mode(name)
	}
	b := newBench(t, servers)
	for _, s := range b.all(box).Servers {
		if !strings.Contains(s.Problem, want[s.Name]) || s.Tools != 0 {
			t.Errorf("%+v", s)
		}
	}
	b.use(box, "bash", args{"command": "echo fine"}, false, "fine")
	left(t, box, 0)
}

func TestHostileListsAreBounded(t *testing.T) {
	testkit.Proves(t, "P3", "E6")
	box := newServed(t)
	b := newBench(t, map[string]template.MCPServer{"raw": mode("strange"), "long": mode("endless")})
	list := b.all(box)
	if list.Servers[1].Tools != 128 || list.Servers[0].Tools != 32 {
		t.Errorf("%+v", list.Servers)
	}
	has(t, list.Servers[1].Problem, `odd is there twice`, `"a b\x1b[2J" has a name`, `list has a schema`, `text has a schema`, `none has a schema`, `large has too large a schema`, "one more than 128")
	if len(list.Servers[1].Problem) > 2_000 {
		t.Errorf("%d bytes of problems", len(list.Servers[1].Problem))
	}
	for _, one := range list.Items {
		if len(one.Description) > 5_000 || len(one.InputSchema) > 64<<10 {
			t.Errorf("%s: %d bytes, %d bytes", one.Name, len(one.Description), len(one.InputSchema))
		}
	}
}

// A server that ends, with its sandbox or alone, is there again for the next call.
func TestServersComeBack(t *testing.T) {
	testkit.Proves(t, "P3")
	box := newServed(t)
	b := newBench(t, map[string]template.MCPServer{"s": mode("good")})
	pid := b.use(box, "s__pid", nil, false).Text()
	is(t, "the same process", b.use(box, "s__pid", nil, false).Text(), pid)
	b.use(box, "s__crash", nil, true, "is gone", "may or may not", "exit code 7", "segmentation fault, or so")
	next := b.use(box, "s__pid", nil, false).Text()
	if next == pid {
		t.Error("a process that has ended answers")
	}
	if err := box.Stop(t.Context(), box.box.ID); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		if n := b.servers.Running(); n != 0 {
			return fmt.Errorf("%d servers run in a sandbox that does not", n)
		}
		return nil
	})
	b.use(box, "s__echo", args{"text": "back"}, false, "back")

	// What was started in an earlier life is not used in the next.
	before := b.use(box, "s__pid", nil, false).Text()
	box.record.Incarnation++
	if now := b.use(box, "s__pid", nil, false).Text(); now == before {
		t.Error("the server of an earlier life answers")
	}

	// Another program, such as the next one of this server, has its own.
	other := newBench(t, map[string]template.MCPServer{"s": mode("good")})
	other.use(box, "s__echo", args{"text": "other"}, false, "other")
	left(t, box, 3)
	b.servers.Close()
	left(t, box, 1)
	_, err := b.try(box, "s__echo", args{"text": "x"})
	isCode(t, "after the end", err, api.CodeShuttingDown)
}

// Idle servers are ended, and there are never more than the limit.
func TestServersEndWhenNobodyUsesThem(t *testing.T) {
	testkit.Proves(t, "P3", "E6")
	box := newServed(t)
	stubborn := mode("good")
	stubborn.Env = map[string]string{"STUBBORN": "1"}
	b := newBench(t, map[string]template.MCPServer{"a": stubborn, "b": mode("good"), "c": mode("good")})
	b.servers.Limit(time.Hour, 2)
	for _, name := range []string{"a", "b", "c", "a"} {
		b.use(box, name+"__echo", args{"text": name}, false, name)
	}
	left(t, box, 2)

	hanging := make(chan error, 1)
	go func() { _, err := b.try(box, "a__hang", args{}, 600); hanging <- err }()
	testkit.Eventually(t, time.Minute, func() error {
		result, err := b.try(box, "read", args{"file_path": "hanging"})
		if err == nil && result.IsError {
			err = fmt.Errorf("%s", result.Text())
		}
		return err
	})
	_, err := b.try(box, "c__echo", args{"text": "x"}) // one tenant has half of them
	if err == nil {
		_, err = b.try(box, "b__echo", args{"text": "x"})
	}
	isCode(t, "too many", err, api.CodeQuotaExceeded)
	b.servers.Close()
	if err := <-hanging; err != nil {
		t.Error(err)
	}
	left(t, box, 0)

	b = newBench(t, map[string]template.MCPServer{"a": stubborn})
	b.servers.Limit(time.Millisecond, 2)
	b.use(box, "a__echo", args{"text": "x"}, false, "x")
	left(t, box, 0)
}

// Sandboxes never share a server, nor tenants.
func TestSandboxesHaveTheirOwnServers(t *testing.T) {
	testkit.Proves(t, "P3", "E2")
	a, z := newServed(t), newServed(t)
	z.record.Owner.Tenant = "z"
	b := newBench(t, map[string]template.MCPServer{"s": mode("good")})
	for name, box := range map[string]*served{"box-a": a, "box-z": z} {
		b.use(box, "write", args{"file_path": "name", "content": name}, false)
	}
	var all sync.WaitGroup
	for range 10 {
		for name, box := range map[string]*served{"box-a": a, "box-z": z} {
			all.Go(func() {
				if result, err := b.try(box, "s__pid", args{}); err != nil || !strings.HasPrefix(result.Text(), name+" ") {
					t.Errorf("%s: %+v, %v", name, result, err)
				}
			})
		}
	}
	all.Wait()
	if t.Failed() {
		return
	}
	left(t, a, 1)
	left(t, z, 1)
}
