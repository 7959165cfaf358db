package chat

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// doneHooks is the finish step that is recorded when the turn's hooks have run.
const doneHooks = "hooks"

// finish runs the steps after the agent's work, each of them once, and ends the turn. It waits only a short time for
// the save of the workspace and the hooks after it: they continue after the end of the turn.
func (w *work) finish(ctx context.Context) error {
	var out outcome
	if err := json.Unmarshal(w.turn.Outcome, &out); err != nil {
		return fault.Errorf("finish turn", api.CodeInternal, "its outcome cannot be read: %w", err)
	}
	if out.Reply == nil {
		return fault.Errorf("finish turn", api.CodeInternal, "its outcome has no message")
	}
	w.at("finishing", w.turn.ID)
	warnings := w.deliver(ctx, out)
	if out.Problem != "" {
		warnings = append(warnings, out.Problem)
	}
	until := time.Now().Add(saveWait)
	if !slices.Contains(w.turn.Done, doneHooks) {
		d, more, err := w.hooks(ctx, out)
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err // the turn is tried again
		}
		until = time.Now().Add(saveWait)
		var owed *store.Save
		if d != nil {
			if owed, err = w.newSave(ctx, d, until); err != nil {
				return err
			}
		}
		w.at("before-mark", w.turn.ID)
		t, err := w.opts.Store.TurnRuns().RecordFinishSteps(ctx, w.lease, []string{doneHooks}, append(warnings, more...), owed)
		if err != nil {
			return err
		}
		w.turn.Done, w.turn.Saving, w.turn.Warnings = t.Done, t.Saving, t.Warnings
		w.at("owed", w.turn.ID)
	}
	if err := w.awaitSave(ctx, until); err != nil {
		return err
	}
	return w.close(ctx, out)
}

// close appends the last event and frees the turn's place in its sandbox.
func (w *work) close(ctx context.Context, out outcome) error {
	c, err := w.opts.Store.In(w.turn.Tenant).Conversation(ctx, w.turn.Conversation)
	if err != nil && !errors.Is(err, fault.ErrDeleted) {
		return err
	}
	stats, now, warnings := c.Stats.Stats(), time.Now().UTC().Truncate(time.Microsecond), w.turn.Warnings
	if w.turn.Saving {
		warnings = append(warnings, unsavedWarning)
	}
	events := [][]byte{mustJSON(api.TurnEvent{
		Type: api.EventTurnFinished, ConversationID: sandbox.PublicID(w.turn.Conversation), SandboxID: sandbox.PublicID(w.turn.Sandbox), TurnID: w.turn.ID, MessageID: w.turn.Reply,
		Status: out.Status, Code: out.Code, Message: out.Message, StopReason: out.StopReason, Model: out.Model,
		Session: w.turn.Session, Usage: &out.Usage, CostUSD: out.Reply.CostUSD,
		Artifacts: artifactsOf(w.turn, out.display), Stats: &stats, Version: w.turn.Version, VersionPending: w.turn.Saving, Warnings: warnings, At: &now,
	})}
	text, err := json.Marshal(outcome{End: out.End, display: out.display})
	if err != nil {
		return err
	}
	t, err := w.opts.Store.TurnRuns().Finish(ctx, w.lease, out.Status, text, store.Append{After: w.turn.Seq, To: w.turn.ReadTo, Events: events}, w.addUsage(ctx, out.Usage))
	if err != nil {
		return err
	}
	w.turn = t
	w.announce(events)
	w.free(ctx, t.Tenant, t.ID)
	w.at("finished", t.ID)
	w.opts.Log.InfoContext(ctx, "turn finished", "status", out.Status, "code", out.Code, "version", t.Version, "model", out.Model,
		"input_tokens", out.Usage.InputTokens, "output_tokens", out.Usage.OutputTokens, "cache_read_tokens", out.Usage.CacheReadTokens,
		"cache_write_tokens", out.Usage.CacheWriteTokens, "cost_usd", out.Reply.CostUSD, "duration_ms", out.Reply.DurationMS)
	return nil
}

// addUsage returns a function that adds a turn's tokens to the metadata of its sandbox, unless the template drops that.
func (w *work) addUsage(ctx context.Context, u api.Usage) func(map[string]string) {
	if w.opts.Hooks != nil {
		if sb, err := w.handle.Record(ctx); err == nil && w.opts.Hooks.Drops(sb.Spec.Template, hook.Tally) {
			return func(map[string]string) {}
		}
	}
	return func(metadata map[string]string) {
		for key, n := range map[string]int64{
			"total_input_tokens": u.InputTokens, "total_output_tokens": u.OutputTokens, "total_cache_tokens": u.CacheReadTokens + u.CacheWriteTokens,
		} {
			sum, _ := strconv.ParseInt(metadata[key], 10, 64)
			metadata[key] = strconv.FormatInt(sum+n, 10)
		}
	}
}

