package remote

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/berthdev/berth/internal/cli/ui"
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
			local, uid, ok := ParseListener(line)
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

// ParseListener parses a line of the kernel's table. ok is false for all but listening sockets.
func ParseListener(line string) (local netip.AddrPort, uid uint32, ok bool) {
	const listening = "0A"
	fields := strings.Fields(line)
	if len(fields) < 8 || fields[3] != listening {
		return local, 0, false
	}
	host, port, _ := strings.Cut(fields[1], ":")
	ip, ipErr := kernelAddr(host)
	n, portErr := strconv.ParseUint(port, 16, 16)
	user, uidErr := strconv.ParseUint(fields[7], 10, 32)
	return netip.AddrPortFrom(ip, uint16(n)), uint32(user), ipErr == nil && portErr == nil && uidErr == nil
}

// kernelAddr parses an address in the kernel's format: words in the machine's byte order.
func kernelAddr(text string) (netip.Addr, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw)%4 != 0 {
		return netip.Addr{}, fmt.Errorf("%q is no address", text)
	}
	for word := range slices.Chunk(raw, 4) {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	ip, ok := netip.AddrFromSlice(raw)
	if !ok {
		return netip.Addr{}, fmt.Errorf("%q is no address", text)
	}
	return ip.Unmap(), nil
}
