package egress

import (
	"context"
	"net"
)

var public = guarded(guard{own: ownAddresses})

// DialPublic connects to public addresses of other machines and to nothing else. The address is judged as it
// is dialled, so that it does not matter what a name meant a moment before.
func DialPublic(ctx context.Context, network, address string) (net.Conn, error) {
	return public(ctx, network, address)
}
