package client

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// shaped feeds updates of a session to a shaper and returns its lines.
func shaped(shape Shape, updates ...string) (lines []Line) {
	s := &shaper{Shape: shape, print: func(l Line) { lines = append(lines, l) }}
	for _, u := range updates {
		s.message(json.RawMessage(`{"sessionId":"s","update":`+u+`}`), "s")
	}
	s.end()
	return lines
}

func chunk(kind, text, id string) string {
	return fmt.Sprintf(`{"sessionUpdate":"agent_%s_chunk","messageId":%q,"content":{"type":"text","text":%q}}`, kind, id, text)
}

func said(text, id string) string { return chunk("message", text, id) }

// spelled returns lines in a short form.
func spelled(lines []Line) string {
	var words []string
	for _, l := range lines {
		words = append(words, l.Type+"="+l.ID+l.Text)
	}
	return strings.Join(words, " ")
}

func check(t *testing.T, lines []Line, want string) {
	t.Helper()
	if got := spelled(lines); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestTextsAreJoined(t *testing.T) {
	tool := `{"sessionUpdate":"tool_call","toolCallId":"1","status":"in_progress","rawInput":{"a":1}}`
	check(t, shaped(Shape{}, chunk("thought", "hm", ""), said("a", ""), said("b", ""), tool, said("c", "")),
		"thinking_delta=hm thinking=hm delta=a delta=b text=ab tool_call=1 delta=c text=c")
	// Another name is another text.
	check(t, shaped(Shape{}, said("a", "1"), said("b", "2")), "delta=a text=a delta=b text=b")
}

const retrySign = `{"sessionUpdate":"session_info_update","_meta":{"codex":{"error":{"message":"again"}}}}`

func TestTextThatBeginsAgainIsShownOnce(t *testing.T) {
	codex := Shape{Retries: []string{"codex.error"}}
	check(t, shaped(codex, said("ab", "1"), retrySign, said("ab", "2"), said("cd", "2")), "delta=ab retry=again delta=cd text=abcd")
	// A piece of the text that was cut off comes late.
	check(t, shaped(codex, said("ab", "1"), retrySign, said("c", "1"), said("abcd", "2")), "delta=ab retry=again delta=c delta=d text=abcd")
	// The new text is another one: the whole text replaces the pieces.
	check(t, shaped(codex, said("ab", "1"), retrySign, said("xy", "2")), "delta=ab retry=again delta=xy text=xy")
	check(t, shaped(codex, said("abcd", "1"), retrySign, said("ab", "2")), "delta=abcd retry=again text=ab")
	check(t, shaped(codex, said("ab", "1"), retrySign), "delta=ab retry=again text=ab")
	// Thoughts are repeated, too.
	check(t, shaped(codex, chunk("thought", "hm", "1"), said("ab", "1"), retrySign, chunk("thought", "hm", "2"), said("abc", "2")),
		"thinking_delta=hm thinking=hm delta=ab retry=again delta=c text=abc")
	// Some agents say it in the text, or not at all.
	check(t, shaped(Shape{Retries: []string{"Retrying ("}}, said("ab", ""), said("Retrying (1)", ""), said("abc", "")),
		"delta=ab retry=Retrying (1) delta=c text=abc")
	long := "0123456789abcdef"
	check(t, shaped(Shape{Repeats: true}, said(long, ""), said(long, ""), said("!", "")), "delta="+long+" delta=! text="+long+"!")
	check(t, shaped(Shape{Repeats: true}, said(long, ""), said(long, "")), "delta="+long+" delta="+long+" text="+long+long)
	check(t, shaped(Shape{Repeats: true}, said("ha", ""), said("ha", "")), "delta=ha delta=ha text=haha")
}

// However a text is cut into pieces, and wherever its stream breaks, it is shown once and whole.
func TestAnyTextIsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ab]{1,30}`).Draw(t, "text")
		torn := rapid.IntRange(0, len(text)).Draw(t, "torn")
		var updates []string
		cut := func(part, id string) {
			for len(part) > 0 {
				n := rapid.IntRange(1, len(part)).Draw(t, "piece")
				updates = append(updates, said(part[:n], id))
				part = part[n:]
			}
		}
		cut(text[:torn], "1")
		updates = append(updates, retrySign)
		cut(text, "2")
		deltas, whole := "", ""
		for _, l := range shaped(Shape{Retries: []string{"codex.error"}}, updates...) {
			switch l.Type {
			case LineDelta:
				deltas += l.Text
			case LineText:
				whole += l.Text
			}
		}
		if deltas != text || whole != text {
			t.Fatalf("%q and %q of %q", deltas, whole, text)
		}
	})
}

func TestRemarksAreNoAnswer(t *testing.T) {
	shape := Shape{Notes: []string{"Warning: "}, Asides: []string{"Info: "}, Failures: []string{"Error: "}}
	check(t, shaped(shape, said("Warning: x ", ""), said("Info: a", "")), "notice=Warning: x delta=Info: a text=Info: a")
	check(t, shaped(shape, `{"sessionUpdate":"tool_call","toolCallId":"1","status":"pending"}`, said("Info: a", "")), "notice=Info: a tool_call=1")
	check(t, shaped(shape, said("Error: 400", "")), "failure=Error: 400")
	check(t, shaped(shape, said("Error: 400", ""), said(" is a status", "")), "delta=Error: 400 delta= is a status text=Error: 400 is a status")
	check(t, shaped(shape, `{"sessionUpdate":"session_info_update","_meta":{"codex":{"threadStatus":{"type":"systemError"}}}}`, said("why", ""), said(" not", "")),
		"broken= failure=why not")
	check(t, shaped(shape, `{"sessionUpdate":"notice","title":"New","description":"version"}`), "notice=New version")
	check(t, shaped(shape, `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""},"_meta":{"usage":{"inputTokens":1}}}`), "call=")
}

func TestNamesOfTools(t *testing.T) {
	for update, want := range map[string]string{
		`"name":"Bash","title":"x"`: "Bash", `"_meta":{"toolName":"shell"}`: "shell", `"_meta":{"goose":{"toolCall":{"toolName":"write"}}}`: "write",
		`"_meta":{"claudeCode":{"toolName":"Read"}}`: "Read", `"_meta":{"x.ai/tool":{"name":"edit"}}`: "edit", `"title":"bash"`: "bash",
		`"title":"run: ls -la"`: "run", `"title":"ls -la","kind":"execute"`: "execute", `"title":"ls -la","kind":"other"`: "tool",
		`"toolCallId":"write_file__1","title":"Writing it"`: "write_file",
	} {
		lines := shaped(Shape{Whole: true}, `{"sessionUpdate":"tool_call","toolCallId":"1",`+update+`}`)
		if len(lines) != 1 || lines[0].Name != want {
			t.Errorf("%s: %+v, want %s", update, lines, want)
		}
	}
}

func TestResultsOfTools(t *testing.T) {
	for update, want := range map[string]string{
		`"rawOutput":"text"`: "false text", `"content":[{"type":"content","content":{"type":"text","text":"a"}}]`: "false a",
		`"content":[{"type":"diff","path":"/f"}]`: "false changed /f", `"rawOutput":{"text":"a","exitCode":3}`: "true a",
		`"rawOutput":{"output":"a","metadata":{"exit":1}}`: "true a", `"rawOutput":{"content":"a","contents":[{"exitCode":2}]}`: "true a",
		`"rawOutput":{"exit_code":0}`: "false ", `"rawOutput":[{"result":"a","success":true},{"error":"b","success":false}]`: "true a\nb",
		`"_meta":{"terminal_output":{"data":"a"},"terminal_exit":{"exit_code":1}}`: "true a", `"_meta":{"terminal_output_delta":{"data":"b"}}`: "false b",
	} {
		lines := shaped(Shape{}, `{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"completed",`+update+`}`)
		if last := lines[len(lines)-1]; fmt.Sprintf("%t %s", last.IsError, last.Text) != want {
			t.Errorf("%s: %+v, want %s", update, last, want)
		}
	}
	lines := shaped(Shape{}, `{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"failed"}`, `{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"completed"}`)
	if len(lines) != 2 || !lines[1].IsError {
		t.Errorf("%+v", lines)
	}
}

// The input of a call may come in pieces. The call is printed when it is complete.
func TestInputsThatGrow(t *testing.T) {
	part := func(input string) string {
		return `{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"pending","rawInput":` + input + `}`
	}
	for name, then := range map[string]func(s *shaper){
		"another update": func(s *shaper) {
			s.message(json.RawMessage(`{"sessionId":"s","update":{"sessionUpdate":"usage_update","used":1}}`), "s")
		},
		"a while":    func(s *shaper) { <-s.due(); s.flushCalls() },
		"permission": func(s *shaper) { s.asked(json.RawMessage(`{"toolCall":{"toolCallId":"1","rawInput":{"a":1,"b":2}}}`)) },
		"the end":    func(s *shaper) { s.end() },
	} {
		var lines []Line
		s := &shaper{Shape: Shape{Grows: true}, print: func(l Line) { lines = append(lines, l) }}
		for _, u := range []string{part("{}"), part(`{"a":1}`), part(`{"a":1,"b":2}`)} {
			s.message(json.RawMessage(`{"sessionId":"s","update":`+u+`}`), "s")
		}
		if len(lines) > 0 {
			t.Fatalf("%s: %+v", name, lines)
		}
		then(s)
		if len(lines) == 0 || lines[0].Type != LineToolCall || string(lines[0].Input) != `{"a":1,"b":2}` {
			t.Errorf("%s: %+v", name, lines)
		}
	}
}
