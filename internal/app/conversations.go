package app

import (
	"cmp"
	"context"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/agent/claudecli"
	"github.com/berthdev/berth/internal/agent/demo"
	"github.com/berthdev/berth/internal/conversation"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/tool"
	"github.com/berthdev/berth/internal/turn"
)

// openConversations makes what runs turns and keeps conversations. The two need each other: turns ask
// conversations for their sandbox and their history.
func (s *System) openConversations(metrics *telemetry.Metrics) {
	s.turns = turn.New(turn.Options{
		Store: s.Store, Boxes: s.box, Runtimes: runtimes(), Plan: s.turnPlan, Hooks: s.Hooks, Saver: saver{s},
		Deliver:  func(ctx context.Context, t store.Turn) error { return s.conversations.Deliver(ctx, t) },
		History:  func(ctx context.Context, t store.Turn) ([]api.Message, error) { return s.conversations.History(ctx, t) },
		Price:    s.cfg.Prices.Of,
		MaxTurns: int64(s.cfg.Caps().TurnsPerTenant), Timeout: s.cfg.TurnTimeout, MaxLog: s.cfg.MaxTurnBytes, KeepLog: s.cfg.EventRetention,
		Metrics: metrics, Log: s.log, At: s.At, Host: s.Engine.Host,
	})
	s.conversations = conversation.New(conversation.Options{
		Store: s.Store, Engine: s.Engine, Turns: s.turns, Transcript: s.messages, Here: s.cfg.MessageStore == "",
		Outbox: s.Outbox, Template: s.cfg.DefaultTemplate, DeleteSandbox: s.cfg.DeleteSandboxWithConversation, Log: s.log,
	})
}

func runtimes() map[string]agent.Runtime {
	all := map[string]agent.Runtime{}
	for _, r := range []agent.Runtime{claudecli.New(), demo.New()} {
		all[r.Name()] = r
	}
	return all
}

// turnPlan is what a template says about turns.
func (s *System) turnPlan(name string) (turn.Plan, error) {
	t, err := s.templates.Lookup(name)
	return turn.Plan{Runtime: t.Runtime, Command: t.AgentCommand, Places: int64(max(t.Turns, 1)), Servers: serversFor(t.MCPServers)}, err
}

// serversFor are a template's MCP servers as agents take them.
func serversFor(all map[string]template.MCPServer) map[string]agent.Server {
	out := map[string]agent.Server{}
	for name, s := range all {
		out[name] = agent.Server{Command: s.Command, Env: s.Env, Timeout: cmp.Or(time.Duration(s.Timeout), tool.ServerTime)}
	}
	return out
}

// box is a turn's sandbox.
func (s *System) box(t store.Turn) turn.Box {
	return &box{Handle: s.Engine.Handle(string(t.Tenant), t.Sandbox, t.Actor), s: s, turn: t}
}

type box struct {
	*engine.Handle
	s    *System
	turn store.Turn
}

// Ready makes the sandbox run.
func (b *box) Ready(ctx context.Context) (sandbox.Sandbox, error) {
	return b.s.conversations.Bring(ctx, b.turn)
}

// Record is the sandbox as it is.
func (b *box) Record(ctx context.Context) (sandbox.Sandbox, error) {
	return b.s.Store.In(b.turn.Tenant).ByID(ctx, b.turn.Sandbox)
}

// Command adds what every command in the sandbox has.
func (b *box) Command(cmd guest.Cmd) guest.Cmd {
	sb, err := b.Record(context.Background())
	if err != nil {
		return cmd // the command will not run either
	}
	return b.Handle.Command(sb, cmd)
}
