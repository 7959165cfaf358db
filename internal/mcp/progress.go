package mcp

import (
	"context"
	"fmt"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/berthdev/berth/internal/tool"
)

// reportEvery is the interval of progress notifications.
const reportEvery = time.Second

// reporter sends the progress of one call: the seconds it has run, until an MCP server inside the sandbox reports
// its own progress.
type reporter struct {
	use    *use
	req    *sdk.CallToolRequest
	begun  time.Time
	latest chan tool.Progress // the newest report of the MCP server; it replaces one that was not sent yet

	sent   float64 // the last progress that was sent; the protocol requires that progress increases
	inside bool    // the MCP server has reported progress
	base   float64 // the value of sent before the first report of the MCP server
}

// report sends progress until stop. The tools called with the returned context can report their own progress.
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

// take stores a report of the MCP server, without waiting. A slow caller misses reports and does not delay the server.
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
			return // the caller has closed the connection, which also ends the call
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

// innerStep returns the notification for a report of the MCP server. It adds the seconds that were sent before the first
// report, so that progress always increases.
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
