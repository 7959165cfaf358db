package remote

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/preview"
)

// socketTables are the files in which Linux lists the TCP sockets of this machine with their owners.
var socketTables = []string{"/proc/net/tcp", "/proc/net/tcp6"}

// peerCheck returns a check of the program at the other end of a connection to this machine. While Berth is down, any
// user can listen on its port and collect keys. Only root and the key's owner may get the key.
func peerCheck(owner uint32, tables ...string) func(net.Addr) error {
	return func(peer net.Addr) error {
		at, err := netip.ParseAddrPort(peer.String())
		if err != nil {
			return err
		}
		uids, known := listenersAt(at, tables)
		if !known || len(uids) > 0 && !slices.ContainsFunc(uids, func(uid uint32) bool { return uid != 0 && uid != owner }) {
			return nil
		}
		return ui.Hint(fmt.Errorf("the key in the data directory was not sent: %s", describeListeners(uids, owner)),
			"Find out which program has the port ('ss -ltnp' as root). To send a key all the same, set BERTH_API_KEY or give --key-file.")
	}
}

func describeListeners(uids []uint32, owner uint32) string {
	if len(uids) == 0 {
		return "no program of this machine is known to listen there"
	}
	return fmt.Sprintf("a program of user %d listens there, and the key belongs to user %d", slices.Max(uids), owner)
}

// listenersAt returns the users that listen at the address. known is false if the kernel's tables cannot be read.
func listenersAt(at netip.AddrPort, tables []string) (uids []uint32, known bool) {
	nearest := 1
	for _, table := range tables {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		known = true
		for line := range strings.Lines(string(text)) {
			local, uid, ok := preview.ParseListener(line)
			near := listenerRank(local, at)
			if !ok || near < nearest {
				continue
			}
			if near > nearest {
				nearest, uids = near, nil
			}
			uids = append(uids, uid)
		}
	}
	return uids, known
}

// listenerRank ranks listening sockets in the order in which the kernel gives them a connection: the socket of this
// address first, then those of all addresses, of the same family first. Zero means that the socket never gets the
// connection.
func listenerRank(local, at netip.AddrPort) int {
	ip := at.Addr().Unmap()
	switch all := local.Addr().IsUnspecified(); {
	case local.Port() != at.Port():
		return 0
	case local.Addr() == ip:
		return 3
	case all && local.Addr().Is4() == ip.Is4():
		return 2
	case all && ip.Is4():
		return 1
	}
	return 0
}
