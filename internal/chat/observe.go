package chat

import (
	"context"
	"log/slog"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/telemetry"
)

// event logs an event that alerts are based on, with the owner of the sandbox.
func (w *work) event(ctx context.Context, name string, about ...any) {
	if sb, err := w.handle.Record(ctx); err == nil {
		ctx = telemetry.With(ctx, slog.String(telemetry.FieldOwnerKind, string(sb.Owner.Kind)), slog.String(telemetry.FieldOwnerID, sb.Owner.ID))
	}
	w.opts.Log.InfoContext(ctx, name, about...)
}

// ended records the end of the agent's work in metrics and events. It is called once for each turn, after the end is
// stored.
func (w *work) ended(ctx context.Context, end agent.End) {
	took := max(0, time.Since(w.turn.CreatedAt))
	w.opts.Metrics.ObserveTurn(telemetry.Turn{
		Status: end.Status, Took: took, Input: end.Usage.InputTokens, Output: end.Usage.OutputTokens,
		CacheRead: end.Usage.CacheReadTokens, CacheWrite: end.Usage.CacheWriteTokens, CostUSD: end.CostUSD,
	})
	switch end.Status {
	case api.TurnCompleted:
		w.event(ctx, telemetry.EventPromptOK, "duration_ms", took.Milliseconds(), "retried", w.state.Retried)
	case api.TurnCancelled: // counts as neither success nor failure
	default:
		w.event(ctx, telemetry.EventPromptFatalFail, "status", end.Status, "code", end.Code, "error", end.Message, "retried", w.state.Retried)
	}
}
