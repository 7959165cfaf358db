package egress

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// everything is the rule that allows every public address.
const everything = "all"

// Rules is what a sandbox may connect to. The zero value allows nothing. Rules are about names and ports;
// what a name may resolve to is not theirs to say.
type Rules struct {
	all  bool
	list []rule
}

// rule allows one host, or the subdomains of one, on some ports.
type rule struct {
	host  string // as parseHost spells it
	below bool   // the names below host instead of host
	any   bool   // any port
	ports []uint16
}

// ParseRules reads rules as templates write them:
//
//	example.com:443      one name, one port
//	example.com          the same on ports 80 and 443
//	example.com:*        on every port
//	*.example.com:443    the names below it, not itself
//	198.51.100.7:8080    an address, which is matched only as an address
//	[2001:db8::7]:443    an IPv6 address
//	all                  every name and every public address
//
// The error names every rule that is none.
func ParseRules(texts []string) (Rules, error) {
	var rules Rules
	var bad []error
	for _, text := range texts {
		if strings.EqualFold(strings.TrimSpace(text), everything) {
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

// Allow reports whether the rules allow a connection. The host is a name or an address, in any spelling
// that parses; others are not allowed.
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
	if r.below {
		// No address ends like a name, so none is below one.
		return strings.HasSuffix(t.host.text, "."+r.host) && r.matchesPort(t.port)
	}
	return t.host.text == r.host && r.matchesPort(t.port)
}

func (r rule) matchesPort(port uint16) bool {
	if r.any {
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
	name, r.below = strings.CutPrefix(name, "*.")
	if strings.Contains(name, "*") {
		return rule{}, errors.New("a star stands for whole subdomains and comes first: *.example.com; for everything write all")
	}
	h, err := parseHost(name)
	switch {
	case err != nil:
		return rule{}, err
	case r.below && h.addr.IsValid():
		return rule{}, errors.New("an address has no subdomains")
	case h.text == everything:
		return rule{}, errors.New("all stands alone, without a port")
	}
	r.host = h.text
	return r, nil
}

// notARule refuses what people write by mistake, in words that fit the mistake.
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

// splitRule separates the port, which is empty if the rule has none.
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
		return rule{any: true}, nil
	}
	port, err := parsePort(text)
	return rule{ports: []uint16{port}}, err
}

// parsePort reads a port in its one spelling: no sign, no leading zero, and not 0.
func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != text {
		return 0, fmt.Errorf("the port %q is not a number from 1 to 65535", text)
	}
	return uint16(n), nil
}
