//go:build !seeded_sharedserver

package tool

import "github.com/berthdev/berth/internal/sandbox"

// keyOf names a server in one life of one sandbox: what was started in an earlier one is not there any more.
func keyOf(s sandbox.Sandbox, server string) serverKey {
	return serverKey{s.Owner.Tenant, s.ID, s.Incarnation, s.StartedAt.UnixNano(), server}
}
