package chat

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
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
)

// work holds the state of one turn while this process has its lease.
type work struct {
	*Service
	lease      store.Lease
	tenant     store.TenantID
	turn       store.Turn // as of the last write by this process
	handle     *engine.Handle
	before     sandbox.Sandbox // the sandbox's record before this turn used it; zero: there was none
	plan       Plan
	runtime    agent.Runtime
	redact     *redaction // nil: nothing is replaced in events
	fold       agent.Fold
	state      attemptState
	seen       bool  // an attempt has shown a text or a tool
	logged     int64 // bytes of the turn's log
	overLimit  bool  // the turn wrote more than its limit
	background sync.WaitGroup
	held       bool
	release    func()
}

// attemptState is stored in a turn's state: the runtime's own state, and facts about the attempt.
type attemptState struct {
	Incarnation int64           `json:"i,omitempty"` // the incarnation in which the agent was started
	Retried     bool            `json:"r,omitempty"` // this is the second attempt
	State       json.RawMessage `json:"s,omitempty"`
}

// with returns the state as JSON with a state of the runtime, which is left out if it is not valid JSON. It does not
// use json.Marshal because it runs for every event.
func (a attemptState) with(state json.RawMessage) json.RawMessage {
	text := fmt.Appendf(nil, `{"i":%d,"r":%t`, a.Incarnation, a.Retried)
	if json.Valid(state) {
		text = append(append(text, `,"s":`...), state...)
	}
	return append(text, '}')
}

// drive takes the turn's lease and runs the turn until it ends, the lease is lost or this process stops.
func (s *Service) drive(ctx context.Context, id string) {
	asked := time.Now()
	lease, t, ok, err := s.opts.Store.TurnRuns().Take(ctx, id, s.opts.Holder, s.opts.Host)
	if err != nil || !ok {
		if err != nil && ctx.Err() == nil {
			s.opts.Log.WarnContext(ctx, "take turn", "turn_id", id, "error", err)
		}
		return
	}
	ctx = telemetry.With(ctx, slog.String(telemetry.FieldTenant, string(t.Tenant)), slog.String("turn_id", t.ID),
		slog.String("conversation_id", t.Conversation), slog.String(telemetry.FieldSandboxID, t.Sandbox))
	held, stop := store.RenewLoop(ctx, s.opts.Store.Leases(), lease, s.opts.Store.LeaseTTL(), asked)
	w := &work{Service: s, lease: lease, tenant: t.Tenant, turn: t, handle: s.opts.Engine.Handle(string(t.Tenant), t.Sandbox, t.Actor), release: func() {}}
	err = w.run(held)
	if released := stop(); released != nil {
		s.opts.Log.WarnContext(ctx, "release lease; it runs out by itself", "error", released)
	}
	switch {
	case err == nil:
		s.wake() // another turn may wait for this turn's place
	case errors.Is(err, fault.ErrStale):
		s.opts.Log.InfoContext(ctx, "another server goes on with the turn")
	case ctx.Err() == nil:
		s.opts.Log.WarnContext(ctx, "the turn is not finished; it is tried again", "error", err)
	}
}

func (w *work) run(ctx context.Context) error {
	w.at("taken", w.turn.ID)
	if err := w.restore(ctx); err != nil {
		return err
	}
	defer func() { w.release() }()
	if sb, err := w.handle.Record(ctx); err == nil {
		w.before = sb
		w.hold(ctx)
	}
	if w.turn.Outcome == nil {
		if err := w.outcome(ctx); err != nil {
			return err
		}
	}
	return w.finish(ctx)
}

// hold keeps idle timers from stopping the sandbox while the turn runs. A sandbox that does not exist yet is held
// after its creation.
func (w *work) hold(ctx context.Context) {
	if !w.held {
		w.held, w.release = true, w.handle.Hold(ctx, "turn")
	}
}

// restore restores the state that the last holder stored.
func (w *work) restore(ctx context.Context) error {
	if err := w.reread(ctx); err != nil {
		return err
	}
	if len(w.turn.State) > 0 {
		if err := json.Unmarshal(w.turn.State, &w.state); err != nil {
			return fault.Errorf("recall turn", api.CodeInternal, "its state cannot be read: %w", err)
		}
	}
	return nil
}

