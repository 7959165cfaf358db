package tool

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template"
)

// Servers are the MCP servers that templates declare, as they run in sandboxes for this program. Each program
// that works with a sandbox has its own: a server's input and output cannot be shared. A server starts when it
// is first used, serves any number of calls at once, and ends a while after the last of them, with its
// sandbox, or with this program.
type Servers struct {
	declared func(template string) map[string]template.MCPServer
	idle     time.Duration
	wait     time.Duration // for what is asked for its tools
	most     int           // at once, and half as many of one tenant

	mu      sync.Mutex
	running map[serverKey]*session
	closed  bool
}

// How long a server is kept that nobody uses, and how many there are at once.
const (
	keepServer  = time.Minute
	mostServers = 256
)

// serverKey names a server in one life of one sandbox: a server that was started in an earlier life is gone.
type serverKey struct {
	tenant, sandbox      string
	incarnation, started int64
	server               string
}

func keyOf(s sandbox.Sandbox, server string) serverKey {
	return serverKey{s.Owner.Tenant, s.ID, s.Incarnation, s.StartedAt.UnixNano(), server}
}

// NewServers makes the servers that templates declare: a registry tells.
func NewServers(declared func(template string) map[string]template.MCPServer) *Servers {
	return &Servers{declared: declared, idle: keepServer, wait: listTime, most: mostServers, running: map[serverKey]*session{}}
}

// Close ends all of them, and those who wait for one.
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
		s.cut()
	}
	for _, s := range all {
		<-s.gone
	}
}

// enter finds a server of the sandbox, or starts it. Whoever enters has to leave.
func (p *Servers) enter(ctx context.Context, box Box, server string) (*session, error) {
	sb, err := box.Sandbox(ctx)
	if err != nil {
		return nil, err
	}
	spec, ok := p.declared(sb.Spec.Template)[server]
	if !ok {
		return nil, p.unknown(sb.Spec.Template, server)
	}
	s, err := p.find(ctx, box, sb, keyOf(sb, server), spec)
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

func (p *Servers) find(ctx context.Context, box Box, sb sandbox.Sandbox, key serverKey, spec template.MCPServer) (*session, error) {
	conn, err := box.Guest(ctx) // also thaws a sandbox whose server is there
	if err != nil {
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
		s = launch(key, spec, conn, command(box, sb, spec), p.drop)
		p.running[key] = s
	} else {
		_ = conn.Close()
	}
	if s.users++; s.idle != nil {
		s.idle.Stop()
	}
	return s, nil
}

// room makes room for one more: the one that was not used for longest has to go.
func (p *Servers) room(tenant string) error {
	if p.closed {
		return sandbox.Errorf("start MCP server", api.CodeShuttingDown, "this server is about to go")
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
		e := sandbox.Errorf("start MCP server", api.CodeQuotaExceeded, "there are too many MCP servers at work")
		e.Hint = "Wait until some of their calls are done."
		return e
	case len(p.running) >= p.most:
		p.retire(oldest)
	}
	return nil
}

// leave is for who has entered. The last one starts the clock.
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

// expire retires a session that has no users any more.
func (p *Servers) expire(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.users == 0 {
		p.retire(s)
	}
}

// drop is retire for who does not have the lock.
func (p *Servers) drop(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retire(s)
}

// retire lets nobody enter any more. The session ends when all have left.
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

// unknown says which servers there are.
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
	return sandbox.Errorf("find tool", api.CodeUnknownTool, "the sandbox has no MCP server %s; %s", quoted(clip(server, 100)), list)
}
