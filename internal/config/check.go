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

// lazy returns a function that compiles the expression at its first call. Compiling all expressions at once would make
// every start of the program a millisecond slower.
func lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// optional returns a parser that accepts the empty text and passes all other values to parse.
func optional(parse func(string) (string, *badValue)) func(string) (string, *badValue) {
	return func(raw string) (string, *badValue) {
		if raw == "" {
			return "", nil
		}
		return parse(raw)
	}
}

// CheckName returns a [*Misfit] if raw is not a valid name of a template, a driver or a base.
func CheckName(raw string) error {
	_, f := parseName(raw)
	return f.misfit()
}

func parseName(raw string) (string, *badValue) {
	if !nameShape().MatchString(raw) {
		return "", badValuef("write up to 63 of a-z, 0-9, '-' and '_', beginning with a letter or digit", "is not a name")
	}
	return raw, nil
}

func parseListen(raw string) (string, *badValue) {
	const fix = "write host:port, such as 127.0.0.1:7070"
	host, port, err := net.SplitHostPort(raw)
	if err != nil {
		return "", badValuef(fix, "is not host:port")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", badValuef(fix, "has no port between 0 and 65535")
	}
	if host != "" && !isHost(host) {
		return "", badValuef(fix, "has a host that is neither a name nor an IP address")
	}
	return raw, nil
}

func parseHosts(raw string) ([]string, *badValue) {
	var hosts []string
	for host := range strings.SplitSeq(raw, ",") {
		host = strings.ToLower(strings.TrimSpace(host))
		switch {
		case host == "":
			continue
		case !isHost(host):
			return nil, badValuef("write names or IP addresses alone, such as berth.example.com, separated by commas",
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

func parsePath(raw string) (string, *badValue) {
	const fix = "write a path, such as /var/lib/berth"
	switch {
	case raw == "":
		return "", badValuef(fix, "is empty")
	case strings.ContainsRune(raw, 0):
		return "", badValuef(fix, "contains a NUL byte")
	case strings.HasPrefix(raw, "~"):
		return "", badValuef("write the whole path", "begins with ~, which only a shell expands")
	}
	abs, err := filepath.Abs(raw)
	if err != nil {
		return "", badValuef("write an absolute path", "is relative, and the working directory is not known")
	}
	return abs, nil
}

func parseSecret(raw string, atLeast, atMost int) (Secret, *badValue) {
	if raw == "" {
		return "", nil
	}
	fix := "write " + strconv.Itoa(atLeast) + " to " + strconv.Itoa(atMost) + " printable ASCII characters without spaces"
	switch {
	case len(raw) < atLeast:
		return "", badValuef(fix, "is too short")
	case len(raw) > atMost:
		return "", badValuef(fix, "is too long")
	case !visible(raw):
		return "", badValuef(fix, "contains a space or an unprintable character")
	}
	return Secret(raw), nil
}

// parseSecrets reads a comma-separated list of root secrets. Empty entries are ignored.
func parseSecrets(raw string) (all []Secret, f *badValue) {
	for entry := range strings.SplitSeq(raw, ",") {
		s, f := parseSecret(strings.TrimSpace(entry), 16, 1024)
		if f != nil {
			return nil, f
		}
		if s != "" {
			all = append(all, s)
		}
	}
	return all, nil
}

func formatSecrets(all []Secret) string {
	var masked []string
	for _, s := range all {
		masked = append(masked, s.String())
	}
	return strings.Join(masked, ",")
}

func parseToken(raw string) (string, *badValue) {
	if !visible(raw) {
		return "", badValuef("write printable ASCII characters without spaces", "contains a space or an unprintable character")
	}
	return raw, nil
}

// visible reports whether s has only printable ASCII characters and no space.
func visible(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
