package claudecli

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/agent"
)

// server is an MCP server as the CLI's configuration has it.
type server struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env,omitempty"`
	Timeout int64             `json:"timeout,omitempty"` // of a call, in milliseconds
}

// servers is the CLI's configuration for MCP servers, and what it must have in its environment to heed it.
// Left to itself the CLI asks the model before its servers have started, and a turn might never see their tools.
func servers(all map[string]agent.Server) (config []byte, env []string) {
	if len(all) == 0 {
		return nil, nil
	}
	longest := time.Duration(0)
	known := map[string]server{}
	for name, s := range all {
		known[name] = serverOut(s)
		longest = max(longest, s.Timeout)
	}
	config, _ = json.Marshal(map[string]any{"mcpServers": known})
	env = []string{"MCP_CONNECTION_NONBLOCKING=0"}
	if ms := longest.Milliseconds(); ms > 0 {
		env = append(env, fmt.Sprintf("MCP_TIMEOUT=%d", ms), fmt.Sprintf("MCP_CONNECT_TIMEOUT_MS=%d", ms))
	}
	return config, env
}

func serverOut(s agent.Server) server {
	out := server{Command: literal(s.Command[0]), Args: []string{}, Env: maps.Clone(s.Env), Timeout: s.Timeout.Milliseconds()}
	for _, arg := range s.Command[1:] {
		out.Args = append(out.Args, literal(arg))
	}
	for name, value := range out.Env {
		out.Env[name] = literal(value)
	}
	return out
}

// literal keeps the CLI from putting variables of its own into a text: it replaces ${NAME:-default} and has
// no other way to write a dollar before a brace.
func literal(text string) string { return strings.ReplaceAll(text, "${", "${BERTH_UNSET:-$}{") }
