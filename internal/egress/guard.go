package egress

import (
	"net"
	"net/netip"
	"slices"
)

// guard decides which addresses a sandbox may connect to, independent of the name.
type guard struct {
	allow []netip.Prefix               // addresses that are allowed although they are not public
	own   func() ([]netip.Addr, error) // the addresses of this machine
}

// forbidden returns the reason to refuse an address, or an empty string for a public address of another machine. An
// IPv4-mapped IPv6 address counts as the IPv4 address.
func (g guard) forbidden(addr netip.Addr) string {
	if !addr.IsValid() || addr.Zone() != "" {
		return "a link-local address"
	}
	addr = addr.Unmap()
	if slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return ""
	}
	if words := special(addr); words != "" {
		return words
	}
	own, err := g.own()
	if err != nil || slices.Contains(own, addr) {
		// The connection would use the loopback and bypass the firewall. Servers that listen on all addresses would
		// accept it.
		return "an address of the machine that Berth runs on"
	}
	return ""
}

// special describes the kind of a special-purpose address. It returns an empty string for ordinary public addresses.
func special(addr netip.Addr) string {
	for _, s := range specials {
		if s.prefix.Contains(addr) {
			return s.words
		}
	}
	if addr.Is6() && (!global6.Contains(addr) || isatap(addr)) {
		return "a reserved address"
	}
	return ""
}

// global6 contains all public IPv6 addresses.
var global6 = netip.MustParsePrefix("2000::/3")

// isatap reports whether the lower half of an address contains an IPv4 address, to which ISATAP tunnels (RFC 5214).
func isatap(addr netip.Addr) bool {
	b := addr.As16()
	return b[8]&^0x02 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// specials are the special-purpose blocks of the IANA registries (RFC 6890 and its successors), all blocks whose
// addresses contain an IPv4 address, and addresses outside of them at which clouds serve metadata to their machines.
var specials = []struct {
	prefix netip.Prefix
	words  string
}{
	block("0.0.0.0/8", "an address of this machine itself"),
	block("10.0.0.0/8", "a private address"),
	block("100.64.0.0/10", "a carrier's private address"),
	block("127.0.0.0/8", "a loopback address"),
	block("168.63.129.16/32", "a cloud's own address"),
	block("169.254.0.0/16", "a link-local address"),
	block("172.16.0.0/12", "a private address"),
	block("192.0.0.0/24", "a reserved address"),
	block("192.0.2.0/24", "an address for documentation"),
	block("192.88.99.0/24", "a 6to4 relay"),
	block("192.168.0.0/16", "a private address"),
	block("198.18.0.0/15", "an address for benchmarks"),
	block("198.51.100.0/24", "an address for documentation"),
	block("203.0.113.0/24", "an address for documentation"),
	block("224.0.0.0/4", "a multicast address"),
	block("255.255.255.255/32", "a broadcast address"),
	block("240.0.0.0/4", "a reserved address"),

	block("::/128", "an address of this machine itself"),
	block("::1/128", "a loopback address"),
	block("::/96", "an IPv4 address inside an IPv6 address"),
	block("64:ff9b::/96", "an IPv4 address behind NAT64"),
	block("64:ff9b:1::/48", "an IPv4 address behind NAT64"),
	block("100::/64", "a discard address"),
	block("2001::/32", "a Teredo address"),
	block("2001::/23", "a reserved address"),
	block("2001:db8::/32", "an address for documentation"),
	block("2002::/16", "a 6to4 address"),
	block("3fff::/20", "an address for documentation"),
	block("fc00::/7", "a private address"),
	block("fe80::/10", "a link-local address"),
	block("fec0::/10", "a private address"),
	block("ff00::/8", "a multicast address"),
}

func block(prefix, words string) struct {
	prefix netip.Prefix
	words  string
} {
	return struct {
		prefix netip.Prefix
		words  string
	}{netip.MustParsePrefix(prefix), words}
}

// ownAddresses returns the addresses of this machine's interfaces. They can change, so they are not cached.
func ownAddresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var own []netip.Addr
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, p.Addr().Unmap())
		}
	}
	return own, nil
}
