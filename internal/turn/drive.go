package turn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
)

// work is one holder's work on one turn.
type work struct {
	*Service
	lease   store.Lease
	tenant  store.TenantID
	turn    store.Turn // as it is after our last write
	box     Box
	plan    Plan
	runtime agent.Runtime
	fold    agent.Fold
	place   place
	seen    bool  // text or a tool, of any attempt
	logged  int64 // bytes of its log
	over    bool  // it wrote more than it may
	heeding sync.WaitGroup
	held    bool
	release func()
}

// place is what is kept in a turn's state: the runtime's own, and what we must know of the attempt.
type place struct {
	Incarnation int64           `json:"i,omitempty"` // in which the agent was started
	Retried     bool            `json:"r,omitempty"` // this is the second try
	State       json.RawMessage `json:"s,omitempty"`
}

// with is the place with a state of the runtime's, which is left out if it is no JSON. It is made for every event.
func (p place) with(state json.RawMessage) json.RawMessage {
	text := fmt.Appendf(nil, `{"i":%d,"r":%t`, p.Incarnation, p.Retried)
	if json.Valid(state) {
		text = append(append(text, `,"s":`...), state...)
	}
	return append(text, '}')
}

// drive runs the turn as far as it goes: to its end, unless the lease or this process goes first.
func (s *Service) drive(ctx context.Context, id string) {
	asked := time.Now()
	lease, t, ok, err := s.Store.TakeTurn(ctx, id, s.Holder, s.Host)
	if err != nil || !ok {
		if err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "take turn", "turn_id", id, "error", err)
		}
		return
	}
	ctx = telemetry.With(ctx, slog.String(telemetry.FieldTenant, string(t.Tenant)), slog.String("turn_id", t.ID),
		slog.String("conversation_id", t.Conversation), slog.String(telemetry.FieldSandboxID, t.Sandbox))
	held, stop := store.Keep(ctx, s.Store, lease, s.Store.LeaseTTL(), asked)
	w := &work{Service: s, lease: lease, tenant: t.Tenant, turn: t, box: s.Boxes(t), release: func() {}}
	err = w.run(held)
	if released := stop(); released != nil {
		s.Log.WarnContext(ctx, "release lease; it runs out by itself", "error", released)
	}
	switch {
	case err == nil:
		s.wake() // somebody may be waiting for the place
	case errors.Is(err, sandbox.ErrStale):
		s.Log.InfoContext(ctx, "another server goes on with the turn")
	case ctx.Err() == nil:
		s.Log.WarnContext(ctx, "the turn is not finished; it is tried again", "error", err)
	}
}

func (w *work) run(ctx context.Context) error {
	w.at("taken", w.turn.ID)
	if err := w.recall(ctx); err != nil {
		return err
	}
	defer func() { w.release() }()
	if _, err := w.box.Record(ctx); err == nil {
		w.hold(ctx)
	}
	if w.turn.Outcome == nil {
		if err := w.outcome(ctx); err != nil {
			return err
		}
	}
	return w.finish(ctx)
}

// hold keeps timers away from the sandbox for as long as the work lasts. A sandbox that is yet to be made is
// held once it is there.
func (w *work) hold(ctx context.Context) {
	if !w.held {
		w.held, w.release = true, w.box.Hold(ctx, "turn")
	}
}

// recall brings the work to where the last holder left it.
func (w *work) recall(ctx context.Context) error {
	if err := w.reread(ctx); err != nil {
		return err
	}
	if len(w.turn.State) > 0 {
		if err := json.Unmarshal(w.turn.State, &w.place); err != nil {
			return sandbox.Errorf("recall turn", api.CodeInternal, "its state cannot be read: %w", err)
		}
	}
	return nil
}

