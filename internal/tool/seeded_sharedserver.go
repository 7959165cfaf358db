//go:build seeded_sharedserver

package tool

import "github.com/berthdev/berth/internal/sandbox"

// keyOf forgets the sandbox, so that one uses the server of another: a bug on purpose, which tests must find.
func keyOf(s sandbox.Sandbox, server string) serverKey { return serverKey{server: server} }
