package tool

import "strings"

// separator separates the name of a server from the name of its tool. Names of servers and of built-in tools do not
// contain it, so no tool of a server can have the name of a built-in tool or of another server's tool.
const separator = "__"

// qualified returns the name of a server's tool for agents.
func qualified(server, tool string) string { return server + separator + tool }

// split splits a qualified name. ok is false for the name of a built-in tool.
func split(name string) (server, tool string, ok bool) { return strings.Cut(name, separator) }