// reread reads the log. The log may have more events than the turn's row counts.
func (w *work) reread(ctx context.Context) error {
	after := int64(0)
	for {
		parts, err := w.opts.Store.TurnRuns().ReadLog(ctx, w.turn.ID, after, readSize)
		if err != nil {
			return err
		}
		for _, p := range parts {
			for _, data := range p.Events {
				var e api.TurnEvent
				if err := json.Unmarshal(data, &e); err != nil {
					return fault.Errorf("recall turn", api.CodeInternal, "event %d of turn %s cannot be read: %w", after+1, w.turn.ID, err)
				}
				w.noteEvents(e)
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
		return fault.Errorf("recall turn", api.CodeInternal, "event %d of turn %s is missing", after+1, w.turn.ID)
	}
	return nil
}

// noteEvents updates the message and the facts about the turn from events of its log.
func (w *work) noteEvents(events ...api.TurnEvent) {
	for _, e := range events {
		switch e.Type {
		case api.EventText, api.EventTextDelta, api.EventToolCall, api.EventToolResult:
			w.seen = true
		}
		e.Raw = nil
		w.fold.Add(e)
	}
}

// say appends events of the server, which do not come from the agent's output but may repeat parts of it.
func (w *work) say(ctx context.Context, events ...api.TurnEvent) error {
	for i := range events {
		w.redact.clean(&events[i])
	}
	return w.append(ctx, w.turn.ReadTo, w.turn.State, events)
}

// append stores events together with the position in the agent's output that follows them.
func (w *work) append(ctx context.Context, to int64, state json.RawMessage, events []api.TurnEvent) error {
	a := store.Append{After: w.turn.Seq, To: to, State: state, Events: encode(events)}
	var err error
	if len(events) > 0 {
		err = w.log.append(ctx, store.TurnAppend{Lease: w.lease, Append: a})
	} else {
		_, err = w.opts.Store.TurnRuns().Advance(ctx, w.lease, a)
	}
	if err != nil {
		return err
	}
	w.noteEvents(events...)
	for _, data := range a.Events {
		w.logged += int64(len(data)) + 1
	}
	w.turn.Seq, w.turn.ReadTo, w.turn.State = w.turn.Seq+int64(len(events)), to, state
	return nil
}

// outcome runs attempts until the agent's work has ended, and records the end.
func (w *work) outcome(ctx context.Context) error {
	for {
		end, last, err := w.attempt(ctx)
		if err != nil {
			return err
		}
		now, err := w.opts.Store.In(w.turn.Tenant).Turns().Get(ctx, w.turn.ID)
		if err != nil {
			return err
		}
		w.turn.CancelAt, w.turn.CancelReason = now.CancelAt, now.CancelReason
		end.Message, end.StopReason, end.Model = w.redact.text(end.Message, true), w.redact.text(end.StopReason, true), w.redact.text(end.Model, true)
		switch again := now.CancelAt.IsZero(); {
		case again && end.NoSession && w.turn.Resume:
			err = w.replaceSession(ctx)
		case again && end.Again && !w.state.Retried && !w.seen: // the agent did no work, so a retry repeats nothing
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

// replaceSession prepares an attempt with a new session that starts with the conversation's history.
func (w *work) replaceSession(ctx context.Context) error {
	w.opts.Metrics.SessionReplacements.Inc()
	w.event(ctx, telemetry.EventSessionReplaced, "session", w.turn.Session)
	if err := w.say(ctx, api.TurnEvent{Type: api.EventStatus, Status: "session_replaced",
		Message: "the agent's session is gone; a new one goes on with the messages so far"}); err != nil {
		return err
	}
	return w.beginAttempt(ctx, store.NewID(), false, w.state.Retried)
}

// retry prepares a second attempt. The first attempt did no visible work, so nothing is done twice. retry returns an
// end if the sandbox cannot run.
func (w *work) retry(ctx context.Context, was *agent.End) (end *agent.End, err error) {
	w.opts.Metrics.PromptRetries.Inc()
	w.event(ctx, telemetry.EventPromptRecoverableFail, "code", was.Code, "error", was.Message)
	if err := w.say(ctx, api.TurnEvent{Type: api.EventStatus, Status: "retrying", Code: was.Code, Message: was.Message}); err != nil {
		return nil, err
	}
	if end, err := w.ready(ctx); end != nil || err != nil {
		return end, err
	}
	return nil, w.beginAttempt(ctx, w.turn.Session, w.turn.Resume, true)
}

// beginAttempt records the start of an attempt and the sandbox's incarnation.
func (w *work) beginAttempt(ctx context.Context, session string, resume, retried bool) error {
	sb, err := w.handle.Record(ctx)
	if err != nil {
		return err
	}
	p := attemptState{Incarnation: sb.Incarnation, Retried: retried}
	t, err := w.opts.Store.TurnRuns().BeginAttempt(ctx, w.lease, w.turn.Seq, session, resume, p.with(nil))
	if err == nil {
		w.turn, w.state = t, p
		w.at("attempt", t.ID)
	}
	return err
}

// last holds the agent's last output, which is stored together with the end.
type last struct {
	to     int64
	state  json.RawMessage
	events []api.TurnEvent
}

// end records the end of the agent's work and the assistant's message.
func (w *work) end(ctx context.Context, end agent.End, l last) error {
	w.noteEvents(l.events...)
	if end.Status != api.TurnCompleted && !w.turn.CancelAt.IsZero() {
		end.Status, end.Code, end.Message = api.TurnCancelled, "", cmp.Or(w.turn.CancelReason, "cancelled")
	}
	if w.overLimit && end.Status != api.TurnCompleted {
		end.Status, end.Code, end.Message = api.TurnFailed, api.CodeOutputLimit, "the agent wrote more than one turn may"
	}
	if end.Status != api.TurnCompleted {
		w.sweep(ctx)
	}
	if end.Usage, end.CostUSD = plausible(end.Usage, end.CostUSD, w.runTime()); end.Usage.Bounded {
		w.opts.Log.WarnContext(ctx, "the agent reported more than its turn can have used; the figures were cut", "usage", end.Usage, "cost_usd", end.CostUSD)
	}
	if end.CostUSD == 0 && w.opts.Price != nil {
		end.CostUSD = w.opts.Price(end.Model, end.Usage)
	}
	if end.Status != api.TurnCompleted && end.Status != api.TurnCancelled {
		l.events = append(l.events, api.TurnEvent{Type: api.EventTurnError, Code: end.Code, Message: end.Message})
	}
	reply := w.reply(end)
	message, err := json.Marshal(reply)
	if err != nil {
		return err
	}
	text, err := json.Marshal(outcome{End: end, Reply: &reply, display: w.collect(ctx)})
	if err != nil {
		return err
	}
	w.at("ended", w.turn.ID)
	events := encode(l.events)
	t, err := w.opts.Store.TurnRuns().End(ctx, w.lease, store.Ending{
		Append:  store.Append{After: w.turn.Seq, To: max(l.to, w.turn.ReadTo), State: w.state.with(l.state), Events: events},
		Outcome: text, Reply: message, Session: w.turn.Session, Used: w.turn.Attempt > 0 && !end.NoSession && end.Code != api.CodeAgentNotInstalled && end.Code != api.CodeSandboxOutdated,
	})
	if err != nil {
		return err
	}
	w.turn = t
	w.announce(events)
	w.ended(ctx, end)
	return nil
}

// announce sends stored events to the readers in this process.
func (w *work) announce(events [][]byte) {
	if len(events) > 0 {
		w.hub.publish(w.turn.ID, w.turn.Seq-int64(len(events))+1, events)
	}
}

// outcome is the end of the agent's work. Reply is stored until the turn has finished.
type outcome struct {
	agent.End
	Reply *api.Message `json:",omitempty"`
	display
}

// reply returns the assistant's message.
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
