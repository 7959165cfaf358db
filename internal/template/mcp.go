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

// MCPServer is a server of tools that is started inside the sandbox and speaks MCP over its input and
// output.
type MCPServer struct {
	Command Command           `toml:"command"`
	Env     map[string]string `toml:"env"`     // besides what every command in the sandbox has
	Timeout Duration          `toml:"timeout"` // of its start, and of each call that does not say
}

const (
	mostServers    = 8
	mostServerTime = time.Hour
)

// serverName has no two underscores in a row, nor one at an end: those part a server's name from its tool's.
var serverName = regexp.MustCompile(`^[a-z0-9]+([_-][a-z0-9]+)*$`)

// MCPServers are the servers of tools that a template declares, by name. An unknown template has none.
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
	if n := len(c.MCPServers); n > mostServers {
		c.refuse("mcp_servers", "", fmt.Sprintf("are %d, more than %d", n, mostServers), "write fewer")
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
		if time.Duration(s.Timeout) < 0 || time.Duration(s.Timeout) > mostServerTime {
			c.refuse(key+".timeout", time.Duration(s.Timeout).String(), "is no time that a call may take", "write at most 1h")
		}
	}
}
