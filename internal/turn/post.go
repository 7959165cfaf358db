package turn

import (
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// MaxPrompt is how many bytes a prompt may have.
const MaxPrompt = 1 << 20

// Ask is a prompt to be answered.
type Ask struct {
	ID           string // of the turn; the same one asked again is the same turn
	Conversation store.Conversation
	Prompt       string
	Model        string
	Template     string // whose agent is asked
	Queue        bool   // wait while another turn runs
	Actor        string
}

// CheckPrompt says what is wrong with a prompt.
func CheckPrompt(prompt string) error {
	switch {
	case strings.TrimSpace(prompt) == "":
		return sandbox.Errorf("check prompt", api.CodeInvalidRequest, "the prompt is empty")
	case len(prompt) > MaxPrompt:
		return sandbox.Errorf("check prompt", api.CodeInvalidRequest, "the prompt has %d bytes; it may have %d", len(prompt), MaxPrompt)
	case !utf8.ValidString(prompt) || strings.ContainsRune(prompt, 0):
		return sandbox.Errorf("check prompt", api.CodeInvalidRequest, "the prompt is not text: it has bytes that are not UTF-8, or zeros")
	}
	return nil
}

// Post accepts a prompt: once it returns, the user's message is stored and will be answered, whatever
// becomes of this process. A turn that runs already is CodeTurnRunning, unless this one may wait.
func (s *Service) Post(ctx context.Context, a Ask) (store.Turn, error) {
	if err := CheckPrompt(a.Prompt); err != nil {
		return store.Turn{}, err
	}
	plan, err := s.Plan(a.Template)
	if err != nil {
		return store.Turn{}, err
	}
	if _, err := s.runtime(plan); err != nil {
		return store.Turn{}, err
	}
	in, c := s.Store.In(a.Conversation.Tenant), a.Conversation
	if err := s.reserve(ctx, in, a.ID); err != nil {
		return store.Turn{}, err
	}
	t, added, err := in.AddTurn(ctx, store.NewTurn{
		Turn: store.Turn{
			ID: a.ID, Conversation: c.ID, Sandbox: c.Sandbox, Prompt: a.Prompt, Model: a.Model, Template: a.Template, Actor: a.Actor,
		},
		Queue: a.Queue, Places: max(plan.Places, 1), MostQueue: s.MaxQueue,
		Begin: begun,
	})
	if err != nil {
		s.free(ctx, c.Tenant, a.ID)
		return t, err
	}
	if added {
		s.Metrics.TurnStarted()
	}
	switch {
	case added && t.Placed:
		s.at("accepted", t.ID)
		s.begin(t.ID)
	case t.Finished(): // it was asked again
		s.free(ctx, c.Tenant, a.ID)
	}
	return t, nil
}

// reserved is how long a turn counts among its tenant's if nobody ever finishes it.
const reserved = 24 * time.Hour

// reserve counts the turn among its tenant's, if those are bounded.
func (s *Service) reserve(ctx context.Context, in store.Scope, turn string) error {
	if s.MaxTurns == 0 {
		return nil
	}
	return in.Reserve(ctx, store.QuotaTurns, turn, s.MaxTurns, time.Now().Add(reserved))
}

func (s *Service) free(ctx context.Context, tenant store.TenantID, turn string) {
	if s.MaxTurns == 0 {
		return
	}
	if err := s.Store.In(tenant).Free(context.WithoutCancel(ctx), store.QuotaTurns, turn); err != nil {
		s.Log.WarnContext(ctx, "give back a place among the tenant's turns; it runs out by itself", "turn_id", turn, "error", err)
	}
}

// begun is the user's message and the first events of a turn.
func begun(t store.Turn) (message []byte, events [][]byte, err error) {
	message, err = json.Marshal(asked(t))
	started := api.TurnEvent{Type: api.EventTurnStarted, ConversationID: t.Conversation, SandboxID: t.Sandbox, TurnID: t.ID, MessageID: t.Message, At: &t.CreatedAt}
	events = append(events, mustJSON(started))
	if !t.Placed {
		events = append(events, mustJSON(api.TurnEvent{Type: api.EventStatus, Status: "queued", Message: "waits for the turn before it"}))
	}
	return message, events, err
}

// asked is the user's message.
func asked(t store.Turn) api.Message {
	return api.Message{
		ID: t.Message, ConversationID: t.Conversation, TurnID: t.ID, Role: api.RoleUser, Status: api.TurnCompleted,
		Content: []api.Block{{Type: api.BlockText, Text: t.Prompt}}, CreatedAt: t.CreatedAt,
	}
}

// Cancel asks a turn to end; its last event tells when it has. A turn that has ended is CodeTurnFinished.
func (s *Service) Cancel(ctx context.Context, tenant store.TenantID, turn, reason string) (store.Turn, error) {
	t, err := s.Store.In(tenant).CancelTurn(ctx, turn, reason)
	if err == nil {
		s.hub.nudge(cancels + turn)
		s.wake()
	}
	return t, err
}

// cancels are what holders listen to beside the events of turns.
const cancels = "cancel "

// Clear makes sure that no turn runs in the sandbox: one that does is CodeTurnRunning, or, if asked to, is
// cancelled and waited for.
func (s *Service) Clear(ctx context.Context, tenant store.TenantID, sandboxID string, force bool, reason string) error {
	for {
		open, err := s.Store.In(tenant).OpenTurns(ctx, "", sandboxID)
		switch {
		case err != nil || len(open) == 0:
			return err
		case !force:
			return sandbox.Errorf("look for turns", api.CodeTurnRunning, "turn %s of conversation %s is running in sandbox %s", open[0].ID, open[0].Conversation, sandboxID)
		}
		if err := s.end(ctx, open, reason); err != nil {
			return err
		}
	}
}

// Stop ends all turns of a conversation, those that wait, too.
func (s *Service) Stop(ctx context.Context, tenant store.TenantID, conversation, reason string) error {
	for {
		open, err := s.Store.In(tenant).OpenTurns(ctx, conversation, "")
		if err != nil || len(open) == 0 {
			return err
		}
		if err := s.end(ctx, open, reason); err != nil {
			return err
		}
	}
}

// end cancels turns and waits until they have ended.
func (s *Service) end(ctx context.Context, open []store.Turn, reason string) error {
	for _, t := range open {
		if _, err := s.Cancel(ctx, t.Tenant, t.ID, reason); err != nil && sandbox.CodeOf(err) != api.CodeTurnFinished {
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
			return sandbox.Errorf("wait for a turn to end", api.CodeTimeout, "turn %s was asked to end and has not yet: %w", t.ID, err)
		}
	}
	return nil
}
