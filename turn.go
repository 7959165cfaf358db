package berth

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// Prompt asks the agent of a sandbox to do something.
type Prompt struct {
	Text  string // the text of the prompt: 1 byte to 1 MiB
	Model string // the model, one that the template allows; empty: the agent's choice
	// Attachments are put into the workspace before the agent starts, which gets their paths, and images as images if
	// it can. The message of the prompt lists them.
	Attachments []api.PromptFile
	Queue       bool // wait while another turn of the conversation runs, instead of failing with ErrTurnRunning
	// TurnID is the id of the turn, a UUID; empty: a new one. A repeated id starts no second turn: it yields the
	// events of the first.
	TurnID string
}

// ExecuteAgentStream prompts the agent of the sandbox's template and yields the events of the turn as they are
// stored, from turn.started to turn.finished. An error ends the sequence. A failed turn is not an error: the event
// turn.finished has its status.
//
// The prompt is sent when the sequence is ranged over. Each range sends it again unless [Prompt].TurnID is set.
// Leaving the loop, or the end of ctx, ends only the reading: the turn continues, and [Sandbox.TurnEvents] reads its
// further events. [Sandbox.CancelTurn] ends the turn itself. The turn belongs to the conversation that was set with
// [Sandbox.SetConversation], or to the sandbox's default conversation.
func (s *Sandbox) ExecuteAgentStream(ctx context.Context, p Prompt) iter.Seq2[api.TurnEvent, error] {
	return func(yield func(api.TurnEvent, error) bool) {
		t, err := s.prompt(ctx, p)
		if err != nil {
			yield(api.TurnEvent{}, wrap("execute agent", err))
			return
		}
		s.events(ctx, t, 0, yield)
	}
}

func (s *Sandbox) prompt(ctx context.Context, p Prompt) (store.Turn, error) {
	if _, err := s.record(ctx); err != nil {
		return store.Turn{}, err
	}
	if err := s.b.system.Room(); err != nil {
		return store.Turn{}, err
	}
	id, turnID := s.Conversation(), NewID()
	if p.TurnID != "" {
		parsed, err := sandbox.ParseID(p.TurnID)
		if err != nil {
			return store.Turn{}, err
		}
		turnID = parsed
	}
	return s.conversations().Prompt(ctx, chat.PromptRequest{
		Prompt:       api.Prompt{Prompt: p.Text, Model: p.Model, Attachments: p.Attachments},
		Conversation: id, Make: id != "", Default: id == "", Sandbox: s.id, Queue: p.Queue, TurnID: turnID,
	})
}

// conversations returns the conversations that the sandbox's account may use.
func (s *Sandbox) conversations() chat.Conversations {
	return s.b.system.Chat().Of(s.scope, actor, s.account.ID)
}

// TurnEvents yields the events of a turn with a number greater than after, as [Sandbox.ExecuteAgentStream] does.
// Events count from 1. If the events are no longer kept, it yields one event of the type resync.
func (s *Sandbox) TurnEvents(ctx context.Context, turnID string, after int64) iter.Seq2[api.TurnEvent, error] {
	return func(yield func(api.TurnEvent, error) bool) {
		t, err := s.turn(ctx, "read events", turnID)
		if err != nil {
			yield(api.TurnEvent{}, err)
			return
		}
		s.events(ctx, t, max(after, 0), yield)
	}
}

// events yields a turn's events. If the end of ctx or of b ends the sequence before the turn ends, it yields an
// error.
func (s *Sandbox) events(ctx context.Context, t store.Turn, after int64, yield func(api.TurnEvent, error) bool) {
	reading, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(s.b.open, func() { end(s.b.usable()) })()
	last := false
	for e, err := range s.b.system.Chat().Events(reading, t, after) {
		var event api.TurnEvent
		if err == nil {
			err = json.Unmarshal(e.Data, &event)
		}
		if err != nil {
			yield(api.TurnEvent{}, wrap("read events", cmp.Or(context.Cause(reading), err)))
			return
		}
		event.Raw = nil
		last = event.Type == api.EventTurnFinished || event.Type == api.EventResync
		if !yield(event, nil) {
			return
		}
	}
	if !last && reading.Err() != nil {
		yield(api.TurnEvent{}, wrap("read events", context.Cause(reading)))
	}
}

// turn returns a turn of this sandbox. For a turn that does not exist, the error has the code not_found but no kind:
// ErrSandboxNotAccessible would be wrong, because the sandbox can be used.
func (s *Sandbox) turn(ctx context.Context, op, id string) (store.Turn, error) {
	if _, err := s.record(ctx); err != nil {
		return store.Turn{}, wrap(op, err)
	}
	id, err := sandbox.ParseID(id)
	if err != nil {
		return store.Turn{}, wrap(op, err)
	}
	t, err := s.scope.Turns().Get(ctx, id)
	if err == nil && t.Sandbox != s.id {
		err = fault.Errorf("", api.CodeNotFound, "there is no turn %q in sandbox %s", id, s.id)
	}
	if fault.CodeOf(err) == api.CodeNotFound {
		return t, wrapAs(op, err, nil)
	}
	return t, wrap(op, err)
}

// Turn returns the state of a turn.
func (s *Sandbox) Turn(ctx context.Context, turnID string) (api.Turn, error) {
	t, err := s.turn(ctx, "read turn", turnID)
	if err != nil {
		return api.Turn{}, err
	}
	return chat.Show(t), nil
}

// CancelTurn asks a turn to end. The turn has ended when its last event, turn.finished, arrives.
func (s *Sandbox) CancelTurn(ctx context.Context, turnID string) error {
	const op = "cancel turn"
	t, err := s.turn(ctx, op, turnID)
	if err == nil {
		_, err = s.b.system.Chat().Cancel(ctx, t.Tenant, t.ID, "cancelled by the program")
	}
	return wrap(op, err)
}
