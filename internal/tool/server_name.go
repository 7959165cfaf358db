package tool

import "strings"

// joint parts the name of a server from that of its tool. No built-in tool has it in its name, and no server:
// whatever a server calls its tools, it takes no name but its own.
const joint = "__"

// qualified is the name by which a server's tool is known.
func qualified(server, tool string) string { return server + joint + tool }

// split takes a name apart. It is false for those of built-in tools.
func split(name string) (server, tool string, ok bool) { return strings.Cut(name, joint) }
