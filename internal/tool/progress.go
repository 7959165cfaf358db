package tool

import (
	"context"
	"encoding/json"
	"math"
	"strconv"

	"github.com/berthdev/berth/internal/fault"
)

// Progress is a progress report of an MCP server for a call.
type Progress struct {
	Progress float64
	Total    float64 // zero: unknown
	Message  string
}

type progressKey struct{}

// WithProgress returns a context whose calls of MCP servers call report with their progress. report must not block: it
// runs in the goroutine that reads the server's messages.
func WithProgress(ctx context.Context, report func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// follow makes the wire report the progress of a call until stop. The server repeats token in its reports. token is nil
// if the context does not ask for progress.
func (w *wire) follow(ctx context.Context) (token any, stop func()) {
	report, _ := ctx.Value(progressKey{}).(func(Progress))
	if report == nil {
		return nil, func() {}
	}
	name := "berth-" + strconv.FormatInt(w.tokens.Add(1), 10)
	w.reports.Store(name, report)
	return name, func() { w.reports.Delete(name) }
}

// progress passes a progress notification to the call with its token. It ignores a notification for any other call.
func (w *wire) progress(params json.RawMessage) {
	var p struct {
		ProgressToken   string
		Progress, Total float64
		Message         string
	}
	if json.Unmarshal(params, &p) != nil || math.IsInf(p.Progress, 0) || math.IsNaN(p.Progress) || p.Progress < 0 {
		return
	}
	if report, ok := w.reports.Load(p.ProgressToken); ok {
		report.(func(Progress))(Progress{p.Progress, p.Total, plain(fault.Clip(p.Message, notes/2))})
	}
}
