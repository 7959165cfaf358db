package app

import (
	"cmp"
	"time"

	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/agent/acp"
	"github.com/berthdev/berth/internal/agent/claudecli"
	"github.com/berthdev/berth/internal/agent/demo"
	"github.com/berthdev/berth/internal/agent/lines"
	"github.com/berthdev/berth/internal/agent/sandboxagent"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/tool"
)

// openChat creates the service that keeps conversations and runs turns.
func (s *System) openChat() {
	s.chat = chat.New(chat.Options{
		Store: s.store, Engine: s.engine, Outbox: s.outbox, Transcript: s.messages, TranscriptInStore: s.cfg.MessageStore == "",
		Runtimes: s.runtimes(), Plan: s.turnPlan, Hooks: s.hooks, Saver: saver{s}, Secrets: s.turnSecrets, MissingKey: s.templates.MissingKey, Price: s.cfg.Prices.Of,
		DefaultTemplate: s.cfg.DefaultTemplate, DeleteSandbox: s.cfg.DeleteSandboxWithConversation,
		MaxTurns: int64(s.cfg.Caps().TurnsPerTenant), Timeout: s.cfg.TurnTimeout, MaxLog: s.cfg.MaxTurnBytes, KeepLog: s.cfg.EventRetention,
		Attachments: chat.AttachmentLimits{
			Count: s.cfg.MaxPromptAttachments, File: s.cfg.MaxAttachmentBytes, Prompt: s.cfg.MaxPromptAttachmentBytes, Waiting: s.cfg.MaxWaitingAttachmentBytes,
		},
		Metrics: s.metrics, Log: s.log, At: s.opts.At, Host: s.engine.Host(),
	})
}

func (s *System) runtimes() map[string]agent.Runtime {
	all := map[string]agent.Runtime{}
	for _, r := range []agent.Runtime{acp.New(), claudecli.New(), demo.New(), lines.New(), sandboxagent.New(s.agentServers, acp.New(), acp.Job)} {
		all[r.Name()] = r
	}
	return all
}

// turnPlan returns a template's settings for turns.
func (s *System) turnPlan(name string) (chat.Plan, error) {
	t, err := s.templates.Lookup(name)
	return chat.Plan{
		Runtime: t.Runtime, Agent: t.Agent, Command: t.AgentCommand, Permissions: t.Permissions, Model: t.Model, Models: t.Models,
		MaxConcurrent: int64(max(t.Turns, 1)), Servers: serversFor(t.MCPServers),
	}, err
}

// serversFor converts a template's MCP servers to the agents' type.
func serversFor(all map[string]template.MCPServer) map[string]agent.Server {
	out := map[string]agent.Server{}
	for name, s := range all {
		out[name] = agent.Server{Command: s.Command, Env: s.Env, Timeout: cmp.Or(time.Duration(s.Timeout), tool.ServerTime)}
	}
	return out
}
