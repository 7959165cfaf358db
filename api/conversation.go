package api

import (
	"encoding/json"
	"time"
)

// Conversation is prompts and answers that share one sandbox and one session of an agent.
type Conversation struct {
	ID             string             `json:"id"`
	Title          string             `json:"title,omitempty"`
	AccountID      string             `json:"account_id,omitempty"`
	OrganizationID string             `json:"organization_id" doc:"The tenant that it belongs to"`
	AgentID        string             `json:"agent_id,omitempty"`
	Template       string             `json:"template"`
	SandboxID      string             `json:"sandbox_id,omitempty" doc:"The sandbox that it works in, once it has one"`
	SessionID      string             `json:"session_id,omitempty" doc:"The agent's own session"`
	Status         string             `json:"status" enum:"idle,running" doc:"running while a turn runs or waits"`
	TurnID         string             `json:"turn_id,omitempty" doc:"The turn that runs"`
	Stats          Stats              `json:"stats"`
	ExtraStats     map[string]float64 `json:"extra_stats,omitempty" doc:"What the template's hooks count beside the stats"`
	Undelivered    *Undelivered       `json:"undelivered,omitempty" doc:"Messages that are kept, and could not be brought to the message store yet"`
	Env            []string           `json:"env,omitempty" doc:"Names of the variables that its own sandbox is made with; values are never shown"`
	Metadata       map[string]string  `json:"metadata,omitempty"`
	CreatedAt      time.Time          `json:"created_at"`
	UpdatedAt      time.Time          `json:"updated_at"`
}

// Undelivered is how many messages wait to be stored, and why.
type Undelivered struct {
	Messages  int    `json:"messages"`
	LastError string `json:"last_error,omitempty"`
}

// Stats is what a conversation has used. It always equals the sum over its messages.
type Stats struct {
	MessagesExchanged     int64   `json:"messages_exchanged" doc:"Stored messages of both roles"`
	TotalInputTokens      int64   `json:"total_input_tokens"`
	TotalOutputTokens     int64   `json:"total_output_tokens"`
	TotalCacheTokens      int64   `json:"total_cache_tokens" doc:"Cache reads and writes together"`
	TotalCacheReadTokens  int64   `json:"total_cache_read_tokens"`
	TotalCacheWriteTokens int64   `json:"total_cache_write_tokens"`
	TotalCostUSD          float64 `json:"total_cost_usd"`
}

// Usage is tokens. The four are disjoint.
type Usage struct {
	InputTokens      int64 `json:"input_tokens"`
	OutputTokens     int64 `json:"output_tokens"`
	CacheReadTokens  int64 `json:"cache_read_tokens"`
	CacheWriteTokens int64 `json:"cache_write_tokens"`
	// Estimated is true where the agent did not tell its own figures, or died before it could.
	Estimated bool `json:"estimated,omitempty"`
}

// Add adds the tokens of another; the sum of an estimate is one.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		InputTokens: u.InputTokens + v.InputTokens, OutputTokens: u.OutputTokens + v.OutputTokens,
		CacheReadTokens: u.CacheReadTokens + v.CacheReadTokens, CacheWriteTokens: u.CacheWriteTokens + v.CacheWriteTokens,
		Estimated: u.Estimated || v.Estimated,
	}
}

// Roles of messages.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
)

// How a turn, and the message that came of it, ended.
const (
	TurnCompleted   = "completed"
	TurnFailed      = "failed"
	TurnCancelled   = "cancelled"
	TurnInterrupted = "interrupted" // what it ran in was lost after it had begun to work
)

// How far a turn is that has not ended.
const (
	TurnQueued  = "queued"
	TurnRunning = "running"
)

// Message is what a user asked or an assistant answered.
type Message struct {
	ID             string    `json:"id"`
	ConversationID string    `json:"conversation_id"`
	TurnID         string    `json:"turn_id,omitempty"`
	Role           string    `json:"role" enum:"user,assistant"`
	Content        []Block   `json:"content"`
	Status         string    `json:"status" enum:"completed,failed,cancelled,interrupted"`
	Error          string    `json:"error,omitempty" doc:"What went wrong, if it did not complete"`
	Model          string    `json:"model,omitempty"`
	Usage          Usage     `json:"usage"`
	CostUSD        float64   `json:"cost_usd"`
	DurationMS     int64     `json:"duration_ms,omitempty" doc:"From the prompt to the end of the turn"`
	CreatedAt      time.Time `json:"created_at"`
}

// Text is the message's text alone.
func (m Message) Text() string {
	var text string
	for _, b := range m.Content {
		if b.Type != BlockText {
			continue
		}
		if text != "" {
			text += "\n\n"
		}
		text += b.Text
	}
	return text
}

// Kinds of blocks.
const (
	BlockText       = "text"
	BlockThinking   = "thinking"
	BlockToolUse    = "tool_use"
	BlockToolResult = "tool_result"
)

// Block is one part of a message: text, thinking, the call of a tool or its result.
type Block struct {
	Type      string          `json:"type" enum:"text,thinking,tool_use,tool_result"`
	Text      string          `json:"text,omitempty" doc:"Of text, thinking and results"`
	ID        string          `json:"id,omitempty" doc:"Of the call"`
	Name      string          `json:"name,omitempty" doc:"Of the tool"`
	Input     json.RawMessage `json:"input,omitempty" doc:"Of the call"`
	ToolUseID string          `json:"tool_use_id,omitempty" doc:"The call that this is the result of"`
	IsError   bool            `json:"is_error,omitempty"`
	Truncated bool            `json:"truncated,omitempty" doc:"It was longer than what is kept"`
}

