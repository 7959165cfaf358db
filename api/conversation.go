package api

import (
	"encoding/json"
	"time"
)

// Conversation is a sequence of prompts and answers in one sandbox, with one session of an agent.
type Conversation struct {
	ID             string             `json:"id"`
	Title          string             `json:"title,omitempty"`
	AccountID      string             `json:"account_id,omitempty"`
	OrganizationID string             `json:"organization_id" doc:"The conversation's tenant"`
	AgentID        string             `json:"agent_id,omitempty"`
	Template       string             `json:"template"`
	SandboxID      string             `json:"sandbox_id,omitempty" doc:"Its sandbox, if it has one"`
	SessionID      string             `json:"session_id,omitempty" doc:"The agent's session"`
	Status         string             `json:"status" enum:"idle,running" doc:"running while a turn runs or is queued"`
	TurnID         string             `json:"turn_id,omitempty" doc:"The running turn"`
	Stats          Stats              `json:"stats"`
	ExtraStats     map[string]float64 `json:"extra_stats,omitempty" doc:"Additional counters of the template's hooks"`
	Undelivered    *Undelivered       `json:"undelivered,omitempty" doc:"Messages that could not be delivered to the message store yet"`
	Env            []string           `json:"env,omitempty" doc:"Names of the environment variables of the sandbox that it owns; values are never returned"`
	Metadata       map[string]string  `json:"metadata,omitempty"`
	CreatedAt      time.Time          `json:"created_at"`
	UpdatedAt      time.Time          `json:"updated_at"`
}

// Undelivered counts the messages that are not stored yet and has the last error.
type Undelivered struct {
	Messages  int    `json:"messages"`
	LastError string `json:"last_error,omitempty"`
}

// Stats is the usage of a conversation: always the sum over its messages.
type Stats struct {
	MessagesExchanged     int64   `json:"messages_exchanged" doc:"Number of stored messages"`
	TotalInputTokens      int64   `json:"total_input_tokens"`
	TotalOutputTokens     int64   `json:"total_output_tokens"`
	TotalCacheTokens      int64   `json:"total_cache_tokens" doc:"Cache reads and writes"`
	TotalCacheReadTokens  int64   `json:"total_cache_read_tokens"`
	TotalCacheWriteTokens int64   `json:"total_cache_write_tokens"`
	TotalCostUSD          float64 `json:"total_cost_usd"`
}

// Usage counts tokens. Each token is counted in exactly one of the four fields.
type Usage struct {
	InputTokens      int64 `json:"input_tokens"`
	OutputTokens     int64 `json:"output_tokens"`
	CacheReadTokens  int64 `json:"cache_read_tokens"`
	CacheWriteTokens int64 `json:"cache_write_tokens"`
	// Estimated is true if the agent did not report its tokens, or ended before it could report them.
	Estimated bool `json:"estimated,omitempty"`
	// Bounded is true if the agent reported more tokens than its turn can have used. The numbers were cut to the
	// possible maximum.
	Bounded bool `json:"bounded,omitempty"`
}

// Add returns the sum of u and v. The sum is estimated or bounded if one of them is.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		InputTokens: u.InputTokens + v.InputTokens, OutputTokens: u.OutputTokens + v.OutputTokens,
		CacheReadTokens: u.CacheReadTokens + v.CacheReadTokens, CacheWriteTokens: u.CacheWriteTokens + v.CacheWriteTokens,
		Estimated: u.Estimated || v.Estimated, Bounded: u.Bounded || v.Bounded,
	}
}

// Roles of messages.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
)

// The final statuses of a turn and of its message.
const (
	TurnCompleted   = "completed"
	TurnFailed      = "failed"
	TurnCancelled   = "cancelled"
	TurnInterrupted = "interrupted" // its sandbox or its agent was lost after the work had begun
)

// The statuses of a turn that has not ended.
const (
	TurnQueued  = "queued"
	TurnRunning = "running"
)

// Message is a prompt of a user or an answer of the agent.
type Message struct {
	ID             string  `json:"id"`
	ConversationID string  `json:"conversation_id"`
	TurnID         string  `json:"turn_id,omitempty"`
	Role           string  `json:"role" enum:"user,assistant"`
	Content        []Block `json:"content"`
	// Attachments are the files of a user's message.
	Attachments []Attachment `json:"attachments,omitempty" doc:"The files that were sent with a prompt"`
	Status      string       `json:"status" enum:"completed,failed,cancelled,interrupted"`
	Error       string       `json:"error,omitempty" doc:"The error, if it did not complete"`
	Model       string       `json:"model,omitempty" doc:"The model that answered; of a prompt, the one that was asked for"`
	Usage       Usage        `json:"usage"`
	CostUSD     float64      `json:"cost_usd"`
	DurationMS  int64        `json:"duration_ms,omitempty" doc:"Time from the prompt to the end of the turn, in milliseconds"`
	CreatedAt   time.Time    `json:"created_at"`
}

