package claudecli

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/agent"
)

// server is an MCP server in the CLI's configuration.
type server struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env,omitempty"`
	Timeout int64             `json:"timeout,omitempty"` // for each call, in milliseconds
}

// servers returns the CLI's configuration for MCP servers, and the environment that makes the CLI wait until they have
// started. By default the CLI asks the model before that, and a turn might never see their tools.
func servers(all map[string]agent.Server) (config []byte, env []string) {
	if len(all) == 0 {
		return nil, nil
	}
	longest := time.Duration(0)
	known := map[string]server{}
	for name, s := range all {
		known[name] = cliServer(s)
		longest = max(longest, s.Timeout)
	}
	config, _ = json.Marshal(map[string]any{"mcpServers": known})
	env = []string{"MCP_CONNECTION_NONBLOCKING=0"}
	if ms := longest.Milliseconds(); ms > 0 {
		env = append(env, fmt.Sprintf("MCP_TIMEOUT=%d", ms), fmt.Sprintf("MCP_CONNECT_TIMEOUT_MS=%d", ms))
	}
	return config, env
}

func cliServer(s agent.Server) server {
	out := server{Command: literal(s.Command[0]), Args: []string{}, Env: maps.Clone(s.Env), Timeout: s.Timeout.Milliseconds()}
	for _, arg := range s.Command[1:] {
		out.Args = append(out.Args, literal(arg))
	}
	for name, value := range out.Env {
		out.Env[name] = literal(value)
	}
	return out
}

// literal escapes a text so that the CLI does not replace variables in it. The CLI has no escape for "${"; it replaces
// ${NAME:-default} by the default, which is a dollar sign here.
func literal(text string) string { return strings.ReplaceAll(text, "${", "${BERTH_UNSET:-$}{") }