// CreateConversation asks for a conversation.
type CreateConversation struct {
	ID        string            `json:"id,omitempty" doc:"A UUID of the caller's choice; one is made if left out"`
	Title     string            `json:"title,omitempty" maxLength:"200"`
	AccountID string            `json:"account_id,omitempty" maxLength:"255" doc:"Whom it is for; the key's account if left out"`
	AgentID   string            `json:"agent_id,omitempty" maxLength:"63"`
	Template  string            `json:"template,omitempty" maxLength:"63" doc:"Of its sandbox and agent; the agent's, else the server's default"`
	SandboxID string            `json:"sandbox_id,omitempty" doc:"A sandbox of the tenant to work in; without one it gets its own"`
	Env       map[string]string `json:"env,omitempty" doc:"Variables of its own sandbox, beside those of its agent and template: at most 64, 16 KiB in all. Not for a sandbox that is there already"`
	Metadata  map[string]string `json:"metadata,omitempty" doc:"Anything of yours; its own sandbox gets the same"`
}

// PatchConversation changes a conversation. A field that is left out stays as it is.
type PatchConversation struct {
	Title     *string `json:"title,omitempty" maxLength:"200"`
	SandboxID string  `json:"sandbox_id,omitempty" doc:"Another sandbox of the tenant to work in from now on, by its id or its name"`
}

// Prompt asks an agent to do something.
type Prompt struct {
	Prompt   string `json:"prompt" doc:"What to do: 1 byte to 1 MiB of text"`
	AgentID  string `json:"agent_id,omitempty" maxLength:"63"`
	Template string `json:"template,omitempty" maxLength:"63"`
	Model    string `json:"model,omitempty" maxLength:"200" doc:"The model to ask; the agent's own choice if left out"`
}

// Types of the events of a turn.
const (
	EventTurnStarted   = "turn.started"
	EventTextDelta     = "text.delta"
	EventText          = "text"
	EventThinkingDelta = "thinking.delta"
	EventThinking      = "thinking"
	EventToolCall      = "tool.call"
	EventToolResult    = "tool.result"
	EventUsage         = "usage"
	EventStatus        = "status"
	EventTurnError     = "error"
	EventResync        = "resync"
	EventTurnFinished  = "turn.finished"
)

// TurnEvent is one event of a turn's stream. Its id, on the wire beside it, is {turn}.{seq}.
type TurnEvent struct {
	Type string `json:"type"`

	// Of turn.started.
	ConversationID string `json:"conversation_id,omitempty"`
	SandboxID      string `json:"sandbox_id,omitempty"`
	TurnID         string `json:"turn_id,omitempty"`
	MessageID      string `json:"message_id,omitempty" doc:"The user's message in turn.started, the assistant's in turn.finished"`

	Text   string          `json:"text,omitempty" doc:"Of text, thinking, their deltas, and results of tools"`
	ID     string          `json:"id,omitempty" doc:"Of the tool's call"`
	Name   string          `json:"name,omitempty" doc:"Of the tool"`
	Input  json.RawMessage `json:"input,omitempty" doc:"Of the tool's call"`
	Error  bool            `json:"is_error,omitempty" doc:"The tool's result is an error"`
	Parent string          `json:"parent_id,omitempty" doc:"The call whose sub-agent this came from"`
	Cut    bool            `json:"truncated,omitempty" doc:"The text was longer than what is kept"`

	// Of status, error and turn.finished.
	Status  string `json:"status,omitempty" doc:"In turn.finished how it ended; in status what happens: queued, starting, recovering, retrying, session_started, session_replaced, history_unavailable, cancelling, output_lost"`
	Code    Code   `json:"code,omitempty"`
	Message string `json:"message,omitempty"`

	Model   string  `json:"model,omitempty"`
	Session string  `json:"session_id,omitempty"`
	Usage   *Usage  `json:"usage,omitempty" doc:"So far in usage, of the whole turn in turn.finished"`
	CostUSD float64 `json:"cost_usd,omitempty"`
	Stats   *Stats  `json:"stats,omitempty" doc:"Of the conversation"`
	Version string  `json:"version,omitempty" doc:"The version of the workspace that was saved"`
	// Of turn.finished.
	VersionPending bool     `json:"version_pending,omitempty" doc:"The workspace is not saved yet; the turn has the version once it is"`
	Warnings       []string `json:"warnings,omitempty" doc:"What did not work and did not fail the turn"`

	At  *time.Time      `json:"at,omitempty"`
	Raw json.RawMessage `json:"raw,omitempty" doc:"The agent's own line, with ?raw=true"`
}

// Turn is one prompt and everything that the agent does until it finishes.
type Turn struct {
	ID             string     `json:"id"`
	ConversationID string     `json:"conversation_id"`
	SandboxID      string     `json:"sandbox_id"`
	MessageID      string     `json:"message_id"`
	Status         string     `json:"status" enum:"queued,running,completed,failed,cancelled,interrupted"`
	Code           Code       `json:"code,omitempty"`
	Message        string     `json:"message,omitempty"`
	Usage          Usage      `json:"usage"`
	Version        string     `json:"version,omitempty" doc:"The version of the workspace that was saved after it"`
	VersionPending bool       `json:"version_pending,omitempty" doc:"The workspace is not saved yet; it is tried until it is"`
	Warnings       []string   `json:"warnings,omitempty" doc:"What did not work and did not fail the turn"`
	CreatedAt      time.Time  `json:"created_at"`
	StartedAt      *time.Time `json:"started_at,omitempty"`
	FinishedAt     *time.Time `json:"finished_at,omitempty"`
}
