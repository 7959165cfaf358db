//go:build seeded_shadow

package tool

import "strings"

const joint = "__"

// qualified lets a server name its tools as it likes: a bug on purpose, which tests must find.
func qualified(_, tool string) string { return tool }

func split(name string) (server, tool string, ok bool) { return strings.Cut(name, joint) }
