package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
)

// Limits of a server's list of tools.
const (
	mostTools      = 128
	mostPages      = 32
	maxDescription = 4_000
	maxSchema      = 64 << 10  // bytes of the schema of one tool
	maxSchemas     = 512 << 10 // bytes of the schemas of all tools
)

const (
	listTime  = 20 * time.Second // the timeout of a list of all servers
	listHolds = time.Minute      // the time for which a server's list is cached
)

// toolName matches the tool names that clients accept.
var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// inventory is the cached list of a server's tools.
type inventory struct {
	mu      sync.Mutex
	tools   []api.Tool // with their qualified names
	omitted []string   // names of tools that were left out, with the reason
	fetched time.Time
}

// fetch reads the list from the server.
func (v *inventory) fetch(ctx context.Context, s *session) error {
	s.wire.received.Store(0)
	s.wire.changed.Store(false)
	take := &intake{server: s.key.server, names: map[string]bool{}}
	cursor := ""
	for range mostPages {
		page, err := s.client.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		if err != nil {
			return err
		}
		for _, t := range page.Tools {
			take.add(t)
		}
		if cursor = page.NextCursor; cursor == "" || len(take.tools) == mostTools {
			break
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tools, v.omitted, v.fetched = take.tools, take.omitted, time.Now()
	return nil
}

// list returns the tools of the server and the omitted ones. It fetches the list if it is older than holds, or if the
// server has announced a change.
func (v *inventory) list(ctx context.Context, s *session, holds time.Duration) ([]api.Tool, []string, error) {
	v.mu.Lock()
	old := time.Since(v.fetched) >= holds
	v.mu.Unlock()
	if old || s.wire.changed.Load() {
		if err := v.fetch(ctx, s); err != nil {
			return nil, nil, refuse("The MCP server %s does not tell its tools: %s", s.key.server, s.why(ctx, err))
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.tools, v.omitted, nil
}

// intake collects the tools of a server's list that agents can use.
type intake struct {
	server  string
	tools   []api.Tool
	omitted []string // names of tools that were left out, with the reason
	names   map[string]bool
	size    int // bytes of all schemas
}

func (in *intake) add(t *sdk.Tool) {
	schema, _ := json.Marshal(t.InputSchema) // it came as JSON
	object, _ := t.InputSchema.(map[string]any)
	why := ""
	switch {
	case !toolName.MatchString(t.Name):
		why = "has a name that cannot be used"
	case in.names[t.Name]:
		why = "is there twice"
	case object["type"] != "object":
		why = "has a schema that is no object's"
	case len(schema) > maxSchema, in.size+len(schema) > maxSchemas:
		why = "has too large a schema"
	case len(in.tools) == mostTools:
		why = fmt.Sprintf("is one more than %d", mostTools)
	}
	if why != "" {
		if len(in.omitted) < maxBad {
			in.omitted = append(in.omitted, shown(fault.Clip(t.Name, 80))+" "+why)
		}
		return
	}
	in.names[t.Name] = true
	in.size += len(schema)
	in.tools = append(in.tools, api.Tool{Name: qualified(in.server, t.Name), Description: plain(fault.Clip(t.Description, maxDescription)), InputSchema: schema})
}

// list returns the tools of all servers of the sandbox's template. If a server fails, its problem is in servers, and
// the tools of the others are listed.
func (p *Servers) list(ctx context.Context, h *engine.Handle) (tools []api.Tool, servers []api.ToolServer, err error) {
	name, err := h.Template(ctx)
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for server := range p.declared(name) {
		names = append(names, server)
	}
	slices.Sort(names)
	ctx, cancel := context.WithTimeoutCause(ctx, p.wait, errTime)
	defer cancel()
	of, servers := make([][]api.Tool, len(names)), make([]api.ToolServer, len(names))
	var all sync.WaitGroup
	for i, server := range names {
		all.Go(func() { of[i], servers[i] = p.listOne(ctx, h, server) })
	}
	all.Wait()
	return slices.Concat(of...), servers, nil
}

func (p *Servers) listOne(ctx context.Context, h *engine.Handle, server string) ([]api.Tool, api.ToolServer) {
	s, err := p.enter(ctx, h, server)
	if err != nil {
		return nil, api.ToolServer{Name: server, Problem: problemText(err)}
	}
	defer p.leave(s)
	tools, left, err := s.tools.list(ctx, s, listHolds)
	if err != nil {
		p.drop(s)
		return nil, api.ToolServer{Name: server, Problem: problemText(err)}
	}
	problem := ""
	if len(left) > 0 {
		problem = "Left out: " + strings.Join(left, "; ") + "."
	}
	return tools, api.ToolServer{Name: server, Tools: len(tools), Problem: problem}
}

// problemText returns the error of a server in a form for users.
func problemText(err error) string {
	if no, ok := errors.AsType[*refusal](err); ok {
		return fault.Clip(no.text, 2*notes)
	}
	if e, ok := errors.AsType[*fault.Error](guestError(err)); ok {
		return fault.Clip(explain(e), 2*notes)
	}
	return fault.Clip(err.Error(), 2*notes)
}
