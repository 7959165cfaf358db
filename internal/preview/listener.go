package preview

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

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

// Listeners returns the listening TCP sockets in the text of the kernel's tables, one for each port, sorted by port. The
// text comes from a sandbox, so lines may have any content.
func Listeners(text string) []netip.AddrPort {
	found := []netip.AddrPort{}
	for line := range strings.Lines(text) {
		at, _, ok := ParseListener(line)
		if ok && !slices.ContainsFunc(found, func(p netip.AddrPort) bool { return p.Port() == at.Port() }) {
			found = append(found, at)
		}
	}
	slices.SortFunc(found, func(a, b netip.AddrPort) int { return int(a.Port()) - int(b.Port()) })
	return found
}
