package fakellm

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
)

// call is one request to the model in any protocol, reduced to the parts that determine the answer.
type call struct {
	model        string
	stream       bool
	tools        []offered
	system       bool   // whether there is a system prompt
	instructions string // the text of it, in Chat Completions
	maxTokens    int    // maximum number of output tokens

	prompts []string // texts of the user's messages, oldest first
	marked  bool     // prompts have directives
	turn    int      // number of the model's answers since the last prompt
	total   int      // number of the model's answers in the whole conversation
	result  string   // newest tool result
	images  []Image  // in messages of the user

	side bool // the protocol shows that it is a side call

	usageAsked bool // Chat Completions: stream_options.include_usage
}

// offered is a tool that the agent offers to the model, with the names and types of its arguments.
type offered struct {
	name  string
	props map[string]string
}

func offer(name string, schema json.RawMessage) offered {
	var s struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	}
	_ = json.Unmarshal(schema, &s)
	props := map[string]string{}
	for k, v := range s.Properties {
		props[k] = "any"
		if kind, ok := v.Type.(string); ok {
			props[k] = kind
		}
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

// isSide reports whether the call is a side call of the agent and not part of the conversation: it has a system prompt
// and no tools, or asks for one token, or is marked as a suggestion.
func (c *call) isSide() bool {
	return c.side || len(c.tools) == 0 && c.system || c.maxTokens == 1 || strings.HasPrefix(c.prompt(), suggestion)
}

// addPrompt adds a user's message to the call. A message with only text that the agent added does not count. Agents
// also add messages of their own: if a conversation has directives, only messages with directives count.
func (c *call) addPrompt(text string) {
	p := userText(text)
	marked := directive.MatchString(p)
	if p == "" || c.marked && !marked && !strings.HasPrefix(p, suggestion) {
		return
	}
	if marked && !c.marked {
		c.marked, c.prompts = true, nil
	}
	c.prompts = append(c.prompts, p)
	c.turn = 0
}

// suggestion begins the prompts by which Claude Code asks for the next prompt of its user.
const suggestion = "[SUGGESTION MODE"

func (c *call) addAnswer() {
	c.turn++
	c.total++
}

// addImages adds the images of a message's content, in the form of Messages or of Chat Completions.
func (c *call) addImages(raw json.RawMessage) {
	var blocks []struct {
		Type   string `json:"type"`
		Source struct {
			MediaType string `json:"media_type"`
			Data      []byte `json:"data"`
		} `json:"source"`
		URL struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if json.Unmarshal(raw, &blocks) != nil {
		return
	}
	for _, b := range blocks {
		switch b.Type {
		case "image":
			c.images = append(c.images, Image{b.Source.MediaType, b.Source.Data})
		case "image_url":
			kind, text, _ := strings.Cut(strings.TrimPrefix(b.URL.URL, "data:"), ";base64,")
			data, _ := base64.StdEncoding.DecodeString(text)
			c.images = append(c.images, Image{kind, data})
		}
	}
}

const added = `(system-reminder|local-command-caveat|environment_context|user_instructions|command-name|command-message|command-args|local-command-stdout` +
	`|user_info|info-msg|git_status|system_context|important_instructions|session_context|environment_details|current_datetime|reminder)`

var (
	reminder  = regexp.MustCompile(`(?s)<` + added + `>.*?</` + added + `>`)
	interrupt = regexp.MustCompile(`\[Request interrupted by user[^\]]*\]`)
)

// userText returns a user's message without the text that the agent added. Agents join messages that nothing came
// between; the last one begins behind the last "§".
func userText(s string) string {
	if i := strings.LastIndex(s, "§"); i >= 0 {
		s = s[i+len("§"):]
	}
	return strings.TrimSpace(interrupt.ReplaceAllString(marks.Replace(reminder.ReplaceAllString(s, "")), ""))
}

// marks removes the tags in which some agents put the user's words.
var marks = strings.NewReplacer("<user_query>", "", "</user_query>", "", "<user_input>", "", "</user_input>", "")

// parseContent returns the text of a message's content, which is a string or a list of blocks, and the last tool result in
// it. Agents merge consecutive messages of the user into one. If several blocks have directives, only the last of
// these blocks counts.
func parseContent(raw json.RawMessage) (text, result string, hasResult bool) {
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
			if t := userText(b.Text); directive.MatchString(t) {
				marked = t
			}
		case "tool_result":
			hasResult = true
			result, _, _ = parseContent(b.Content)
		}
	}
	if marked != "" {
		return marked, result, hasResult
	}
	return strings.Join(parts, "\n"), result, hasResult
}
