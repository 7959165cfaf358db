package claudecli

import (
	"encoding/json"
	"strings"
)

// The lines of the CLI's stream. The type of a line selects the struct that it is decoded into. Other fields are
// ignored, so that later CLIs may add some.

type header struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Parent  string `json:"parent_tool_use_id"` // the tool call that started the sub-agent; empty: the agent itself
}

type initLine struct {
	Session string `json:"session_id"`
	Model   string `json:"model"`
	Version string `json:"claude_code_version"`
}

type retryLine struct {
	Attempt float64 `json:"attempt"`
	Most    float64 `json:"max_retries"`
	DelayMS float64 `json:"retry_delay_ms"`
	Status  float64 `json:"error_status"`
}

const (
	statusKeyRefused = 401 // HTTP status of a model service that refuses the key
	// refusedTwice is the number of the attempt from which retries are useless. The first refusal may be due to an
	// expired key that is being renewed.
	refusedTwice = 2
)

// messageLine is a message of the assistant or the user, with one or a few content blocks.
type messageLine struct {
	Message message `json:"message"`
	Error   string  `json:"error"` // the kind of error, in messages that the CLI made itself
}

type message struct {
	ID      string  `json:"id"`
	Model   string  `json:"model"`
	Content content `json:"content"`
	Usage   *usage  `json:"usage"`
}

// synthetic is the model name in error messages that the CLI made itself.
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

// content is a list of blocks. A JSON string is decoded as one text block.
type content []block

func (c *content) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*c = content{{Type: "text", Text: text}}
		return nil
	}
	return json.Unmarshal(raw, (*[]block)(c))
}

// resultText returns a tool's result as text. Blocks of other types appear as their type in brackets.
func resultText(raw json.RawMessage) string {
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
	Subtype  string    `json:"subtype"`
	IsError  bool      `json:"is_error"`
	Result   string    `json:"result"`
	Errors   []string  `json:"errors"`
	Reason   string    `json:"terminal_reason"`
	Stop     string    `json:"stop_reason"`
	Status   float64   `json:"api_error_status"`
	CostUSD  float64   `json:"total_cost_usd"`
	Usage    *usage    `json:"usage"`
	PerModel perModel  `json:"modelUsage"`
	Since    *perModel `json:"model_usage_since_last_result"` // of this process only; CLIs before 2.1.312 lack it
}

// costLine is the CLI's note of the usage of its session so far (see prelude).
type costLine struct {
	CostUSD  float64  `json:"totalCostUSD"`
	PerModel perModel `json:"modelUsage"`
}

// usage is a token count of the model's service. A nil field is unknown, not zero: a later count leaves it unchanged.
type usage struct {
	Input      *float64 `json:"input_tokens"`
	Output     *float64 `json:"output_tokens"`
	CacheRead  *float64 `json:"cache_read_input_tokens"`
	CacheWrite *float64 `json:"cache_creation_input_tokens"`
}

// perModel maps the name of a model to its usage.
type perModel map[string]modelUsage

type modelUsage struct {
	Input      float64 `json:"inputTokens"`
	Output     float64 `json:"outputTokens"`
	CacheRead  float64 `json:"cacheReadInputTokens"`
	CacheWrite float64 `json:"cacheCreationInputTokens"`
	CostUSD    float64 `json:"costUSD"`
}
