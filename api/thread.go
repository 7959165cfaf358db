package api

import "time"

// Thread is a conversation with a key that a chat system chose.
type Thread struct {
	ThreadID       string     `json:"thread_id" doc:"The key in the chat system, unique in its workspace"`
	Workspace      string     `json:"workspace,omitempty" doc:"The chat system's workspace"`
	ChannelID      string     `json:"channel_id,omitempty"`
	ConversationID string     `json:"conversation_id" doc:"The thread's conversation; the routes of conversations take this id"`
	SandboxID      string     `json:"sandbox_id" doc:"The thread's sandbox; its first turn creates it"`
	SessionID      string     `json:"session_id,omitempty" doc:"The agent's session"`
	Status         string     `json:"status" enum:"creating,active,resuming,paused,destroyed,error" doc:"The state of the sandbox. A message starts a sandbox that is paused or destroyed"`
	TurnID         string     `json:"turn_id,omitempty" doc:"The running turn"`
	AccountID      string     `json:"account_id,omitempty"`
	AgentID        string     `json:"agent_id,omitempty"`
	Template       string     `json:"template"`
	Stats          Stats      `json:"stats"`
	PausedAt       *time.Time `json:"paused_at,omitempty" doc:"When the sandbox last stopped"`
	ResumedAt      *time.Time `json:"resumed_at,omitempty" doc:"When the sandbox last ran again after that"`
	DestroyedAt    *time.Time `json:"destroyed_at,omitempty" doc:"When an instance of the sandbox last ended"`
	CreatedAt      time.Time  `json:"created_at"`
	UpdatedAt      time.Time  `json:"updated_at"`
}
