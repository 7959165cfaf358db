package fakellm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func post(t testing.TB, url, body string) (status int, answer string, err error) {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return r.StatusCode, string(text), err
}

// events are the data of server-sent events.
func events(body string) (all []map[string]any) {
	lines := bufio.NewScanner(strings.NewReader(body))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m map[string]any
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(data), &m) == nil {
			all = append(all, m)
		}
	}
	return all
}

const tools = `{"name":"Bash","input_schema":{"properties":{"command":{},"description":{}}}},{"name":"Write","input_schema":{"properties":{"file_path":{},"content":{}}}},{"name":"Read","input_schema":{"properties":{"file_path":{}}}}`

func messages(list string) string {
	return `{"model":"m","stream":true,"max_tokens":100,"tools":[` + tools + `],"messages":[` + list + `]}`
}

func user(text string) string {
	content, _ := json.Marshal(text)
	return `{"role":"user","content":` + string(content) + `}`
}

func has(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("no %q in %.2000s", p, text)
		}
	}
}

func TestMessages(t *testing.T) {
	s := New(t)
	ask := `{"role":"user","content":[{"type":"text","text":"<system-reminder>x</system-reminder>"},{"type":"text","text":"go [[think hm]][[say hi]][[bash ls]][[say got {{last_result}} turn {{turn}} of {{model}} after {{calls}}: {{first_prompt}}]]"}]}`
	_, body, _ := post(t, s.URL+"/v1/messages", messages(ask))
	all := events(body)
	if all[0]["type"] != "message_start" || all[len(all)-1]["type"] != "message_stop" {
		t.Fatal(body)
	}
	has(t, body, `"stop_reason":"tool_use"`, `"name":"Bash"`, `"thinking_delta"`)
	var args string
	for _, e := range all {
		if d, ok := e["delta"].(map[string]any); ok && d["type"] == "input_json_delta" {
			args += d["partial_json"].(string)
		}
	}
	if args != `{"command":"ls","description":"scripted command"}` {
		t.Errorf("arguments %q", args)
	}
	next := ask + `,{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"Bash","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"file1"}]}`
	_, body, _ = post(t, s.URL+"/messages", messages(next))
	text := ""
	for _, e := range events(body) {
		if d, ok := e["delta"].(map[string]any); ok && d["type"] == "text_delta" {
			text += d["text"].(string)
		}
	}
	has(t, text, "got file1 turn 1 of m after 1: go")
	if want := (Totals{Calls: 2, Conversation: Usage{201, 41, 1010, 1001}}); s.Totals() != want || s.Totals().All() != want.Conversation {
		t.Errorf("totals %+v", s.Totals())
	}
	if r := s.Requests(); len(r) != 2 || r[1].Step != 1 || r[1].Turn != 1 || r[0].Model != "m" {
		t.Errorf("%+v", r)
	}
	// Not streamed, with a tool by name.
	_, body, _ = post(t, s.URL+"/v1/messages", `{"model":"m","messages":[`+user(`[[think a]][[say b]][[stop max_tokens]][[tool X {"y":1}]][[usage in=1 out=2 cw=3 cr=4]]`)+`]}`)
	has(t, body, `"thinking":"a"`, `"text":"b"`, `"input":{"y":1}`, `"output_tokens":2`, `"cache_read_input_tokens":4`, `"max_tokens"`)
	// Helpers of agents.
	_, body, _ = post(t, s.URL+"/v1/messages", `{"model":"m","system":"make a title","messages":[`+user("[[say no]]")+`]}`)
	has(t, body, "fake side answer")
	if s.Totals().SideCalls != 1 || s.Totals().Side != sideUsage {
		t.Errorf("%+v", s.Totals())
	}
}

func TestTurnsAreFound(t *testing.T) {
	c, err := parseMessages([]byte(messages(user("a [[bash x]][[say never]]") + `,{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"Bash","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"rejected"},{"type":"text","text":"[Request interrupted by user for tool use]"},{"type":"text","text":"b [[say yes]]"}]}`)))
	if err != nil || len(c.prompts) != 2 || c.turn != 0 || c.prompt() != "b [[say yes]]" {
		t.Errorf("%+v, %v", c, err)
	}
	if (&call{}).prompt() != "" || (&call{}).first() != "" {
		t.Error("a prompt where there is none")
	}
}

