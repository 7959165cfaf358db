package middleware

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/exchange"
)

// Hosts has the host names for which the server answers. It prevents DNS rebinding: a web page whose name resolves to
// a loopback address still sends its own name, and is refused.
type Hosts struct {
	names    map[string]bool // lower case, without port, brackets and final dot
	anyLocal bool            // the server listens on all addresses: each of them is allowed
}

// NewHosts returns the host names of a server: its listen address and the allowed names.
func NewHosts(listen string, allowed []string) Hosts {
	h := Hosts{names: map[string]bool{"localhost": true}}
	listenHost, _, err := net.SplitHostPort(listen)
	if err != nil {
		listenHost = listen
	}
	if ip, err := netip.ParseAddr(listenHost); listenHost == "" || err == nil && ip.IsUnspecified() {
		h.anyLocal = true
	} else {
		h.names[BareHost(listenHost)] = true
	}
	for _, name := range allowed {
		h.names[BareHost(name)] = true
	}
	return h
}

// Check returns an error if the Host header of the request is not one of the server's names.
func (h Hosts) Check(r *http.Request) error {
	if h.Knows(BareHost(r.Host), r) {
		return nil
	}
	return fault.Errorf("", api.CodeWrongHostHeader, "this server does not answer to the host %q", exchange.Clip(r.Host))
}

// Knows reports whether the host is one of the server's names.
func (h Hosts) Knows(host string, r *http.Request) bool {
	if h.names[host] {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	return ip.Unmap().IsLoopback() || h.anyLocal && ip.Unmap() == localIP(r)
}

// localIP returns the address of this machine that the client connected to.
func localIP(r *http.Request) netip.Addr {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if addr == nil {
		return netip.Addr{}
	}
	ap, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

// BareHost returns a host in lower case without port, brackets and final dot.
func BareHost(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
