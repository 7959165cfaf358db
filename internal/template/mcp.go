package template

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
)

// MCPServer is a tool server that runs inside the sandbox and speaks MCP over stdin and stdout.
type MCPServer struct {
	Command Command           `toml:"command"`
	Env     map[string]string `toml:"env"`     // in addition to the environment of all commands
	Timeout Duration          `toml:"timeout"` // default for its start and for each call
}

const (
	maxServers    = 8
	maxServerTime = time.Hour
)

// serverName matches names without double underscores, and without an underscore at either end: a double underscore
// separates the server's name from the tool's name.
var serverName = regexp.MustCompile(`^[a-z0-9]+([_-][a-z0-9]+)*$`)

// MCPServers returns the MCP servers of a template by name. An unknown template has none.
func (r *Registry) MCPServers(name string) map[string]MCPServer {
	return cloneServers(r.all[name].MCPServers)
}

func cloneServers(servers map[string]MCPServer) map[string]MCPServer {
	all := maps.Clone(servers)
	for name, s := range all {
		s.Command, s.Env = slices.Clone(s.Command), maps.Clone(s.Env)
		all[name] = s
	}
	return all
}

func (c *checker) checkMCPServers() {
	if n := len(c.MCPServers); n > maxServers {
		c.refuse("mcp_servers", "", fmt.Sprintf("are %d, more than %d", n, maxServers), "write fewer")
		return
	}
	for _, name := range sortedKeys(c.MCPServers) {
		s, key := c.MCPServers[name], "mcp_servers."+name
		if len(name) > 32 || !serverName.MatchString(name) {
			c.refuse("mcp_servers", name, "is no name of a server", "write up to 32 of a-z, 0-9, and single '-' and '_' between them")
			continue
		}
		switch {
		case len(s.Command) == 0 || s.Command[0] == "":
			c.refuse(key+".command", "", "is missing", `write a list, such as ["prog", "arg"], or text for the shell`)
		case slices.ContainsFunc(s.Command, func(arg string) bool { return strings.ContainsRune(arg, 0) }):
			c.refuse(key+".command", "", "has a NUL in it", "write plain text")
		}
		if err := sandbox.CheckEnv(s.Env); err != nil {
			c.refuse(key+".env", "", "cannot be used: "+err.Error(), "correct it")
		}
		if time.Duration(s.Timeout) < 0 || time.Duration(s.Timeout) > maxServerTime {
			c.refuse(key+".timeout", time.Duration(s.Timeout).String(), "is no time that a call may take", "write at most 1h")
		}
	}
}
