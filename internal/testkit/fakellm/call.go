package fakellm

import (
	"encoding/json"
	"regexp"
	"strings"
)

// call is one call of the model, whatever protocol it came by, reduced to what an answer depends on.
type call struct {
	model  string
	stream bool
	tools  []offered
	system bool // it has a system's text
	most   int  // tokens that the answer may have

	prompts []string // the text of every user's turn, oldest first
	turn    int      // the model's answers since the last of them
	total   int      // and in the whole conversation
	result  string   // of the newest tool

	usageAsked bool // Chat Completions: stream_options.include_usage
}

// offered is a tool that the agent offers, with the names of its arguments.
type offered struct {
	name  string
	props map[string]bool
}

func offer(name string, schema json.RawMessage) offered {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(schema, &s)
	props := map[string]bool{}
	for k := range s.Properties {
		props[k] = true
	}
	return offered{name, props}
}

func (c *call) prompt() string {
	if n := len(c.prompts); n > 0 {
		return c.prompts[n-1]
	}
	return ""
}

func (c *call) first() string {
	if len(c.prompts) > 0 {
		return c.prompts[0]
	}
	return ""
}

// side tells a helper's call from the conversation: it has a system's text and no tools, or asks for one
// token, or says what it is.
func (c *call) side() bool {
	return len(c.tools) == 0 && c.system || c.most == 1 || strings.HasPrefix(c.prompt(), "[SUGGESTION MODE")
}

// asked is a user's message; what agents add to it by themselves is no turn.
func (c *call) asked(text string) {
	if p := own(text); p != "" {
		c.prompts = append(c.prompts, p)
		c.turn = 0
	}
}

func (c *call) answered() {
	c.turn++
	c.total++
}

const added = `(system-reminder|local-command-caveat|environment_context|user_instructions|command-name|command-message|command-args|local-command-stdout)`

var (
	reminder  = regexp.MustCompile(`(?s)<` + added + `>.*?</` + added + `>`)
	interrupt = regexp.MustCompile(`\[Request interrupted by user[^\]]*\]`)
)

// own takes out what an agent adds to its user's words.
func own(s string) string {
	return strings.TrimSpace(interrupt.ReplaceAllString(reminder.ReplaceAllString(s, ""), ""))
}

// texts gathers the text of a content, a string or a list of blocks, and the last tool's result in it. Agents
// merge messages of a user that follow each other; where several blocks have directives the last one counts.
func texts(raw json.RawMessage) (text, result string, hasResult bool) {
	if json.Unmarshal(raw, &text) == nil {
		return text, "", false
	}
	var blocks []struct {
		Type    string          `json:"type"`
		Text    string          `json:"text"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(raw, &blocks) != nil {
		return "", "", false
	}
	var parts []string
	marked := ""
	for _, b := range blocks {
		switch b.Type {
		case "text", "input_text", "output_text":
			parts = append(parts, b.Text)
			if t := own(b.Text); directive.MatchString(t) {
				marked = t
			}
		case "tool_result":
			hasResult = true
			result, _, _ = texts(b.Content)
		}
	}
	if marked != "" {
		return marked, result, hasResult
	}
	return strings.Join(parts, "\n"), result, hasResult
}
