package client

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"time"
)

// tool is a call of a tool, joined from the reports about it.
type tool struct {
	id, name, title, kind, status string
	input                         json.RawMessage
	printed                       bool // the call was printed
	done                          bool // the result was printed

	terminal string // the output of a terminal
	content  string // the text of the content
	output   json.RawMessage
	failed   bool
}

// The times without a change after which an input counts as complete.
const (
	growTime = 200 * time.Millisecond
	slowTime = time.Second
)

// tool reads a report about a tool.
func (s *shaper) tool(u *update) {
	id := clip(u.ToolID, maxKey)
	if id == "" {
		return
	}
	s.otherUpdate(id)
	t := s.tools[id]
	if t == nil {
		if len(s.order) >= maxCalls {
			return
		}
		if s.tools == nil {
			s.tools = map[string]*tool{}
		}
		s.endTexts()
		t = &tool{id: id}
		s.tools[id] = t
		s.order = append(s.order, id)
	}
	if t.done {
		return
	}
	t.merge(u)
	ended := t.status == "completed" || t.status == "failed"
	switch {
	case ended, s.Whole, t.hasInput() && (t.status == "in_progress" || t.status == ""):
		s.printCall(t)
	case t.hasInput() && !t.printed:
		s.wait = time.Now().Add(slowTime)
		if s.Grows {
			s.wait = time.Now().Add(growTime)
		}
	}
	if ended {
		t.done = true
		s.endTexts()
		text := t.result()
		s.print(Line{Type: LineToolResult, ID: t.id, Text: clip(text, maxTool), Cut: len(text) > maxTool, IsError: t.failed || t.exitFailed()})
	}
}

// kindOf returns the kind of a tool, which some agents report before they ask for permission.
func (s *shaper) kindOf(id, kind string) string {
	if t := s.tools[clip(id, maxKey)]; kind == "" && t != nil {
		return t.kind
	}
	return kind
}

// running reports whether a tool runs.
func (s *shaper) running() bool {
	return len(s.order) > 0 && !s.tools[s.order[len(s.order)-1]].done
}

// asked reads a request for permission. The agent asks when the input of the call is complete.
func (s *shaper) asked(params json.RawMessage) {
	var r struct {
		Tool update `json:"toolCall"`
	}
	_ = json.Unmarshal(params, &r)
	r.Tool.Status = ""
	s.tool(&r.Tool)
	if t := s.tools[clip(r.Tool.ToolID, maxKey)]; t != nil && t.hasInput() {
		s.printCall(t)
	}
}

// otherUpdate prints the calls of an agent whose inputs grow: they are complete when another update comes.
func (s *shaper) otherUpdate(id string) {
	if !s.Grows || s.wait.IsZero() {
		return
	}
	s.wait = time.Time{}
	for _, other := range s.order {
		if t := s.tools[other]; other != id && t.hasInput() {
			s.printCall(t)
		} else if other == id && !t.printed {
			s.wait = time.Now().Add(growTime)
		}
	}
}

// due returns a channel that receives when flushCalls is to be called; nil if there is nothing to wait for.
func (s *shaper) due() <-chan time.Time {
	if s.wait.IsZero() {
		return nil
	}
	return time.After(time.Until(s.wait))
}

// flushCalls prints the calls whose inputs have not changed for a while.
func (s *shaper) flushCalls() {
	s.wait = time.Time{}
	for _, id := range s.order {
		if t := s.tools[id]; t.hasInput() {
			s.printCall(t)
		}
	}
}

func (s *shaper) printCall(t *tool) {
	if t.printed {
		return
	}
	t.printed = true
	s.endTexts()
	l := Line{Type: LineToolCall, ID: t.id, Name: t.called(), Input: t.input}
	if !t.hasInput() {
		l.Input, _ = json.Marshal(map[string]string{"title": clip(t.title, maxNote)})
	}
	if l.Cut = len(l.Input) > maxTool; l.Cut {
		l.Input = nil
	}
	s.print(l)
}

