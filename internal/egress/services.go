package egress

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
)

// ParseServices parses the services of a template. Each key is the address inside, as 127.0.0.1:port. Its value is
// the URL of the upstream: http, https, or tcp://host:port. The result is sorted by port. The error names every
// invalid service.
func ParseServices(texts map[string]string) ([]Service, error) {
	var services []Service
	var bad []error
	for inside, upstream := range texts {
		s, err := parseService(inside, upstream)
		if err != nil {
			bad = append(bad, fmt.Errorf("service %q: %w", inside, err))
			continue
		}
		services = append(services, s)
	}
	if len(bad) > 0 {
		slices.SortFunc(bad, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
		return nil, errors.Join(bad...)
	}
	slices.SortFunc(services, func(a, b Service) int { return cmp.Compare(a.Port, b.Port) })
	return services, nil
}

func parseService(inside, upstream string) (Service, error) {
	at, err := netip.ParseAddrPort(inside)
	switch {
	case err != nil || at.String() != inside || at.Addr() != netip.AddrFrom4([4]byte{127, 0, 0, 1}) || at.Port() == 0:
		return Service{}, errors.New("a service listens on 127.0.0.1:port, with a port from 1 to 65535")
	case at.Port() == ProxyPort:
		return Service{}, fmt.Errorf("port %d is the proxy's", ProxyPort)
	}
	u, err := parseUpstream(upstream)
	if err != nil {
		return Service{}, err
	}
	return Service{Port: at.Port(), Upstream: u}, nil
}

// parseUpstream parses the URL of an upstream. Its errors do not repeat the URL, which could contain a secret by
// mistake.
func parseUpstream(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("its upstream is not a URL")
	case u.User != nil:
		return nil, errors.New("its upstream has a user in it; nothing would send it")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("its upstream has a query or a fragment")
	case u.Hostname() == "" || u.Opaque != "":
		return nil, errors.New("its upstream names no host: http://host:port, https://host or tcp://host:port")
	}
	if port := u.Port(); port != "" {
		if _, err := parsePort(port); err != nil {
			return nil, fmt.Errorf("its upstream: %w", err)
		}
	}
	switch u.Scheme {
	case "http", "https":
		return u, nil
	case "tcp":
		if u.Port() == "" || u.Path != "" {
			return nil, errors.New("its upstream is tcp://host:port, with a port and without a path")
		}
		return u, nil
	}
	return nil, fmt.Errorf("its upstream's scheme is %q; known are http, https and tcp", u.Scheme)
}
