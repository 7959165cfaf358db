package app

import (
	"context"

	"github.com/berthdev/berth/internal/acp/profile"
	"github.com/berthdev/berth/internal/agent/sandboxagent"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template"
)

// openAgentServers prepares the servers of agents in sandboxes. Their tokens derive from sandbox_agent_token if it is
// set, and from the root secret otherwise.
func (s *System) openAgentServers(root auth.Secret) {
	key := []byte(s.cfg.SandboxAgentToken.Reveal())
	if len(key) == 0 {
		key = root.Derive("tokens of servers of agents")
	}
	s.agentServers = sandboxagent.NewServer(sandboxagent.Options{
		Key: key, Agent: agentOfServer(s.templates), Prompt: promptOfServer(s.templates),
		Command: func(ctx context.Context, sb sandbox.Sandbox, cmd guest.Cmd) (guest.Cmd, error) {
			return s.engine.HandleAt(sb, driver.ID(sb.Instance)).Command(ctx, cmd)
		},
	})
}

// agentOfServer returns the agent that a server in a sandbox runs. It is not ok if the sandbox has no server.
func agentOfServer(templates *template.Registry) func(sandbox.Sandbox) (profile.Profile, string, bool) {
	return func(sb sandbox.Sandbox) (p profile.Profile, permissions string, ok bool) {
		t, err := templates.Lookup(sb.Spec.Template)
		if err != nil || t.Runtime != template.RuntimeServer {
			return p, "", false
		}
		p, ok = profile.Find(t.Agent)
		return p, t.Permissions, ok
	}
}

// promptOfServer returns the instructions of the template's file, or the default ones.
func promptOfServer(templates *template.Registry) func(sandbox.Sandbox) (string, error) {
	return func(sb sandbox.Sandbox) (string, error) {
		t, err := templates.Lookup(sb.Spec.Template)
		if err != nil || t.PromptFile == "" {
			return sandboxagent.Prompt, err
		}
		return template.ReadPrompt(t.PromptFile)
	}
}

// prober returns the first that is set: what the options name, or the agents' servers.
func prober(given engine.Prober, servers *sandboxagent.Server) engine.Prober {
	if given != nil || servers == nil {
		return given
	}
	return servers
}