// Attachment is a file that was sent with a prompt.
type Attachment struct {
	Name      string `json:"name"`
	MediaType string `json:"media_type"`
	Size      int64  `json:"size" doc:"Bytes"`
	Path      string `json:"path" doc:"Where it was put, below the workspace; the agent may have changed it since"`
}

// Text returns the text blocks of the message, separated by empty lines.
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

// Block is one part of a message: text, thinking, a tool call or its result.
type Block struct {
	Type      string          `json:"type" enum:"text,thinking,tool_use,tool_result"`
	Text      string          `json:"text,omitempty" doc:"The text of a text, thinking or tool_result block"`
	ID        string          `json:"id,omitempty" doc:"The tool call's id"`
	Name      string          `json:"name,omitempty" doc:"The tool's name"`
	Input     json.RawMessage `json:"input,omitempty" doc:"The tool call's arguments"`
	ToolUseID string          `json:"tool_use_id,omitempty" doc:"The call that this is the result of"`
	IsError   bool            `json:"is_error,omitempty"`
	Truncated bool            `json:"truncated,omitempty" doc:"The text is cut"`
}

// CreateConversation is the request to create a conversation.
type CreateConversation struct {
	ID        string            `json:"id,omitempty" doc:"The id, any UUID; default: a new one"`
	Title     string            `json:"title,omitempty" maxLength:"200"`
	AccountID string            `json:"account_id,omitempty" maxLength:"255" doc:"The account; default: the key's"`
	AgentID   string            `json:"agent_id,omitempty" maxLength:"63"`
	Template  string            `json:"template,omitempty" maxLength:"63" doc:"The template of its sandbox; default: the agent's, then the server's"`
	SandboxID string            `json:"sandbox_id,omitempty" doc:"An existing sandbox to use; default: a new sandbox"`
	Env       map[string]string `json:"env,omitempty" doc:"Environment variables of the sandbox that it owns, in addition to those of agent and template: at most 64, 16 KiB in total. Not allowed with an existing sandbox"`
	Metadata  map[string]string `json:"metadata,omitempty" doc:"Your own metadata; its own sandbox gets it too"`
}

// PatchConversation is the request to change a conversation. Absent fields do not change.
type PatchConversation struct {
	Title     *string `json:"title,omitempty" maxLength:"200"`
	SandboxID string  `json:"sandbox_id,omitempty" doc:"Another sandbox to use from now on (id or name)"`
}

// Prompt is the request to send a prompt to an agent.
type Prompt struct {
	Prompt   string `json:"prompt" doc:"The prompt: 1 byte to 1 MiB of text"`
	AgentID  string `json:"agent_id,omitempty" maxLength:"63"`
	Template string `json:"template,omitempty" maxLength:"63"`
	Model    string `json:"model,omitempty" maxLength:"200" doc:"The model, one of the template's if it lists models; default: the agent's, then the template's"`
	// Attachments are put into the workspace before the agent starts.
	Attachments []PromptFile `json:"attachments,omitempty" doc:"Files and images for the agent"`
}

// PromptFile is a file to send with a prompt.
type PromptFile struct {
	Name      string `json:"name" minLength:"1" maxLength:"255" doc:"The file's name; directories before it are dropped" example:"chart.png"`
	MediaType string `json:"media_type,omitempty" maxLength:"100" doc:"Default: found from content and name. Images are always found from their content" example:"image/png"`
	Data      []byte `json:"data,omitzero" required:"false" doc:"The content, in base64"`
	URL       string `json:"url,omitempty" maxLength:"2048" doc:"The address of the content, instead of data; the server fetches it. Only http and https at public addresses, without redirects"`
}

// Artifact is a file below output/display/ in the workspace that changed during a turn, as it was at the turn's end.
type Artifact struct {
	Path      string `json:"path" doc:"The path in the workspace"`
	Name      string `json:"name" example:"chart.png"`
	Size      int64  `json:"size"`
	MediaType string `json:"media_type" doc:"Found from content and name" example:"image/png"`
	SHA256    string `json:"sha256" doc:"The content's SHA-256 in hex"`
	URL       string `json:"url" doc:"The path on this server that downloads the file as it is now"`
}

