package tool

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
)

// Progress is how far an MCP server inside a sandbox says that a call is.
type Progress struct {
	Progress float64
	Total    float64 // zero: not known
	Message  string
}

type progressKey struct{}

// WithProgress returns a context whose calls of MCP servers report their progress. The function is called by what
// reads the server's answers: it must not wait.
func WithProgress(ctx context.Context, report func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// follow has the wire pass the progress of one call on. The token is what the server repeats; nil if no progress
// is asked for.
func (w *wire) follow(ctx context.Context) (token any, stop func()) {
	report, _ := ctx.Value(progressKey{}).(func(Progress))
	if report == nil {
		return nil, func() {}
	}
	name := "berth-" + strconv.FormatInt(w.tokens.Add(1), 10)
	w.reports.Store(name, report)
	return name, func() { w.reports.Delete(name) }
}

// progress passes a notice of progress on to the call it names. What is not one of a call under way is passed over.
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
		report.(func(Progress))(Progress{p.Progress, p.Total, plain(clip(p.Message, notes/2))})
	}
}
