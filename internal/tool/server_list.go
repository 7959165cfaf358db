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
	"github.com/berthdev/berth/internal/sandbox"
)

// What is taken of a server's list of tools.
const (
	mostTools      = 128
	mostPages      = 32
	maxDescription = 4_000
	maxSchema      = 64 << 10  // of one tool
	maxSchemas     = 512 << 10 // of all
)

// How long a list waits for a server, and how long it holds.
const (
	listTime  = 20 * time.Second
	listHolds = time.Minute
)

// toolName is what clients take as the name of a tool.
var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// inventory is what a server says it has.
type inventory struct {
	mu      sync.Mutex
	tools   []api.Tool // by their qualified names
	left    []string   // what was not taken, and why
	fetched time.Time
}

// fetch asks the server.
func (v *inventory) fetch(ctx context.Context, s *session) error {
	s.wire.said.Store(0)
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
	v.tools, v.left, v.fetched = take.tools, take.left, time.Now()
	return nil
}

// list is what the server has, as it said a moment ago or says now.
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
	return v.tools, v.left, nil
}

// intake takes the tools of a list that can be passed on.
type intake struct {
	server string
	tools  []api.Tool
	left   []string
	names  map[string]bool
	size   int
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
		if len(in.left) < maxBad {
			in.left = append(in.left, shown(clip(t.Name, 80))+" "+why)
		}
		return
	}
	in.names[t.Name] = true
	in.size += len(schema)
	in.tools = append(in.tools, api.Tool{Name: qualified(in.server, t.Name), Description: plain(clip(t.Description, maxDescription)), InputSchema: schema})
}

// list is what all servers of a template have. What is wrong with one is told, and hinders nothing else.
func (p *Servers) list(ctx context.Context, box Box) (tools []api.Tool, servers []api.ToolServer, err error) {
	name, err := box.Template(ctx)
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
		all.Go(func() { of[i], servers[i] = p.listOne(ctx, box, server) })
	}
	all.Wait()
	return slices.Concat(of...), servers, nil
}

func (p *Servers) listOne(ctx context.Context, box Box, server string) ([]api.Tool, api.ToolServer) {
	s, err := p.enter(ctx, box, server)
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

// problemText is why a server's tools are not there, as its users may read it.
func problemText(err error) string {
	if no, ok := errors.AsType[*refusal](err); ok {
		return clip(no.text, 2*notes)
	}
	if e, ok := errors.AsType[*sandbox.Error](guestError(err)); ok {
		return clip(explain(e), 2*notes)
	}
	return clip(err.Error(), 2*notes)
}
