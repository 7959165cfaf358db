package api

import "time"

// The types of ChangeEvent. EventError is one, too.
const (
	EventReset        = "reset"        // list everything anew: changes before this event are not reported
	EventSandbox      = "sandbox"      // a sandbox was created, changed or deleted
	EventConversation = "conversation" // the same for a conversation
	EventTurn         = "turn"         // a turn was accepted, changed or has ended
	EventHeartbeat    = "heartbeat"    // nothing changed, but the position moved
)

// ChangeEvent is one event of a tenant's stream of changes. It names what changed; a GET has the rest.
type ChangeEvent struct {
	Type           string     `json:"type" enum:"reset,sandbox,conversation,turn,heartbeat,error"`
	ID             string     `json:"id,omitempty" doc:"The id of the sandbox, the conversation or the turn that changed"`
	SandboxID      string     `json:"sandbox_id,omitempty" doc:"The sandbox of the conversation or the turn"`
	ConversationID string     `json:"conversation_id,omitempty" doc:"The conversation of the turn"`
	State          string     `json:"state,omitempty" doc:"The state of the sandbox after the change"`
	Status         string     `json:"status,omitempty" doc:"The status of the turn after the change"`
	Deleted        bool       `json:"deleted,omitempty" doc:"It is deleted"`
	At             *time.Time `json:"at,omitempty" doc:"The time of the change"`
	Message        string     `json:"message,omitempty" doc:"The reason, for people"`
	Error          *Problem   `json:"error,omitempty" doc:"The problem that ended the stream"`
}

// ChangeEvents describes the events of a tenant's stream of changes.
var ChangeEvents = []EventInfo{
	{EventReset, "ResetEvent", "List sandboxes and conversations anew: changes before this event are not reported. It is the first event of a stream without " +
		"a position, and of one whose position is too old.", []EventField{always("message", "")}},
	{EventSandbox, "SandboxChangedEvent", "A sandbox was created, changed or deleted.", []EventField{
		always("id", ""), always("state", ""), sometimes("deleted", ""), always("at", "")}},
	{EventConversation, "ConversationChangedEvent", "A conversation was created, changed or deleted, or got a message.", []EventField{
		always("id", ""), sometimes("sandbox_id", ""), sometimes("deleted", ""), always("at", "")}},
	{EventTurn, "TurnChangedEvent", "A turn was accepted, began, is to be cancelled, ended, or its version was saved.", []EventField{
		always("id", ""), always("conversation_id", ""), sometimes("sandbox_id", ""), always("status", ""), always("at", "")}},
	{EventHeartbeat, "HeartbeatEvent", "Nothing changed for 15 seconds. Its id is the position to continue from.", nil},
	{EventError, "ChangesErrorEvent", "The stream ends. Connect again with the id of the last event.", []EventField{always("error", "")}},
}
