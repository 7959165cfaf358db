package client

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits in bytes.
const (
	maxKey    = 200       // of ids and names
	maxNote   = 1 << 10   // of a remark
	maxHeld   = 4 << 10   // of a text that may report a failure
	maxText   = 1 << 20   // of a text that is printed as a whole
	maxTool   = 256 << 10 // of a tool's input and of its result
	maxAnswer = 64 << 10  // of the answer to the prompt
	maxCalls  = 1000      // calls of tools in one turn
)

// Shape describes in what an agent's updates differ from those of others. See profile.Quirks.
type Shape struct {
	Whole    bool     `json:"whole,omitempty"`
	Grows    bool     `json:"grows,omitempty"`
	Failures []string `json:"failures,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	Asides   []string `json:"asides,omitempty"`
	Retries  []string `json:"retries,omitempty"`
	Repeats  bool     `json:"repeats,omitempty"`
}

// shaper turns the updates of an agent into lines: it joins the pieces of texts, joins the reports about a tool to one
// call and one result, and removes the text that an agent repeats after its answer was cut off.
type shaper struct {
	Shape
	print func(Line)

	texts [2]channel // of the current answer of the model: thinking, text
	key   string     // the agent's name for that answer, if it gives one
	held  string     // a text that reports a failure, unless more text follows
	again bool       // the answer was cut off and begins again

	broken bool // the agent reported that its thread failed: texts are the reason

	tools map[string]*tool
	order []string
	wait  time.Time // when calls with an unfinished input are printed; zero: there are none
}

// update is the part of a session/update that is used.
type update struct {
	Kind    string          `json:"sessionUpdate"`
	Content json.RawMessage `json:"content"`
	Message string          `json:"messageId"`

	ToolID    string          `json:"toolCallId"`
	Name      string          `json:"name"`
	Title     string          `json:"title"`
	ToolKind  string          `json:"kind"`
	Status    string          `json:"status"`
	RawInput  json.RawMessage `json:"rawInput"`
	RawOutput json.RawMessage `json:"rawOutput"`

	Description string  `json:"description"` // of a notice
	Used        float64 `json:"used"`
	Cost        struct {
		Amount float64 `json:"amount"`
	} `json:"cost"`
	Meta   meta   `json:"_meta"`
	Reason string `json:"reason"` // of a retry_state
}

// meta is what agents add to the protocol.
type meta struct {
	Usage    json.RawMessage `json:"usage"`
	ToolName string          `json:"toolName"`
	Claude   struct {
		ToolName string `json:"toolName"`
	} `json:"claudeCode"`
	Goose struct {
		ToolCall struct {
			ToolName string `json:"toolName"`
		} `json:"toolCall"`
	} `json:"goose"`
	Grok struct {
		Name string `json:"name"`
	} `json:"x.ai/tool"`
	Codex struct {
		Error *struct {
			Message string `json:"message"`
			Details string `json:"additionalDetails"`
		} `json:"error"`
		Thread struct {
			Type string `json:"type"`
		} `json:"threadStatus"`
	} `json:"codex"`
	Output      terminalData `json:"terminal_output"`
	OutputDelta terminalData `json:"terminal_output_delta"`
	Exit        *struct {
		Code *float64 `json:"exit_code"`
	} `json:"terminal_exit"`
}

type terminalData struct {
	Data string `json:"data"`
}

// envelope is the params of a notification.
type envelope struct {
	Session string `json:"sessionId"`
	Update  update `json:"update"`
	Meta    struct {
		Stream json.Number `json:"streamStartMs"`
	} `json:"_meta"`
}

// message reads the params of a session/update. Fields of a wrong type are left out, and so are the updates of other
// sessions.
func (s *shaper) message(params json.RawMessage, session string) {
	var e envelope
	_ = json.Unmarshal(params, &e)
	if e.Session != session {
		return
	}
	u := &e.Update
	switch u.Kind {
	case "agent_message_chunk", "agent_thought_chunk":
		s.chunk(u, u.Message+e.Meta.Stream.String())
	case "tool_call", "tool_call_update":
		s.tool(u)
	case "usage_update":
		s.otherUpdate("")
		s.print(Line{Type: LineContext, Used: u.Used, CostUSD: u.Cost.Amount})
	case "notice":
		s.print(Line{Type: LineNotice, Text: clip(strings.TrimSpace(u.Title+" "+u.Description), maxNote)})
	case "session_info_update":
		s.thread(&u.Meta)
	}
}

// extension reads the params of a notification that is not part of the protocol.
func (s *shaper) extension(params json.RawMessage) {
	var e envelope
	if json.Unmarshal(params, &e) == nil && slices.Contains(s.Retries, e.Update.Kind) {
		s.retry(e.Update.Reason)
	}
}

// thread reads the state of a Codex thread.
func (s *shaper) thread(m *meta) {
	if m.Codex.Thread.Type == "systemError" {
		s.broken = true
		s.print(Line{Type: LineBroken})
	}
	if e := m.Codex.Error; e != nil && slices.Contains(s.Retries, "codex.error") {
		s.retry(strings.TrimSpace(e.Message + " " + e.Details))
	}
}

// retry notes that the answer was cut off and begins again.
func (s *shaper) retry(why string) {
	s.again = true
	s.print(Line{Type: LineRetry, Text: clip(why, maxNote)})
}

// chunk reads a piece of a text.
func (s *shaper) chunk(u *update, key string) {
	if len(u.Meta.Usage) > 0 && len(u.Meta.Usage) < maxAnswer {
		s.print(Line{Type: LineCall, Answer: u.Meta.Usage})
	}
	var content struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	_ = json.Unmarshal(u.Content, &content)
	if content.Type != "text" || content.Text == "" {
		return
	}
	s.otherUpdate("")
	if u.Kind == "agent_thought_chunk" {
		s.say(thinking, content.Text, key)
	} else if !s.remark(content.Text) {
		s.say(answer, content.Text, key)
	}
}

// remark handles texts that are no part of an answer: remarks of the agent, and what seems to report a failed call of
// the model. An answer that begins like such a report comes in more than one piece.
func (s *shaper) remark(text string) bool {
	switch {
	case hasPrefix(text, s.Retries):
		s.retry(text)
	case hasPrefix(text, s.Notes), s.running() && hasPrefix(text, s.Asides):
		s.print(Line{Type: LineNotice, Text: clip(strings.TrimSpace(text), maxNote)})
	case s.broken, s.held == "" && hasPrefix(text, s.Failures):
		s.held = clip(s.held+text, maxHeld)
	default:
		s.release()
		return false
	}
	return true
}

// release prints a text that was held, because it was no report of a failure.
func (s *shaper) release() {
	if text := s.held; text != "" && !s.broken {
		s.held = ""
		s.say(answer, text, s.key)
	}
}

func hasPrefix(text string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(text, p) })
}

// end prints the rest of the turn.
func (s *shaper) end() {
	held := s.held
	s.held = ""
	s.endTexts()
	for _, id := range s.order {
		s.printCall(s.tools[id])
	}
	if held != "" {
		s.print(Line{Type: LineFailure, Text: held})
	}
}

// clip shortens text to at most the given number of bytes and splits no character.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
