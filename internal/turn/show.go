package turn

import (
	"encoding/json"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/store"
)

// Show is a turn as the API shows it.
func Show(t store.Turn) api.Turn {
	var end outcome
	if t.Outcome != nil {
		_ = json.Unmarshal(t.Outcome, &end) // one that cannot be read fails the turn, which then has another
	}
	shown := api.Turn{
		ID: t.ID, ConversationID: t.Conversation, SandboxID: t.Sandbox, MessageID: t.Message,
		Status: t.Status, Code: end.Code, Message: end.Message, Usage: end.Usage, Version: t.Version, VersionPending: t.Saving, Warnings: t.Warnings,
		CreatedAt: t.CreatedAt, StartedAt: moment(t.StartedAt), FinishedAt: moment(t.FinishedAt),
	}
	if t.Status == store.TurnFinishing {
		shown.Status = api.TurnRunning
	}
	return shown
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
