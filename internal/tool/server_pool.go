package tool

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template"
)

// Servers runs the MCP servers that templates declare, inside sandboxes. If several Berth servers use one sandbox, each
// starts its own process of an MCP server, because the input and output of a process cannot be shared. A process starts
// at its first use and serves any number of calls at once. It ends when it was idle for a while, with its sandbox, or
// with this program.
type Servers struct {
	declared func(template string) map[string]template.MCPServer
	idle     time.Duration // the time for which an idle process is kept
	wait     time.Duration // the timeout of a list of tools
	most     int           // the maximum number of processes; one tenant may use half of them at once

	mu      sync.Mutex
	running map[serverKey]*session
	closed  bool
}

// The defaults of Servers.idle and Servers.most.
const (
	keepServer  = time.Minute
	mostServers = 256
)

// serverKey identifies a process of an MCP server: the sandbox, one start of the sandbox, and the name of the server. A
// process ends when its sandbox stops.
type serverKey struct {
	tenant, sandbox      string
	incarnation, started int64
	server               string
}

func keyOf(s sandbox.Sandbox, server string) serverKey {
	return serverKey{s.Owner.Tenant, s.ID, s.Incarnation, s.StartedAt.UnixNano(), server}
}

// NewServers returns Servers without a process. declared returns the MCP servers of a template by their names.
func NewServers(declared func(template string) map[string]template.MCPServer) *Servers {
	return &Servers{declared: declared, idle: keepServer, wait: listTime, most: mostServers, running: map[serverKey]*session{}}
}

// Close ends all processes. Calls in progress fail, and no process starts any more.
func (p *Servers) Close() {
	p.mu.Lock()
	p.closed = true
	all := make([]*session, 0, len(p.running))
	for _, s := range p.running {
		all = append(all, s)
		p.retire(s)
	}
	p.mu.Unlock()
	for _, s := range all {
		_ = s.wire.Close()
		s.kill()
	}
	for _, s := range all {
		<-s.gone
	}
}

// enter returns the session of a server of the sandbox. It starts the server if it does not run. The caller must call
// leave.
func (p *Servers) enter(ctx context.Context, h *engine.Handle, server string) (*session, error) {
	sb, err := h.Sandbox(ctx)
	if err != nil {
		return nil, err
	}
	spec, ok := p.declared(sb.Spec.Template)[server]
	if !ok {
		return nil, p.unknown(sb.Spec.Template, server)
	}
	s, err := p.findOrLaunch(ctx, h, keyOf(sb, server), spec)
	if err != nil {
		return nil, err
	}
	select {
	case <-s.ready:
		err = s.failed
	case <-ctx.Done():
		err = ctx.Err()
		if overtime(ctx) {
			err = refuse("The MCP server %s is not ready yet. Try again in a moment.%s", server, s.lastWords())
		}
	}
	if err != nil {
		p.leave(s)
		return nil, err
	}
	return s, nil
}

func (p *Servers) findOrLaunch(ctx context.Context, h *engine.Handle, key serverKey, spec template.MCPServer) (*session, error) {
	conn, err := h.Guest(ctx) // always, because it thaws a frozen sandbox
	if err != nil {
		return nil, err
	}
	cmd, err := command(ctx, h, spec)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.running[key]
	if s == nil {
		if err := p.room(key.tenant); err != nil {
			_ = conn.Close()
			return nil, err
		}
		s = launch(key, spec, conn, cmd, p.drop)
		p.running[key] = s
	} else {
		_ = conn.Close()
	}
	if s.users++; s.idle != nil {
		s.idle.Stop()
	}
	return s, nil
}

// room makes room for one more process. If there are too many, it ends the one that has been idle for the longest time,
// or returns an error if none is idle.
func (p *Servers) room(tenant string) error {
	if p.closed {
		return fault.Errorf("start MCP server", api.CodeShuttingDown, "this server is about to go")
	}
	var oldest *session
	own := 0
	for _, s := range p.running {
		if s.key.tenant == tenant && s.users > 0 {
			own++
		}
		if s.users == 0 && (oldest == nil || s.used.Before(oldest.used)) {
			oldest = s
		}
	}
	switch {
	case own >= (p.most+1)/2, len(p.running) >= p.most && oldest == nil:
		e := fault.Errorf("start MCP server", api.CodeQuotaExceeded, "there are too many MCP servers at work")
		e.Hint = "Wait until some of their calls are done."
		return e
	case len(p.running) >= p.most:
		p.retire(oldest)
	}
	return nil
}

// leave ends the use of a session after enter. After the last user, the idle timer starts.
func (p *Servers) leave(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.users--; s.users > 0 {
		return
	}
	s.used = time.Now()
	if s.retired {
		go s.end()
		return
	}
	s.idle = time.AfterFunc(p.idle, func() { p.expire(s) })
}

// expire retires a session if it has no users.
func (p *Servers) expire(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.users == 0 {
		p.retire(s)
	}
}

// drop is retire for callers without the lock.
func (p *Servers) drop(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retire(s)
}

// retire removes a session, so that it gets no new users. The session ends when its last user leaves. The caller holds
// the lock.
func (p *Servers) retire(s *session) {
	if s.retired {
		return
	}
	s.retired = true
	if p.running[s.key] == s {
		delete(p.running, s.key)
	}
	if s.users == 0 {
		go s.end()
	}
}

// unknown returns the error for a server that the template does not have. The error lists those that it has.
func (p *Servers) unknown(template, server string) error {
	names := make([]string, 0, mostServers)
	for name := range p.declared(template) {
		names = append(names, name)
	}
	slices.Sort(names)
	list := "its template has none"
	if len(names) > 0 {
		list = "there are " + strings.Join(names, ", ")
	}
	return fault.Errorf("find tool", api.CodeUnknownTool, "the sandbox has no MCP server %s; %s", quoted(fault.Clip(server, 100)), list)
}