// reread reads the log, which may go further than the turn's row says.
func (w *work) reread(ctx context.Context) error {
	after := int64(0)
	for {
		parts, err := w.Store.ReadLog(ctx, w.turn.ID, after, readSize)
		if err != nil {
			return err
		}
		for _, p := range parts {
			for _, data := range p.Events {
				var e api.TurnEvent
				if err := json.Unmarshal(data, &e); err != nil {
					return sandbox.Errorf("recall turn", api.CodeInternal, "event %d of turn %s cannot be read: %w", after+1, w.turn.ID, err)
				}
				w.note(e)
				w.logged += int64(len(data)) + 1
				after++
			}
			if after > w.turn.Seq {
				w.turn.Seq, w.turn.ReadTo, w.turn.State = after, p.To, p.State
			}
		}
		if len(parts) == 0 {
			break
		}
	}
	if after < w.turn.Seq {
		return sandbox.Errorf("recall turn", api.CodeInternal, "event %d of turn %s is missing", after+1, w.turn.ID)
	}
	return nil
}

// note takes an event of the log into account.
func (w *work) note(events ...api.TurnEvent) {
	for _, e := range events {
		switch e.Type {
		case api.EventText, api.EventTextDelta, api.EventToolCall, api.EventToolResult:
			w.seen = true
		}
		e.Raw = nil
		w.fold.Add(e)
	}
}

// say appends events of our own, which are not of the agent's output.
func (w *work) say(ctx context.Context, events ...api.TurnEvent) error {
	return w.append(ctx, w.turn.ReadTo, w.turn.State, events)
}

// append stores events, one with the place in the agent's output that they bring us to.
func (w *work) append(ctx context.Context, to int64, state json.RawMessage, events []api.TurnEvent) error {
	a := store.Append{After: w.turn.Seq, To: to, State: state, Events: encode(events)}
	var err error
	if len(events) > 0 {
		err = w.log.append(ctx, store.TurnAppend{Lease: w.lease, Append: a})
	} else {
		_, err = w.Store.MoveTurn(ctx, w.lease, a)
	}
	if err != nil {
		return err
	}
	w.note(events...)
	for _, data := range a.Events {
		w.logged += int64(len(data)) + 1
	}
	w.turn.Seq, w.turn.ReadTo, w.turn.State = w.turn.Seq+int64(len(events)), to, state
	return nil
}

// outcome brings the agent's work to its end, and records it.
func (w *work) outcome(ctx context.Context) error {
	for {
		end, last, err := w.attempt(ctx)
		if err != nil {
			return err
		}
		now, err := w.Store.In(w.turn.Tenant).Turn(ctx, w.turn.ID)
		if err != nil {
			return err
		}
		w.turn.CancelAt, w.turn.CancelReason = now.CancelAt, now.CancelReason
		switch again := now.CancelAt.IsZero(); {
		case again && end.NoSession && w.turn.Resume:
			err = w.replaceSession(ctx)
		case again && end.Again && !w.place.Retried && !w.seen: // nothing is done twice
			if end, err = w.retry(ctx, end); end != nil {
				return w.end(ctx, *end, last)
			}
		default:
			return w.end(ctx, *end, last)
		}
		if err != nil {
			return err
		}
	}
}

// replaceSession goes on with a new session, to which the conversation so far is told.
func (w *work) replaceSession(ctx context.Context) error {
	w.Metrics.SessionReplacements.Inc()
	w.event(ctx, telemetry.EventSessionReplaced, "session", w.turn.Session)
	if err := w.say(ctx, api.TurnEvent{Type: api.EventStatus, Status: "session_replaced",
		Message: "the agent's session is gone; a new one goes on with the messages so far"}); err != nil {
		return err
	}
	return w.beginAttempt(ctx, store.NewID(), false, w.place.Retried)
}

// retry tries once more: nothing of the turn was seen, so nothing is done twice.
// An end says that there is nothing to try it on.
func (w *work) retry(ctx context.Context, was *agent.End) (end *agent.End, err error) {
	w.Metrics.PromptRetries.Inc()
	w.event(ctx, telemetry.EventPromptRecoverableFail, "code", was.Code, "error", was.Message)
	if err := w.say(ctx, api.TurnEvent{Type: api.EventStatus, Status: "retrying", Code: was.Code, Message: was.Message}); err != nil {
		return nil, err
	}
	if end := w.ready(ctx); end != nil || ctx.Err() != nil {
		return end, context.Cause(ctx)
	}
	return nil, w.beginAttempt(ctx, w.turn.Session, w.turn.Resume, true)
}