// merge adds a report to the earlier ones. A later report replaces an earlier one, but the output of a terminal comes in
// pieces.
func (t *tool) merge(u *update) {
	for _, name := range []string{u.Name, u.Meta.ToolName, u.Meta.Claude.ToolName, u.Meta.Goose.ToolCall.ToolName, u.Meta.Grok.Name} {
		if t.name == "" {
			t.name = clip(name, maxKey)
		}
	}
	if t.title == "" {
		t.title = clip(u.Title, maxNote)
	}
	if t.kind == "" {
		t.kind = clip(u.ToolKind, maxKey)
	}
	if u.Status != "" {
		t.status = u.Status
		t.failed = u.Status == "failed"
	}
	if !empty(u.RawInput) && !t.printed {
		t.input = u.RawInput
	}
	if !empty(u.RawOutput) {
		t.output = u.RawOutput
	}
	if len(u.Content) > 0 && string(u.Content) != "null" {
		t.content = clip(contentText(u.Content), maxTool+1)
	}
	for _, data := range []string{u.Meta.Output.Data, u.Meta.OutputDelta.Data} {
		t.terminal = clip(t.terminal+data, maxTool+1)
	}
	if e := u.Meta.Exit; e != nil && e.Code != nil && *e.Code != 0 {
		t.failed = true
	}
}

func empty(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null" || string(raw) == "{}"
}

func (t *tool) hasInput() bool { return !empty(t.input) }

var word = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// called returns the name of the tool, which some agents show only in a title or in the id.
func (t *tool) called() string {
	if t.name != "" {
		return t.name
	}
	first, _, colon := strings.Cut(t.title, ": ")
	inID, _, parts := strings.Cut(t.id, "__")
	switch {
	case word.MatchString(t.title), colon && word.MatchString(first):
		return first
	case parts && word.MatchString(inID):
		return inID
	case t.kind != "" && t.kind != "other":
		return t.kind
	}
	return "tool"
}

// contentText returns the texts of a tool's content.
func contentText(raw json.RawMessage) string {
	var blocks []struct {
		Type    string `json:"type"`
		Path    string `json:"path"`
		Content struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	_ = json.Unmarshal(raw, &blocks)
	var texts []string
	for _, b := range blocks {
		switch {
		case b.Content.Text != "":
			texts = append(texts, b.Content.Text)
		case b.Type == "diff" && b.Path != "":
			texts = append(texts, "changed "+b.Path)
		}
	}
	return strings.Join(texts, "\n")
}

// outputFields are the fields of rawOutput that agents use.
type outputFields struct {
	Text     any      `json:"text"`
	Output   any      `json:"output"`
	Content  any      `json:"content"`
	ExitCode *float64 `json:"exitCode"`
	Exit     *float64 `json:"exit_code"`
	Metadata struct {
		Exit *float64 `json:"exit"`
	} `json:"metadata"`
	Contents []struct {
		ExitCode *float64 `json:"exitCode"`
	} `json:"contents"`
}

// step is one of several results in a rawOutput that is a list.
type step struct {
	Result  any    `json:"result"`
	Error   string `json:"error"`
	Success *bool  `json:"success"`
}

// result returns the text of the tool's result.
func (t *tool) result() string {
	var text string
	if t.terminal != "" {
		return t.terminal
	}
	if json.Unmarshal(t.output, &text) == nil && text != "" {
		return text
	}
	if text = t.steps(); text != "" {
		return text
	}
	if t.content != "" {
		return t.content
	}
	var o outputFields
	_ = json.Unmarshal(t.output, &o)
	for _, field := range []any{o.Text, o.Output, o.Content} {
		if text, ok := field.(string); ok && text != "" {
			return text
		}
	}
	return ""
}

// steps returns the results of a rawOutput that is a list.
func (t *tool) steps() string {
	var list []step
	if json.Unmarshal(t.output, &list) != nil {
		return ""
	}
	var texts []string
	for _, s := range list {
		text, _ := s.Result.(string)
		for _, part := range []string{text, s.Error} {
			if part != "" {
				texts = append(texts, part)
			}
		}
	}
	return strings.Join(texts, "\n")
}

// exitFailed reports whether the result has an exit code that is not zero. Some agents call such a tool completed.
func (t *tool) exitFailed() bool {
	var list []step
	if json.Unmarshal(t.output, &list) == nil {
		for _, s := range list {
			if s.Success != nil && !*s.Success {
				return true
			}
		}
		return false
	}
	var o outputFields
	_ = json.Unmarshal(t.output, &o)
	codes := []*float64{o.ExitCode, o.Exit, o.Metadata.Exit}
	for _, c := range o.Contents {
		codes = append(codes, c.ExitCode)
	}
	for _, code := range codes {
		if code != nil && *code != 0 {
			return true
		}
	}
	return false
}
