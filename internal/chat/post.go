package chat

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// MaxPrompt is the largest size of a prompt in bytes.
const MaxPrompt = 1 << 20

// ask is an accepted request for a turn.
type ask struct {
	ID           string // of the turn; a second request with the same id returns the same turn
	Conversation store.Conversation
	Prompt       string
	Files        []store.PromptFile
	Model        string
	Template     string // the template whose agent answers
	Queue        bool   // wait while another turn runs
	Actor        string
}

// CheckPrompt returns an error for a prompt that cannot be accepted.
func CheckPrompt(prompt string) error {
	switch {
	case strings.TrimSpace(prompt) == "":
		return fault.Errorf("check prompt", api.CodeInvalidRequest, "the prompt is empty")
	case len(prompt) > MaxPrompt:
		return fault.Errorf("check prompt", api.CodeInvalidRequest, "the prompt has %d bytes; it may have %d", len(prompt), MaxPrompt)
	case !utf8.ValidString(prompt) || strings.ContainsRune(prompt, 0):
		return fault.Errorf("check prompt", api.CodeInvalidRequest, "the prompt is not text: it has bytes that are not UTF-8, or zeros")
	}
	return nil
}

// post stores the user's message and the turn. Once it returns, the prompt will be answered even if this process dies.
// If another turn runs in the conversation, it returns CodeTurnRunning unless a.Queue is set.
func (s *Service) post(ctx context.Context, a ask) (store.Turn, error) {
	if err := CheckPrompt(a.Prompt); err != nil {
		return store.Turn{}, err
	}
	plan, err := s.opts.Plan(a.Template)
	if err != nil {
		return store.Turn{}, err
	}
	if _, err := s.runtime(plan); err != nil {
		return store.Turn{}, err
	}
	in, c := s.opts.Store.In(a.Conversation.Tenant), a.Conversation
	if err := s.reserve(ctx, in, a.ID); err != nil {
		return store.Turn{}, err
	}
	t, added, err := in.Turns().Add(ctx, store.NewTurn{
		Turn: store.Turn{
			ID: a.ID, Conversation: c.ID, Sandbox: c.Sandbox, Prompt: a.Prompt, Files: a.Files, Model: a.Model, Template: a.Template, Actor: a.Actor,
		},
		Queue: a.Queue, Places: max(plan.MaxConcurrent, 1), MostQueue: s.opts.MaxQueue, MostBytes: s.opts.Attachments.Waiting,
		Begin: firstEvents,
	})
	if err != nil {
		s.free(ctx, c.Tenant, a.ID)
		return t, err
	}
	if added {
		s.opts.Metrics.TurnStarted()
	}
	switch {
	case added && t.Placed:
		s.at("accepted", t.ID)
		s.begin(t.ID)
	case t.Finished(): // the id is known and its turn has finished
		s.free(ctx, c.Tenant, a.ID)
	}
	return t, nil
}

// reservationTime is the time that an unfinished turn counts against its tenant's limit.
const reservationTime = 24 * time.Hour

// reserve counts the turn against its tenant's limit, if there is one.
func (s *Service) reserve(ctx context.Context, in store.Scope, turn string) error {
	if s.opts.MaxTurns == 0 {
		return nil
	}
	return in.Reservations().Reserve(ctx, store.QuotaTurns, turn, s.opts.MaxTurns, time.Now().Add(reservationTime))
}

func (s *Service) free(ctx context.Context, tenant store.TenantID, turn string) {
	if s.opts.MaxTurns == 0 {
		return
	}
	if err := s.opts.Store.In(tenant).Reservations().Free(context.WithoutCancel(ctx), store.QuotaTurns, turn); err != nil {
		s.opts.Log.WarnContext(ctx, "give back a place among the tenant's turns; it runs out by itself", "turn_id", turn, "error", err)
	}
}

// firstEvents returns the user's message and the first events of a turn, as JSON.
func firstEvents(t store.Turn) (message []byte, events [][]byte, err error) {
	message, err = json.Marshal(userMessage(t))
	started := api.TurnEvent{Type: api.EventTurnStarted, ConversationID: sandbox.PublicID(t.Conversation),
		SandboxID: sandbox.PublicID(t.Sandbox), TurnID: t.ID, MessageID: t.Message, At: &t.CreatedAt}
	events = append(events, mustJSON(started))
	if !t.Placed {
		events = append(events, mustJSON(api.TurnEvent{Type: api.EventStatus, Status: "queued", Message: "waits for the turn before it"}))
	}
	return message, events, err
}

// userMessage returns the user's message.
func userMessage(t store.Turn) api.Message {
	return api.Message{
		ID: t.Message, ConversationID: t.Conversation, TurnID: t.ID, Role: api.RoleUser, Status: api.TurnCompleted,
		Content: []api.Block{{Type: api.BlockText, Text: t.Prompt}}, Attachments: attachments(t), Model: t.Model, CreatedAt: t.CreatedAt,
	}
}

// Cancel asks a turn to end. The turn's last event reports the end. It returns CodeTurnFinished if the turn has ended.
func (s *Service) Cancel(ctx context.Context, tenant store.TenantID, turn, reason string) (store.Turn, error) {
	t, err := s.opts.Store.In(tenant).Turns().Cancel(ctx, turn, reason)
	if err == nil {
		s.hub.nudge(cancelTopics + turn)
		s.wake()
	}
	return t, err
}

// cancelTopics is the prefix of hub topics for requests to cancel a turn.
const cancelTopics = "cancel "

// Clear makes sure that no turn runs in the sandbox. If one does, Clear returns CodeTurnRunning, or, with force,
// cancels it and waits for its end.
func (s *Service) Clear(ctx context.Context, tenant store.TenantID, sandboxID string, force bool, reason string) error {
	for {
		open, err := s.opts.Store.In(tenant).Turns().ListOpen(ctx, "", sandboxID)
		switch {
		case err != nil || len(open) == 0:
			return err
		case !force:
			return fault.Errorf("look for turns", api.CodeTurnRunning, "turn %s of conversation %s is running in sandbox %s", open[0].ID, open[0].Conversation, sandboxID)
		}
		if err := s.end(ctx, open, reason); err != nil {
			return err
		}
	}
}

// Stop cancels all turns of a conversation, including waiting ones, and waits for their end.
func (s *Service) Stop(ctx context.Context, tenant store.TenantID, conversation, reason string) error {
	for {
		open, err := s.opts.Store.In(tenant).Turns().ListOpen(ctx, conversation, "")
		if err != nil || len(open) == 0 {
			return err
		}
		if err := s.end(ctx, open, reason); err != nil {
			return err
		}
	}
}

// end cancels turns, the oldest last so that no waiting one begins, and waits until they have ended.
func (s *Service) end(ctx context.Context, open []store.Turn, reason string) error {
	for _, t := range slices.Backward(open) {
		if _, err := s.Cancel(ctx, t.Tenant, t.ID, reason); err != nil && fault.CodeOf(err) != api.CodeTurnFinished {
			return err
		}
	}
	for _, t := range open {
		for _, err := range s.Events(ctx, t, t.Seq) {
			if err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return fault.Errorf("wait for a turn to end", api.CodeTimeout, "turn %s was asked to end and has not yet: %w", t.ID, err)
		}
	}
	return nil
}
