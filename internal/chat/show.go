package chat

import (
	"encoding/json"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// Show converts a turn to the API's type.
func Show(t store.Turn) api.Turn {
	var end outcome
	if t.Outcome != nil {
		_ = json.Unmarshal(t.Outcome, &end) // an outcome that cannot be read fails the turn, and the failure replaces it
	}
	shown := api.Turn{
		ID: t.ID, ConversationID: sandbox.PublicID(t.Conversation), SandboxID: sandbox.PublicID(t.Sandbox), MessageID: t.Message, Model: t.Model,
		Status: t.Status, Code: end.Code, Message: end.Message, StopReason: end.StopReason,
		Usage: end.Usage, Artifacts: artifactsOf(t, end.display), Version: t.Version, VersionPending: t.Saving, Warnings: t.Warnings,
		CreatedAt: t.CreatedAt, StartedAt: timeOrNil(t.StartedAt), FinishedAt: timeOrNil(t.FinishedAt),
	}
	if t.Status == store.TurnFinishing {
		shown.Status = api.TurnRunning
	}
	return shown
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
