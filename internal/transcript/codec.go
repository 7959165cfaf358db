package transcript

import (
	"encoding/json"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// Encode encodes a message for a store as JSON, always valid UTF-8. It returns api.CodeInvalidRequest for a message
// that no store can keep, and api.CodeTooLarge for a message longer than MaxMessage.
func Encode(m api.Message) (string, error) {
	const op = "store message"
	if !ValidID(m.ID) || !ValidID(m.ConversationID) {
		return "", fault.Errorf(op, api.CodeInvalidRequest, "%.300q in conversation %.300q is no message's id", m.ID, m.ConversationID)
	}
	body, err := json.Marshal(m)
	if err != nil {
		return "", fault.Errorf(op, api.CodeInvalidRequest, "message %s cannot be written as JSON: %w", m.ID, err)
	}
	// json.Marshal does not check raw JSON, such as the arguments of tools.
	text := strings.ToValidUTF8(string(body), "\uFFFD")
	if len(text) > MaxMessage {
		e := fault.Errorf(op, api.CodeTooLarge, "message %s has %d bytes; %d is the most", m.ID, len(text), MaxMessage)
		e.Hint = "Shorten the message before it is stored."
		return "", e
	}
	return text, nil
}

// Decode decodes the result of Encode.
func Decode(id, body string) (m api.Message, err error) {
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		return m, Damaged(id, "it is not a message's JSON: %v", err)
	}
	return m, nil
}

// Damaged returns the error for a stored message that cannot be the message that was put.
func Damaged(id, format string, args ...any) error {
	e := fault.Errorf("read message "+id, api.CodeInternal, format, args...)
	e.Hint = "The message store was changed; restore the message from a backup, or delete the conversation."
	return e
}

// Missing returns the error for a message that does not exist.
func Missing(id string) error {
	return fault.Errorf("read message", api.CodeNotFound, "there is no message %.300q", id)
}
