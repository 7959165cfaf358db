package egress

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// allRule is the rule that allows every public address.
const allRule = "all"

// Rules is a list of the hosts and ports that a sandbox may connect to. The zero value allows nothing. Rules do not
// check the addresses to which a name resolves; the proxy does that separately.
type Rules struct {
	all  bool
	list []rule
}

// rule allows one host, or the subdomains of one, on some ports.
type rule struct {
	host       string   // in the canonical spelling of parseHost
	subdomains bool     // the rule matches the subdomains of host, not host itself
	anyPort    bool     // the rule allows every port
	ports      []uint16 // the allowed ports, unless anyPort
}

// ParseRules reads rules as templates write them:
//
//	example.com:443      one name, one port
//	example.com          one name, ports 80 and 443
//	example.com:*        one name, every port
//	*.example.com:443    the subdomains of example.com, not example.com itself
//	198.51.100.7:8080    an address; it does not match names that resolve to it
//	[2001:db8::7]:443    an IPv6 address
//	all                  every name and every public address
//
// The error names every invalid rule.
func ParseRules(texts []string) (Rules, error) {
	var rules Rules
	var bad []error
	for _, text := range texts {
		if strings.EqualFold(strings.TrimSpace(text), allRule) {
			rules.all = true
			continue
		}
		r, err := parseRule(strings.TrimSpace(text))
		if err != nil {
			bad = append(bad, fmt.Errorf("egress rule %q: %w", text, err))
			continue
		}
		rules.list = append(rules.list, r)
	}
	if len(bad) > 0 {
		return Rules{}, errors.Join(bad...)
	}
	return rules, nil
}

// Allow reports whether the rules allow a connection. The host is a name or an address. A host that cannot be
// parsed is not allowed.
func (r Rules) Allow(host string, port uint16) bool {
	h, err := parseHost(host)
	return err == nil && r.allow(target{host: h, port: port})
}

func (r Rules) allow(t target) bool {
	if t.port == 0 {
		return false
	}
	if r.all {
		return true
	}
	for _, rule := range r.list {
		if rule.matches(t) {
			return true
		}
	}
	return false
}

func (r rule) matches(t target) bool {
	if r.subdomains {
		// An address never ends in a name, so addresses do not match here.
		return strings.HasSuffix(t.host.text, "."+r.host) && r.matchesPort(t.port)
	}
	return t.host.text == r.host && r.matchesPort(t.port)
}

func (r rule) matchesPort(port uint16) bool {
	if r.anyPort {
		return true
	}
	for _, p := range r.ports {
		if p == port {
			return true
		}
	}
	return false
}

func parseRule(text string) (rule, error) {
	if err := notARule(text); err != nil {
		return rule{}, err
	}
	name, port, err := splitRule(text)
	if err != nil {
		return rule{}, err
	}
	r, err := parseRulePort(port)
	if err != nil {
		return rule{}, err
	}
	name, r.subdomains = strings.CutPrefix(name, "*.")
	if strings.Contains(name, "*") {
		return rule{}, errors.New("a star stands for whole subdomains and comes first: *.example.com; for everything write all")
	}
	h, err := parseHost(name)
	switch {
	case err != nil:
		return rule{}, err
	case r.subdomains && h.addr.IsValid():
		return rule{}, errors.New("an address has no subdomains")
	case h.text == allRule:
		return rule{}, errors.New("all stands alone, without a port")
	}
	r.host = h.text
	return r, nil
}

// notARule returns an error that explains a common mistake in a rule, or nil if it finds none.
func notARule(text string) error {
	switch {
	case text == "":
		return errors.New("it is empty")
	case strings.Contains(text, "://"):
		return errors.New("a rule is host:port, without a scheme: example.com:443")
	case strings.Contains(text, "/"):
		return errors.New("a rule is host:port, without a path; ranges of addresses cannot be given")
	case strings.Contains(text, "@"):
		return errors.New("a rule is host:port, without a user")
	case strings.Count(text, ":") > 1 && !strings.HasPrefix(text, "["):
		return errors.New("an IPv6 address is written in brackets: [2001:db8::1]:443")
	}
	return nil
}

// splitRule splits a rule into its name and port. The port is empty if the rule has none.
func splitRule(text string) (name, port string, err error) {
	rest, bracketed := strings.CutPrefix(text, "[")
	if !bracketed {
		name, port, found := strings.Cut(text, ":")
		if found && port == "" {
			return "", "", errors.New("there is no port behind the colon")
		}
		return name, port, nil
	}
	name, port, found := strings.Cut(rest, "]")
	if !found || !strings.Contains(name, ":") {
		return "", "", errors.New("brackets hold an IPv6 address: [2001:db8::1]:443")
	}
	if port == "" {
		return name, "", nil
	}
	port, found = strings.CutPrefix(port, ":")
	if !found || port == "" {
		return "", "", errors.New("behind the brackets comes a colon and a port")
	}
	return name, port, nil
}

func parseRulePort(text string) (rule, error) {
	switch text {
	case "":
		return rule{ports: []uint16{80, 443}}, nil
	case "*":
		return rule{anyPort: true}, nil
	}
	port, err := parsePort(text)
	return rule{ports: []uint16{port}}, err
}

// parsePort parses a port from 1 to 65535. It refuses signs and leading zeros.
func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != text {
		return 0, fmt.Errorf("the port %q is not a number from 1 to 65535", text)
	}
	return uint16(n), nil
}
