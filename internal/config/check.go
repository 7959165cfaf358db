package config

import (
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

var (
	nameShape = lazy(`^[a-z0-9][a-z0-9_-]{0,62}$`)
	hostShape = lazy(`^\w([\w-]*\w)?(\.\w([\w-]*\w)?)*\.?$`)
)

// lazy is an expression that is compiled when it is first used: all together they would cost every start of
// the program a millisecond.
func lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// optional lets the empty text pass a check.
func optional(parse func(string) (string, *fault)) func(string) (string, *fault) {
	return func(raw string) (string, *fault) {
		if raw == "" {
			return "", nil
		}
		return parse(raw)
	}
}

// CheckName says what is wrong with the name of a template, a driver or a base,
// or nil. Its error is a [*Misfit].
func CheckName(raw string) error {
	_, f := parseName(raw)
	return f.misfit()
}

func parseName(raw string) (string, *fault) {
	if !nameShape().MatchString(raw) {
		return "", faultf("write up to 63 of a-z, 0-9, '-' and '_', beginning with a letter or digit", "is not a name")
	}
	return raw, nil
}

func parseListen(raw string) (string, *fault) {
	const fix = "write host:port, such as 127.0.0.1:7070"
	host, port, err := net.SplitHostPort(raw)
	if err != nil {
		return "", faultf(fix, "is not host:port")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", faultf(fix, "has no port between 0 and 65535")
	}
	if host != "" && !isHost(host) {
		return "", faultf(fix, "has a host that is neither a name nor an IP address")
	}
	return raw, nil
}

func parseHosts(raw string) ([]string, *fault) {
	var hosts []string
	for host := range strings.SplitSeq(raw, ",") {
		host = strings.ToLower(strings.TrimSpace(host))
		switch {
		case host == "":
			continue
		case !isHost(host):
			return nil, faultf("write names or IP addresses alone, such as berth.example.com, separated by commas",
				"has an entry %q that is no host name", host)
		}
		hosts = append(hosts, host)
	}
	return hosts, nil
}

func isHost(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil || len(s) <= 253 && hostShape().MatchString(s)
}

func parsePath(raw string) (string, *fault) {
	const fix = "write a path, such as /var/lib/berth"
	switch {
	case raw == "":
		return "", faultf(fix, "is empty")
	case strings.ContainsRune(raw, 0):
		return "", faultf(fix, "contains a NUL byte")
	case strings.HasPrefix(raw, "~"):
		return "", faultf("write the whole path", "begins with ~, which only a shell expands")
	}
	abs, err := filepath.Abs(raw)
	if err != nil {
		return "", faultf("write an absolute path", "is relative, and the working directory is not known")
	}
	return abs, nil
}

func parseSecret(raw string, atLeast, atMost int) (Secret, *fault) {
	if raw == "" {
		return "", nil
	}
	fix := "write " + strconv.Itoa(atLeast) + " to " + strconv.Itoa(atMost) + " printable ASCII characters without spaces"
	switch {
	case len(raw) < atLeast:
		return "", faultf(fix, "is too short")
	case len(raw) > atMost:
		return "", faultf(fix, "is too long")
	case !visible(raw):
		return "", faultf(fix, "contains a space or an unprintable character")
	}
	return Secret(raw), nil
}

func parseToken(raw string) (string, *fault) {
	if !visible(raw) {
		return "", faultf("write printable ASCII characters without spaces", "contains a space or an unprintable character")
	}
	return raw, nil
}

// visible reports whether s can travel in an HTTP header as one word.
func visible(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
