package api

import (
	"fmt"
	"strconv"
	"strings"
)

// Headers of the answer to a prompt.
const (
	HeaderTurnID         = "Berth-Turn-Id"
	HeaderConversationID = "Berth-Conversation-Id"
	HeaderSandboxID      = "Berth-Sandbox-Id"
	HeaderMessageID      = "Berth-Message-Id" // the user's
)

// EventID is the id of a turn's event on the wire.
func EventID(turn string, seq int64) string { return turn + "." + strconv.FormatInt(seq, 10) }

// ParseEventID takes an EventID apart.
func ParseEventID(id string) (turn string, seq int64, err error) {
	turn, number, _ := strings.Cut(id, ".")
	seq, err = strconv.ParseInt(number, 10, 64)
	if err != nil || seq < 0 || turn == "" || EventID(turn, seq) != id {
		return "", 0, fmt.Errorf("%.100q is not the id of a turn's event", id)
	}
	return turn, seq, nil
}

// CancelTurn asks a turn to end.
type CancelTurn struct {
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"For whoever reads the turn later"`
}

// ConversationSandbox is the sandbox that a conversation works in.
type ConversationSandbox struct {
	ConversationID string  `json:"conversation_id"`
	SandboxID      string  `json:"sandbox_id"`
	Sandbox        Sandbox `json:"sandbox"`
}

// ConversationExport is a conversation with all that was said, the oldest first.
type ConversationExport struct {
	Conversation Conversation `json:"conversation"`
	Messages     []Message    `json:"messages"`
}
