package claudecli

import (
	"encoding/json"
	"strings"
)

// The lines of the CLI's stream, as far as they are read. A line is decoded for its type alone: what other
// fields a later CLI has, or what they hold, is no matter.

type header struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Parent  string `json:"parent_tool_use_id"` // the call whose sub-agent this came from; null: none
}

type initLine struct {
	Session string `json:"session_id"`
	Model   string `json:"model"`
}

type retryLine struct {
	Attempt float64 `json:"attempt"`
	Most    float64 `json:"max_retries"`
	DelayMS float64 `json:"retry_delay_ms"`
	Status  float64 `json:"error_status"`
}

// messageLine is an assistant's or a user's: one content block, or a few.
type messageLine struct {
	Message message `json:"message"`
}

type message struct {
	ID      string  `json:"id"`
	Model   string  `json:"model"`
	Content content `json:"content"`
	Usage   *usage  `json:"usage"`
}

// synthetic is the model of messages that the CLI made itself, about an error.
const synthetic = "<synthetic>"

type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

// content is a list of blocks; a text alone stands for one.
type content []block

func (c *content) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*c = content{{Type: "text", Text: text}}
		return nil
	}
	return json.Unmarshal(raw, (*[]block)(c))
}

// words is a tool's result as text. What is no text is named.
func words(raw json.RawMessage) string {
	var parts content
	if len(raw) == 0 {
		return ""
	}
	if parts.UnmarshalJSON(raw) != nil {
		return string(raw)
	}
	texts := make([]string, 0, len(parts))
	for _, b := range parts {
		if b.Type == "text" {
			texts = append(texts, b.Text)
		} else {
			texts = append(texts, "["+b.Type+"]")
		}
	}
	return strings.Join(texts, "\n")
}

type streamLine struct {
	Event struct {
		Type    string  `json:"type"`
		Message message `json:"message"` // of message_start
		Delta   struct {
			Type     string `json:"type"`
			Text     string `json:"text"`
			Thinking string `json:"thinking"`
		} `json:"delta"`
		Usage *usage `json:"usage"` // of message_delta
	} `json:"event"`
}

type resultLine struct {
	Subtype  string                `json:"subtype"`
	IsError  bool                  `json:"is_error"`
	Result   string                `json:"result"`
	Errors   []string              `json:"errors"`
	Reason   string                `json:"terminal_reason"`
	CostUSD  float64               `json:"total_cost_usd"`
	Usage    *usage                `json:"usage"`
	PerModel map[string]modelUsage `json:"modelUsage"`
}

// usage is tokens as the model's service counts them. Absent is not zero: a later count keeps what it does
// not tell.
type usage struct {
	Input      *float64 `json:"input_tokens"`
	Output     *float64 `json:"output_tokens"`
	CacheRead  *float64 `json:"cache_read_input_tokens"`
	CacheWrite *float64 `json:"cache_creation_input_tokens"`
}

type modelUsage struct {
	Input      float64 `json:"inputTokens"`
	Output     float64 `json:"outputTokens"`
	CacheRead  float64 `json:"cacheReadInputTokens"`
	CacheWrite float64 `json:"cacheCreationInputTokens"`
}
