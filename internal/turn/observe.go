package turn

import (
	"context"
	"log/slog"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/telemetry"
)

// event logs one of the events that alerts are built on, with the owner of the sandbox.
func (w *work) event(ctx context.Context, name string, about ...any) {
	if sb, err := w.box.Record(ctx); err == nil {
		ctx = telemetry.With(ctx, slog.String(telemetry.FieldOwnerKind, string(sb.Owner.Kind)), slog.String(telemetry.FieldOwnerID, sb.Owner.ID))
	}
	w.Log.InfoContext(ctx, name, about...)
}

// ended records how the agent's work ended. It is called once for each turn, after that was stored.
func (w *work) ended(ctx context.Context, end agent.End) {
	took := max(0, time.Since(w.turn.CreatedAt))
	w.Metrics.ObserveTurn(telemetry.Turn{
		Status: end.Status, Took: took, Input: end.Usage.InputTokens, Output: end.Usage.OutputTokens,
		CacheRead: end.Usage.CacheReadTokens, CacheWrite: end.Usage.CacheWriteTokens, CostUSD: end.CostUSD,
	})
	switch end.Status {
	case api.TurnCompleted:
		w.event(ctx, telemetry.EventPromptOK, "duration_ms", took.Milliseconds(), "retried", w.place.Retried)
	case api.TurnCancelled: // neither: it was asked for
	default:
		w.event(ctx, telemetry.EventPromptFatalFail, "status", end.Status, "code", end.Code, "error", end.Message, "retried", w.place.Retried)
	}
}
