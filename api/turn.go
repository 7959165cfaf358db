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
	HeaderMessageID      = "Berth-Message-Id" // id of the user's message
)

// EventID returns the id of a turn's event in a stream.
func EventID(turn string, seq int64) string { return turn + "." + strconv.FormatInt(seq, 10) }

// ParseEventID splits an id of EventID into turn and number.
func ParseEventID(id string) (turn string, seq int64, err error) {
	turn, number, _ := strings.Cut(id, ".")
	seq, err = strconv.ParseInt(number, 10, 64)
	if err != nil || seq < 0 || turn == "" || EventID(turn, seq) != id {
		return "", 0, fmt.Errorf("%.100q is not the id of a turn's event", id)
	}
	return turn, seq, nil
}

// CancelTurn is the request to end a turn.
type CancelTurn struct {
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"The reason, stored with the turn"`
}

// ConversationSandbox is the sandbox that a conversation works in.
type ConversationSandbox struct {
	ConversationID string  `json:"conversation_id"`
	SandboxID      string  `json:"sandbox_id"`
	Sandbox        Sandbox `json:"sandbox"`
}

// ConversationExport is a conversation with all its messages, oldest first.
type ConversationExport struct {
	Conversation Conversation `json:"conversation"`
	Messages     []Message    `json:"messages"`
}
