package transcript

import (
	"encoding/json"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// Encode is the message as every store keeps it: JSON, valid UTF-8 whatever an agent wrote. A message that
// no store can keep is api.CodeInvalidRequest, one that is longer than MaxMessage api.CodeTooLarge.
func Encode(m api.Message) (string, error) {
	const op = "store message"
	if !ValidID(m.ID) || !ValidID(m.ConversationID) {
		return "", sandbox.Errorf(op, api.CodeInvalidRequest, "%.300q in conversation %.300q is no message's id", m.ID, m.ConversationID)
	}
	body, err := json.Marshal(m)
	if err != nil {
		return "", sandbox.Errorf(op, api.CodeInvalidRequest, "message %s cannot be written as JSON: %w", m.ID, err)
	}
	// What was JSON already, as the arguments of tools, is not looked into by json.Marshal.
	text := strings.ToValidUTF8(string(body), "\uFFFD")
	if len(text) > MaxMessage {
		e := sandbox.Errorf(op, api.CodeTooLarge, "message %s has %d bytes; %d is the most", m.ID, len(text), MaxMessage)
		e.Hint = "Cut what is longer before it is stored."
		return "", e
	}
	return text, nil
}

// Decode reads what Encode wrote.
func Decode(id, body string) (m api.Message, err error) {
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		return m, Damaged(id, "it is not a message's JSON: %v", err)
	}
	return m, nil
}

// Damaged says that a stored message is not as it was put.
func Damaged(id, format string, args ...any) error {
	e := sandbox.Errorf("read message "+id, api.CodeInternal, format, args...)
	e.Hint = "Somebody changed it in the message store; put it back from a backup, or delete the conversation."
	return e
}

// Missing is the answer for a message that is not there.
func Missing(id string) error {
	return sandbox.Errorf("read message", api.CodeNotFound, "there is no message %.300q", id)
}
