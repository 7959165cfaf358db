package turn

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// doneHooks marks a turn whose hooks were run.
const doneHooks = "hooks"

// finish does what comes after the agent's work, each thing once, and ends the turn. The save of the workspace,
// and the hooks behind it, are only waited for a moment: they go on behind the turn.
func (w *work) finish(ctx context.Context) error {
	var out outcome
	if err := json.Unmarshal(w.turn.Outcome, &out); err != nil {
		return sandbox.Errorf("finish turn", api.CodeInternal, "its outcome cannot be read: %w", err)
	}
	w.at("finishing", w.turn.ID)
	warnings := w.deliver(ctx, out)
	until := time.Now().Add(saveWait)
	if !slices.Contains(w.turn.Done, doneHooks) {
		d, more, err := w.hooks(ctx, out)
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err // it is tried again
		}
		until = time.Now().Add(saveWait)
		var owed *store.Save
		if d != nil {
			if owed, err = w.owe(ctx, d, until); err != nil {
				return err
			}
		}
		w.at("before-mark", w.turn.ID)
		t, err := w.Store.MarkTurn(ctx, w.lease, []string{doneHooks}, append(warnings, more...), owed)
		if err != nil {
			return err
		}
		w.turn.Done, w.turn.Saving, w.turn.Warnings = t.Done, t.Saving, t.Warnings
		w.at("owed", w.turn.ID)
	}
	if err := w.await(ctx, until); err != nil {
		return err
	}
	return w.close(ctx, out)
}

// close appends the last event and frees the turn's place.
func (w *work) close(ctx context.Context, out outcome) error {
	c, err := w.Store.In(w.turn.Tenant).Conversation(ctx, w.turn.Conversation)
	if err != nil && !errors.Is(err, sandbox.ErrDeleted) {
		return err
	}
	stats, now, warnings := c.Stats.Stats(), time.Now().UTC().Truncate(time.Microsecond), w.turn.Warnings
	if w.turn.Saving {
		warnings = append(warnings, unsaved)
	}
	events := [][]byte{mustJSON(api.TurnEvent{
		Type: api.EventTurnFinished, ConversationID: w.turn.Conversation, SandboxID: w.turn.Sandbox, TurnID: w.turn.ID, MessageID: w.turn.Reply,
		Status: out.Status, Code: out.Code, Message: out.Message, Model: out.Model, Session: w.turn.Session, Usage: &out.Usage, CostUSD: out.Reply.CostUSD,
		Stats: &stats, Version: w.turn.Version, VersionPending: w.turn.Saving, Warnings: warnings, At: &now,
	})}
	outcome, err := json.Marshal(out.End)
	if err != nil {
		return err
	}
	t, err := w.Store.FinishTurn(ctx, w.lease, out.Status, outcome, store.Append{After: w.turn.Seq, To: w.turn.ReadTo, Events: events}, used(out.Usage))
	if err != nil {
		return err
	}
	w.turn = t
	w.tell(events)
	w.free(ctx, t.Tenant, t.ID)
	w.at("finished", t.ID)
	w.Log.InfoContext(ctx, "turn finished", "status", out.Status, "code", out.Code, "version", t.Version, "model", out.Model,
		"input_tokens", out.Usage.InputTokens, "output_tokens", out.Usage.OutputTokens, "cache_read_tokens", out.Usage.CacheReadTokens,
		"cache_write_tokens", out.Usage.CacheWriteTokens, "cost_usd", out.Reply.CostUSD, "duration_ms", out.Reply.DurationMS)
	return nil
}

// used adds a turn's tokens to the metadata of its sandbox.
func used(u api.Usage) func(map[string]string) {
	return func(metadata map[string]string) {
		for key, n := range map[string]int64{
			"total_input_tokens": u.InputTokens, "total_output_tokens": u.OutputTokens, "total_cache_tokens": u.CacheReadTokens + u.CacheWriteTokens,
		} {
			sum, _ := strconv.ParseInt(metadata[key], 10, 64)
			metadata[key] = strconv.FormatInt(sum+n, 10)
		}
	}
}

// deliverTime is how long a turn's end waits for its answer to be stored; it is kept anyway.
const deliverTime = 2 * time.Second

// deliver brings the assistant's message to where messages are kept.
func (w *work) deliver(ctx context.Context, out outcome) (warnings []string) {
	brief, cancel := context.WithTimeout(ctx, deliverTime)
	defer cancel()
	if err := w.Deliver(brief, w.turn); err != nil {
		w.Log.ErrorContext(ctx, "store message; it is kept and tried again", "message_id", out.Reply.ID, "error", err)
		return []string{"the answer is kept, and could not be brought to the message store yet: " + err.Error()}
	}
	return nil
}

// hooks runs what is to be done for the answer and after the turn, up to the save. Where nothing is saved that is
// all. The data is nil where there are no hooks.
func (w *work) hooks(ctx context.Context, out outcome) (d *hook.Data, warnings []string, err error) {
	if w.Hooks == nil {
		return nil, nil, nil
	}
	if d, err = w.data(ctx, out.Reply); err != nil {
		return nil, nil, err
	}
	w.Hooks.Message(ctx, d)
	d.Usage, d.Status, d.Version = out.Usage, out.Status, ""
	warnings = w.Hooks.StreamFinish(ctx, d)
	if !w.saves(d.Record) && ctx.Err() == nil && w.Hooks.Pushes(d.Record.Spec.Template) {
		warnings = append(warnings, w.Hooks.AfterPush(ctx, d)...)
	}
	if ctx.Err() == nil {
		w.remember(ctx, w.turn.Tenant, d)
	}
	return d, warnings, nil
}

// saves reports whether a save of the workspace comes after the turn.
func (w *work) saves(sb sandbox.Sandbox) bool {
	return w.Saver != nil && sb.Instance != "" && w.Hooks.Pushes(sb.Spec.Template) && w.Saver.Saves(sb)
}

// data is what hooks are told of a message.
func (w *work) data(ctx context.Context, m api.Message) (*hook.Data, error) {
	sb, err := w.box.Record(ctx)
	if err != nil && !errors.Is(err, sandbox.ErrNotFound) && !errors.Is(err, sandbox.ErrDeleted) {
		return nil, err
	}
	return &hook.Data{Record: sb, ConversationID: w.turn.Conversation, TurnID: w.turn.ID, Message: m, Usage: m.Usage, Status: m.Status}, nil
}

// remember stores what hooks want remembered.
func (s *Service) remember(ctx context.Context, tenant store.TenantID, d *hook.Data) {
	in := s.Store.In(tenant)
	if stats := d.Stats(); len(stats) > 0 {
		if err := in.SetExtra(ctx, d.ConversationID, stats); err != nil {
			s.Log.ErrorContext(ctx, "store what hooks counted", "error", err)
		}
	}
	if metadata := d.Metadata(); len(metadata) > 0 {
		if err := in.AddMetadata(ctx, d.Record.ID, metadata); err != nil {
			s.Log.ErrorContext(ctx, "store what hooks noted", "error", err)
		}
	}
}