func TestErrors(t *testing.T) {
	s := New(t)
	for i, want := range []int{529, 529, 200, 200} {
		if status, body, _ := post(t, s.URL+"/v1/messages", messages(user("go [[error 529 x2]][[say ok now]]"))); status != want {
			t.Errorf("try %d: %d %s", i, status, body)
		}
	}
	for _, bad := range []string{"[[nonsense x]]", "[[cut x]]", "[[cut 0]]", "[[error x]]", "[[error 200]]", "[[error 500 xy]]", "[[tool X {]]", "[[hold]]", "[[usage in=x]]", "[[usage what=1]]", "[[delay x]]"} {
		if status, body, _ := post(t, s.URL+"/v1/messages", messages(user(bad))); status != 400 || !strings.Contains(body, "directive") {
			t.Errorf("%s: %d %s", bad, status, body)
		}
	}
	for path, body := range map[string]string{
		"/v1/messages": "{", "/messages": `{"messages":[]}`, "/v1/chat/completions": `{"messages":[]}`, "/chat/completions": "[",
		"/v1/responses": "[", "/responses": `{"input":[3]}`,
	} {
		if status, answer, _ := post(t, s.URL+path, body); status != 400 || !strings.Contains(answer, "error") {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	if status, body, _ := post(t, s.URL+"/v1/messages", `{"messages":[`+user("[[bash ls]]")+`]}`); status != 400 || !strings.Contains(body, "no tool of kind") {
		t.Errorf("%d %s", status, body)
	}
	if status, _, _ := post(t, s.URL+"/v1/nothing", ""); status != 404 {
		t.Errorf("%d", status)
	}
	if status, body, _ := post(t, s.URL+"/v1/chat/completions", `{"messages":[`+user("[[error 429]]")+`]}`); status != 429 || !strings.Contains(body, "rate_limit_error") {
		t.Errorf("%d %s", status, body)
	}
}

func TestSmallRoutes(t *testing.T) {
	s := New(t)
	_, body, _ := post(t, s.URL+"/v1/messages/count_tokens", "{}")
	has(t, body, "input_tokens")
	for path, part := range map[string]string{"/v1/models": "fake-large", "/_fake/totals": "conversation"} {
		r, err := http.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(r.Body)
		r.Body.Close()
		has(t, string(text), part)
	}
	if r, err := http.Head(s.URL + "/"); err != nil || r.StatusCode != 200 {
		t.Errorf("%v %v", r, err)
	}
}

func TestOpenAI(t *testing.T) {
	s := New(t)
	tool := `{"type":"function","function":{"name":"shell","parameters":{"properties":{"command":{}}}}}`
	ask := `"model":"m","tools":[` + tool + `],"messages":[{"role":"system","content":"x"},` + user("[[think t]][[say a]][[bash ls]][[say {{last_result}}]][[stop max_tokens]]")
	_, body, _ := post(t, s.URL+"/v1/chat/completions", `{"stream":true,"stream_options":{"include_usage":true},`+ask+`]}`)
	has(t, body, `"finish_reason":"tool_calls"`, `"prompt_tokens":1100`, "reasoning_content", `bash`)
	if !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Error(body)
	}
	_, body, _ = post(t, s.URL+"/v1/chat/completions", `{`+ask+`,{"role":"assistant","content":""},{"role":"tool","content":"r"}]}`)
	has(t, body, `"content":"r"`, `"finish_reason":"length"`, `"usage"`)
	_, body, _ = post(t, s.URL+"/v1/chat/completions", `{`+ask+`]}`)
	has(t, body, `"tool_calls"`)

	ask = `"model":"m","tools":[{"type":"function","name":"exec_command","parameters":{"properties":{"cmd":{}}}}],"input":[{"role":"developer","content":"x"},{"role":"user","content":[{"type":"input_text","text":"[[say a]][[bash ls]][[say b]]"}]}`
	_, body, _ = post(t, s.URL+"/v1/responses", `{"stream":true,`+ask+`]}`)
	all := events(body)
	if all[len(all)-1]["type"] != "response.completed" {
		t.Error(body)
	}
	has(t, body, `"arguments":"{\"cmd\":\"ls\"}"`, "response.output_text.delta")
	_, body, _ = post(t, s.URL+"/v1/responses", `{`+ask+`,{"type":"message","role":"assistant","content":[]},{"type":"function_call","name":"x","arguments":"{}","call_id":"c"},{"type":"function_call_output","call_id":"c","output":"r"}]}`)
	has(t, body, `"text":"b"`)
	_, body, _ = post(t, s.URL+"/v1/responses", `{"model":"m","input":"hello"}`)
	has(t, body, "fake reply to: hello")
}

func TestFaultsInStreams(t *testing.T) {
	s := New(t)
	if _, _, err := post(t, s.URL+"/v1/messages", messages(user("[[cut 3]][[faults 1]][[say abc]]"))); err == nil {
		t.Error("the stream was not cut")
	}
	if _, body, err := post(t, s.URL+"/v1/messages", messages(user("[[cut 3]][[faults 1]][[say abc]]"))); err != nil || !strings.Contains(body, "message_stop") {
		t.Errorf("it was cut twice: %v %s", err, body)
	}
	_, body, _ := post(t, s.URL+"/v1/messages", messages(user("[[sse_error 3]][[say abc]]")))
	has(t, body, "overloaded_error")
	if strings.Contains(body, "message_stop") {
		t.Error(body)
	}
	if s.Totals().Calls != 1 {
		t.Errorf("%+v of %+v", s.Totals(), s.Requests())
	}
}

func TestHolds(t *testing.T) {
	s := New(t)
	done := make(chan string, 1)
	for _, directive := range []string{"[[hold gate@3]]", "[[hold door]]"} {
		name := strings.Trim(strings.TrimPrefix(directive, "[[hold "), "]@3")
		go func() {
			_, body, _ := post(t, s.URL+"/v1/messages", messages(user(directive+"[[pace 1ms]][[chunk 1]][[delay 1ms]][[say abc]]")))
			done <- body
		}()
		s.WaitHeld(t, name)
		select {
		case <-done:
			t.Fatal("answered while held")
		default:
		}
		_, _, _ = post(t, s.URL+"/_fake/release?name="+name, "")
		s.Release(name)
		has(t, <-done, "message_stop")
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/messages", strings.NewReader(messages(user("[[hold never]][[say abc]]"))))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		s.WaitHeld(t, "never")
		cancel()
	}()
	if _, err := http.DefaultClient.Do(r); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestScript(t *testing.T) {
	s := New(t)
	if err := s.Use(Script{Rules: []Rule{{Match: "("}}}); err == nil {
		t.Error("a pattern that is none was taken")
	}
	script := Script{
		Rules: []Rule{{Match: "(?i)deploy", Steps: []Step{
			{Text: "deploying", Tools: []Tool{{Name: "x"}}, Delay: time.Millisecond},
			{Tools: []Tool{{Kind: "write", Path: "p", Content: "c"}, {Kind: "read", Path: "p"}}}, {},
		}}},
		Default: []Step{{Text: "what?"}},
	}
	if err := s.Use(script); err != nil {
		t.Fatal(err)
	}
	history := user("Deploy it")
	for _, want := range []string{"deploying", `file_path`, `"ok"`, `"done"`} {
		_, body, _ := post(t, s.URL+"/v1/messages", messages(history))
		has(t, body, strings.Trim(want, `"`))
		history += `,{"role":"assistant","content":"x"},{"role":"user","content":[{"type":"tool_result","content":"r"}]}`
	}
	_, body, _ := post(t, s.URL+"/v1/messages", messages(user("hm")))
	has(t, body, "what?")
	if err := s.Use(Script{}); err != nil {
		t.Fatal(err)
	}
	_, body, _ = post(t, s.URL+"/v1/messages", messages(user(strings.Repeat("a long prompt ", 30))))
	has(t, body, "fake reply to: a long")
}
