package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// host is a name or an address in its canonical spelling.
type host struct {
	text string     // a name in lower case and ASCII, without a trailing dot; or the address
	addr netip.Addr // valid if it is an address
}

// target is the destination of a request.
type target struct {
	host host
	port uint16
}

func (t target) String() string {
	return net.JoinHostPort(t.host.text, strconv.Itoa(int(t.port)))
}

// authority returns the target in the form of a Host header of plain HTTP: without the default port 80.
func (t target) authority() string {
	if t.port != 80 {
		return t.String()
	}
	if t.host.addr.Is6() {
		return "[" + t.host.text + "]"
	}
	return t.host.text
}

// parseTarget parses host:port. port is the default port; if it is 0, the text must contain a port.
func parseTarget(text string, port uint16) (target, error) {
	name := text
	if i := strings.LastIndexByte(text, ':'); i > strings.LastIndexByte(text, ']') {
		given, err := parsePort(text[i+1:])
		if err != nil {
			return target{}, err
		}
		name, port = text[:i], given
	}
	if port == 0 {
		return target{}, errors.New("there is no port")
	}
	inner, bracketed := strings.CutPrefix(name, "[")
	if bracketed {
		name, bracketed = strings.CutSuffix(inner, "]")
	}
	if bracketed != strings.Contains(name, ":") {
		return target{}, errors.New("an IPv6 address, and nothing else, is written in brackets")
	}
	h, err := parseHost(name)
	return target{host: h, port: port}, err
}

// parseHost converts a name or an address to its canonical spelling. It refuses spellings that some resolvers read as
// an address and others as a name.
func parseHost(text string) (host, error) {
	if strings.Contains(text, ":") {
		return parseIPv6(text)
	}
	name, err := asciiName(strings.TrimSuffix(text, "."))
	if err != nil {
		return host{}, err
	}
	if err := checkName(name); err != nil {
		return host{}, err
	}
	if !endsInNumber(name) {
		return host{text: name}, nil
	}
	addr, err := netip.ParseAddr(name)
	if err != nil {
		return host{}, errors.New("an IPv4 address is written as four decimal numbers without leading zeros")
	}
	return host{text: addr.String(), addr: addr}, nil
}

func parseIPv6(text string) (host, error) {
	addr, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return host{}, errors.New("that is no IPv6 address")
	case addr.Zone() != "":
		return host{}, errors.New("an address with a zone belongs to one link only")
	case addr.Is4In6():
		return host{}, errors.New("an IPv4 address is written as one, not inside an IPv6 address")
	}
	return host{text: addr.String(), addr: addr}, nil
}

// checkName checks a name against the rules of DNS. It also allows underscores.
func checkName(name string) error {
	if len(name) > 253 {
		return errors.New("a name has at most 253 characters")
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" {
			return errors.New("the name is empty or has an empty part")
		}
		if len(label) > 63 {
			return errors.New("a part of a name has at most 63 characters")
		}
		if label[0] == '-' || label[len(label)-1] == '-' {
			return errors.New("a part of a name does not begin or end with a hyphen")
		}
		if i := strings.IndexFunc(label, notInName); i >= 0 {
			return fmt.Errorf("a name does not contain %q", label[i])
		}
	}
	return nil
}

func notInName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_')
}

// endsInNumber reports whether the last part of a name is a decimal, octal or hexadecimal number. Programs that use
// the C library read such a host as an IPv4 address (2852039166, 0xa9fea9fe, 0251.0376.43518).
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}
