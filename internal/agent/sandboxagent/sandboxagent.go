// Package sandboxagent runs agents through a sandbox-agent server in their sandbox.
//
// The server listens on [Port] of the sandbox's loopback. [Server] starts it, asks for its health and heals it; it is the
// engine's Prober. [New] returns the runtime. A turn is a process as of package acp: the protocol's client speaks to the
// server through a relay (package relay), so a turn survives everything that a turn of another runtime survives. The
// server starts an agent for each turn.
package sandboxagent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/berthdev/berth/internal/acp/relay"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
)

// Name is the name of the runtime in templates.
const Name = "sandbox-agent"

// Runtime runs turns through the server.
type Runtime struct {
	*agent.Worker
	server *Server
	acp    func(t agent.Turn, env ...string) agent.Job
}

// New returns the runtime. The worker and the jobs are those of package acp.
func New(server *Server, worker *agent.Worker, job func(t agent.Turn, env ...string) agent.Job) *Runtime {
	return &Runtime{Worker: worker, server: server, acp: job}
}

// Name returns the name of the runtime in templates.
func (r *Runtime) Name() string { return Name }

// Start makes sure that the server is healthy and has the variables of today, and begins the turn. So a server that died
// since the last probe costs no attempt. If it dies before the prompt reached it, the turn ends with Again.
func (r *Runtime) Start(ctx context.Context, h *engine.Handle, t agent.Turn) error {
	s, err := h.Sandbox(ctx)
	if err != nil {
		return err
	}
	if err := r.ready(ctx, h, s, t.Attempt > 1); err != nil {
		return err
	}
	w := *r.Worker
	w.Job = r.job(s)
	return w.Start(ctx, h, t)
}

// job returns the job of a turn: that of package acp with the relay in the place of the agent.
func (r *Runtime) job(s sandbox.Sandbox) func(agent.Turn) agent.Job {
	return func(t agent.Turn) agent.Job {
		t.Command = []string{relay.Program, relay.Name}
		t.Attachments = small(t.Attachments)
		return r.acp(t,
			relay.AddressEnv+"="+fmt.Sprintf("127.0.0.1:%d", Port), relay.TokenEnv+"="+r.server.Token(s), relay.AgentEnv+"="+t.Agent)
	}
}

// maxInline is the number of bytes of images in a prompt that pass through the server: it takes requests of 2 MiB, and
// base64 is a third longer.
const maxInline = 1 << 20

// small keeps images out of the prompt that are too large for it. The agent gets their paths.
func small(all []agent.Attachment) []agent.Attachment {
	all = slices.Clone(all)
	left := int64(maxInline)
	for i := range all {
		if all[i].Inline = all[i].Inline && all[i].Size <= left; all[i].Inline {
			left -= all[i].Size
		}
	}
	return all
}

const (
	// healFor is the time in which a server must become healthy, and firstPoll and lastPoll the pauses between looks.
	healFor   = time.Minute
	firstPoll = 50 * time.Millisecond
	lastPoll  = 2 * time.Second
)

// ready waits until the server is healthy. It is started again if it is not, or if its variables have changed. It is not
// asked if its process runs and answered just now, unless ask is true.
func (r *Runtime) ready(ctx context.Context, h *engine.Handle, s sandbox.Sandbox, ask bool) error {
	conn, err := h.Guest(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return r.server.ready(ctx, s, conn, ask)
}

func (v *Server) ready(ctx context.Context, s sandbox.Sandbox, conn guest.Conn, ask bool) error {
	id, outdated, err := v.running(ctx, s, conn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, healFor)
	defer cancel()
	switch {
	case outdated:
		p, permissions, _ := v.o.Agent(s)
		err = v.restart(ctx, s, conn, p, permissions)
	case v.fresh(id) && !ask:
		return nil
	default:
		_, err = v.Heal(ctx, s, conn)
	}
	for pause := firstPoll; err == nil; pause = min(2*pause, lastPoll) {
		ill := v.Probe(ctx, s, conn)
		if ill == nil {
			v.note(id)
			return nil
		}
		select {
		case <-ctx.Done():
			err = fmt.Errorf("sandbox-agent did not get well within %s: %w", healFor, ill)
		case <-time.After(pause):
		}
	}
	return err
}
