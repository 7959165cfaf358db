package mcp

import (
	"context"
	"fmt"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/berthdev/berth/internal/tool"
)

// reportEvery is how often a caller that asked for progress hears that its call goes on.
const reportEvery = time.Second

// reporter sends the progress of one call: the seconds it has run, until an MCP server inside the sandbox reports
// its own progress.
type reporter struct {
	use    *use
	req    *sdk.CallToolRequest
	begun  time.Time
	latest chan tool.Progress // the newest of the server inside; one that was not sent yet is replaced

	sent   float64 // progress only grows, as the protocol has it
	inside bool    // the server inside reports
	base   float64 // was sent before it did
}

// report sends progress until it is stopped. The context returned takes that of a server inside.
func (u *use) report(ctx context.Context, req *sdk.CallToolRequest) (_ context.Context, stop func()) {
	if !u.streams || req.Params.GetProgressToken() == nil {
		return u.ctx, func() {}
	}
	r := &reporter{use: u, req: req, begun: time.Now(), latest: make(chan tool.Progress, 1)}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { r.run(ctx) })
	return tool.WithProgress(u.ctx, r.take), func() { cancel(); wg.Wait() }
}

// take never waits: a caller that reads slowly misses steps, and does not slow the server down.
func (r *reporter) take(p tool.Progress) {
	for {
		select {
		case r.latest <- p:
			return
		default:
		}
		select {
		case <-r.latest:
		default:
		}
	}
}

func (r *reporter) run(ctx context.Context) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		var p *sdk.ProgressNotificationParams
		select {
		case <-ctx.Done():
			return
		case inner := <-r.latest:
			p = r.innerStep(inner)
		case <-tick.C:
			p = r.timeStep()
		}
		if p == nil || p.Progress <= r.sent {
			continue
		}
		r.sent, p.ProgressToken = p.Progress, r.req.Params.GetProgressToken()
		if r.req.Session.NotifyProgress(ctx, p) != nil {
			return // the caller is gone, which ends the call as well
		}
	}
}

func (r *reporter) timeStep() *sdk.ProgressNotificationParams {
	if r.inside {
		return nil
	}
	took := time.Since(r.begun)
	return &sdk.ProgressNotificationParams{Progress: took.Seconds(), Message: fmt.Sprintf("%.100s has run for %s", r.req.Params.Name, took.Round(time.Second))}
}

// innerStep continues from the seconds that were sent before the server's first report.
func (r *reporter) innerStep(inner tool.Progress) *sdk.ProgressNotificationParams {
	if !r.inside {
		r.inside, r.base = true, r.sent
	}
	p := &sdk.ProgressNotificationParams{Progress: r.base + inner.Progress, Message: inner.Message}
	if inner.Total > 0 {
		p.Total = r.base + inner.Total
	}
	return p
}