// undeliveredWarning is the warning of a turn that ends before its answer is in the message store.
const undeliveredWarning = "the answer is kept, and could not be brought to the message store yet. The server goes on trying; " +
	"if it lasts, have the message store checked with 'berth doctor'"

// deliver sends the assistant's message to the message store. If that fails, it returns a warning.
func (w *work) deliver(ctx context.Context, out outcome) (warnings []string) {
	if !w.flushMessages(ctx, out.Reply.ID) {
		return []string{undeliveredWarning}
	}
	return nil
}

// flushMessages sends the conversation's messages to the message store, and reports whether it has them. It waits only
// for a short time, because the outbox keeps them until they are stored. The id is that of the newest message.
func (w *work) flushMessages(ctx context.Context, id string) bool {
	patience := flushTime
	if w.storeFailed.Load() {
		patience = reflushTime
	}
	brief, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := w.untilDelivered(brief)
	if w.storeFailed.Store(err != nil); err != nil {
		w.opts.Log.ErrorContext(ctx, "store message; it is kept and tried again", "message_id", id, "error", err)
	}
	return err == nil
}

// untilDelivered sends the conversation's messages to the message store, and waits for those that the outbox is sending.
func (w *work) untilDelivered(ctx context.Context) error {
	for {
		if err := w.opts.Outbox.Flush(ctx, w.turn.Conversation); err != nil {
			return err
		}
		if n, _, err := w.opts.Store.In(w.tenant).Outgoing().Count(ctx, w.turn.Conversation); n == 0 || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// hooks runs the hooks for the answer and the hooks after the turn that come before the save. If no save follows, it
// also runs the hooks after the save. The data is nil if the server has no hooks.
func (w *work) hooks(ctx context.Context, out outcome) (d *hook.Data, warnings []string, err error) {
	if w.opts.Hooks == nil {
		return nil, nil, nil
	}
	if d, err = w.data(ctx, *out.Reply); err != nil {
		return nil, nil, err
	}
	w.opts.Hooks.Message(ctx, d)
	d.Usage, d.Status, d.Version = out.Usage, out.Status, ""
	warnings = w.opts.Hooks.StreamFinish(ctx, d)
	if !w.saves(d.Record) && ctx.Err() == nil && w.opts.Hooks.Pushes(d.Record.Spec.Template) {
		warnings = append(warnings, w.opts.Hooks.AfterPush(ctx, d)...)
	}
	if ctx.Err() == nil {
		w.remember(ctx, w.turn.Tenant, d)
	}
	return d, warnings, nil
}

// saves reports whether the workspace is saved after the turn. A turn whose agent was never started has changed
// nothing.
func (w *work) saves(sb sandbox.Sandbox) bool {
	return w.turn.Attempt > 0 && w.opts.Saver != nil && sb.Instance != "" && w.opts.Hooks.Pushes(sb.Spec.Template) && w.opts.Saver.Saves(sb)
}

// data returns the input of hooks for a message.
func (w *work) data(ctx context.Context, m api.Message) (*hook.Data, error) {
	sb, err := w.handle.Record(ctx)
	if err != nil && !errors.Is(err, fault.ErrNotFound) && !errors.Is(err, fault.ErrDeleted) {
		return nil, err
	}
	return &hook.Data{Record: sb, Handle: w.opts.Engine.HandleAt(sb, driver.ID(sb.Instance)), ConversationID: w.turn.Conversation,
		TurnID: w.turn.ID, Message: m, Usage: m.Usage, Status: m.Status}, nil
}

// remember stores the stats and metadata that hooks have returned.
func (s *Service) remember(ctx context.Context, tenant store.TenantID, d *hook.Data) {
	in := s.opts.Store.In(tenant)
	if stats := d.Stats(); len(stats) > 0 {
		if err := in.SetExtra(ctx, d.ConversationID, stats); err != nil {
			s.opts.Log.ErrorContext(ctx, "store what hooks counted", "error", err)
		}
	}
	if metadata := d.Metadata(); len(metadata) > 0 {
		if err := in.AddMetadata(ctx, d.Record.ID, metadata); err != nil {
			s.opts.Log.ErrorContext(ctx, "store what hooks noted", "error", err)
		}
	}
}