// beginAttempt records an attempt, and in which incarnation of the sandbox it is made.
func (w *work) beginAttempt(ctx context.Context, session string, resume, retried bool) error {
	sb, err := w.box.Record(ctx)
	if err != nil {
		return err
	}
	p := place{Incarnation: sb.Incarnation, Retried: retried}
	t, err := w.Store.BeginAttempt(ctx, w.lease, w.turn.Seq, session, resume, p.with(nil))
	if err == nil {
		w.turn, w.place = t, p
		w.at("attempt", t.ID)
	}
	return err
}

// last is what the agent said last, which is stored together with its end.
type last struct {
	to     int64
	state  json.RawMessage
	events []api.TurnEvent
}

// end records how the agent's work ended, and the message that came of it.
func (w *work) end(ctx context.Context, end agent.End, l last) error {
	w.note(l.events...)
	if end.Status != api.TurnCompleted && !w.turn.CancelAt.IsZero() {
		end.Status, end.Code, end.Message = api.TurnCancelled, "", cmp.Or(w.turn.CancelReason, "cancelled")
	}
	if w.over && end.Status != api.TurnCompleted {
		end.Status, end.Code, end.Message = api.TurnFailed, api.CodeOutputLimit, "the agent wrote more than one turn may"
	}
	if end.Status != api.TurnCompleted {
		w.sweep(ctx)
	}
	if end.CostUSD == 0 && w.Price != nil {
		end.CostUSD = w.Price(end.Model, end.Usage)
	}
	if end.Status != api.TurnCompleted && end.Status != api.TurnCancelled {
		l.events = append(l.events, api.TurnEvent{Type: api.EventTurnError, Code: end.Code, Message: end.Message})
	}
	reply := w.reply(end)
	message, err := json.Marshal(reply)
	if err != nil {
		return err
	}
	text, err := json.Marshal(outcome{End: end, Reply: reply})
	if err != nil {
		return err
	}
	w.at("ended", w.turn.ID)
	events := encode(l.events)
	t, err := w.Store.EndTurn(ctx, w.lease, store.Ending{
		Append:  store.Append{After: w.turn.Seq, To: max(l.to, w.turn.ReadTo), State: w.place.with(l.state), Events: events},
		Outcome: text, Reply: message, Session: w.turn.Session, Used: w.turn.Attempt > 0 && !end.NoSession && end.Code != api.CodeAgentNotInstalled,
	})
	if err != nil {
		return err
	}
	w.turn = t
	w.tell(events)
	w.ended(ctx, end)
	return nil
}

// tell tells readers of events that were just stored.
func (w *work) tell(events [][]byte) {
	if len(events) > 0 {
		w.hub.publish(w.turn.ID, w.turn.Seq-int64(len(events))+1, events)
	}
}

// outcome is what is kept of an agent's work that ended, until the turn has finished.
type outcome struct {
	agent.End
	Reply api.Message
}

// reply is the assistant's message.
func (w *work) reply(end agent.End) api.Message {
	m := api.Message{
		ID: w.turn.Reply, ConversationID: w.turn.Conversation, TurnID: w.turn.ID, Role: api.RoleAssistant,
		Content: w.fold.Blocks(), Status: end.Status, Model: end.Model, Usage: end.Usage, CostUSD: store.Dollars(store.Nanos(end.CostUSD)),
		CreatedAt: time.Now().UTC().Truncate(time.Microsecond),
	}
	if m.Content == nil {
		m.Content = []api.Block{}
	}
	m.DurationMS = max(0, m.CreatedAt.Sub(w.turn.CreatedAt).Milliseconds())
	if end.Status != api.TurnCompleted {
		m.Error = end.Message
	}
	return m
}