// TurnArtifact is an artifact and the turn that made or changed it.
type TurnArtifact struct {
	Artifact
	TurnID string `json:"turn_id"`
}

// Answer is a turn that has ended, with its answer.
type Answer struct {
	Turn    Turn    `json:"turn"`
	Text    string  `json:"text" doc:"The texts of the answer"`
	Content []Block `json:"content" doc:"The whole answer, with the calls of tools"`
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

// TurnEvent is one event of a turn's stream. Its id in the stream is {turn}.{seq}; see EventID.
type TurnEvent struct {
	Type string `json:"type"`

	// In turn.started, resync and turn.finished; see TurnEvents.
	ConversationID string `json:"conversation_id,omitempty"`
	SandboxID      string `json:"sandbox_id,omitempty"`
	TurnID         string `json:"turn_id,omitempty"`
	MessageID      string `json:"message_id,omitempty" doc:"The user's message in turn.started, the assistant's in turn.finished"`

	Text   string          `json:"text,omitempty" doc:"The text of text, thinking, delta and tool.result events"`
	ID     string          `json:"id,omitempty" doc:"The tool call's id"`
	Name   string          `json:"name,omitempty" doc:"The tool's name"`
	Input  json.RawMessage `json:"input,omitempty" doc:"The tool call's arguments"`
	Error  bool            `json:"is_error,omitempty" doc:"The tool failed"`
	Parent string          `json:"parent_id,omitempty" doc:"The tool call whose sub-agent wrote it"`
	Cut    bool            `json:"truncated,omitempty" doc:"The text is cut"`

	// In status, error, resync and turn.finished; see TurnEvents.
	Status  string `json:"status,omitempty" doc:"The outcome in turn.finished; the new state in status"`
	Code    Code   `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// Of turn.finished.
	StopReason string `json:"stop_reason,omitempty" doc:"Why the model stopped, in the words of its service: end_turn, max_tokens, refusal and others"`

	Model   string  `json:"model,omitempty"`
	Session string  `json:"session_id,omitempty"`
	Usage   *Usage  `json:"usage,omitempty" doc:"The turn's tokens: so far in usage, in total in turn.finished"`
	CostUSD float64 `json:"cost_usd,omitempty"`
	// Of turn.finished.
	Artifacts []Artifact `json:"artifacts,omitempty" doc:"The files below output/display/ that changed during the turn"`
	Stats     *Stats     `json:"stats,omitempty" doc:"The conversation's totals"`
	Version   string     `json:"version,omitempty" doc:"The saved version of the workspace"`
	// Of turn.finished.
	VersionPending bool     `json:"version_pending,omitempty" doc:"The workspace is not saved yet; GET the turn later for the version"`
	Warnings       []string `json:"warnings,omitempty" doc:"Failures that did not fail the turn"`

	At  *time.Time      `json:"at,omitempty"`
	Raw json.RawMessage `json:"raw,omitempty" doc:"The agent's own line of output; only with ?raw=true"`
}

// Turn is one prompt and the work of the agent on it.
type Turn struct {
	ID             string     `json:"id"`
	ConversationID string     `json:"conversation_id"`
	SandboxID      string     `json:"sandbox_id"`
	MessageID      string     `json:"message_id"`
	Model          string     `json:"model,omitempty" doc:"The model that was asked for; absent: the agent's choice"`
	Status         string     `json:"status" enum:"queued,running,completed,failed,cancelled,interrupted"`
	Code           Code       `json:"code,omitempty"`
	Message        string     `json:"message,omitempty"`
	StopReason     string     `json:"stop_reason,omitempty" doc:"Why the model stopped, in the words of its service: end_turn, max_tokens, refusal and others"`
	Usage          Usage      `json:"usage"`
	Artifacts      []Artifact `json:"artifacts,omitempty" doc:"The files below output/display/ that changed during the turn"`
	Version        string     `json:"version,omitempty" doc:"The version of the workspace that was saved after the turn"`
	VersionPending bool       `json:"version_pending,omitempty" doc:"The workspace is not saved yet; saving is retried"`
	Warnings       []string   `json:"warnings,omitempty" doc:"Failures that did not fail the turn"`
	CreatedAt      time.Time  `json:"created_at"`
	StartedAt      *time.Time `json:"started_at,omitempty"`
	FinishedAt     *time.Time `json:"finished_at,omitempty"`
}
