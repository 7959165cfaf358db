package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// hosts are the names this server answers to. A web page that points a name of its own at a loopback
// address (DNS rebinding) still sends that name, and is refused by it.
type hosts struct {
	names    map[string]bool // lower case, without port, brackets and final dot
	anyLocal bool            // listening on all addresses: each address of this machine is one
}

func newHosts(listen string, allowed []string) hosts {
	h := hosts{names: map[string]bool{"localhost": true}}
	listenHost, _, err := net.SplitHostPort(listen)
	if err != nil {
		listenHost = listen
	}
	if ip, err := netip.ParseAddr(listenHost); listenHost == "" || err == nil && ip.IsUnspecified() {
		h.anyLocal = true
	} else {
		h.names[bareHost(listenHost)] = true
	}
	for _, name := range allowed {
		h.names[bareHost(name)] = true
	}
	return h
}

// check is the guard.
func (h hosts) check(r *http.Request) error {
	if h.knows(bareHost(r.Host), r) {
		return nil
	}
	return sandbox.Errorf("", api.CodeWrongHostHeader, "this server does not answer to the host %q", clip(r.Host))
}

func (h hosts) knows(host string, r *http.Request) bool {
	if h.names[host] {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	return ip.Unmap().IsLoopback() || h.anyLocal && ip.Unmap() == localIP(r)
}

// localIP is the address of this machine that the client connected to.
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

// bareHost takes port, brackets and the final dot off a host.
func bareHost(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// clip shortens what a client sent to what a message can carry.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func isLoopback(addr string) bool {
	ap, err := netip.ParseAddrPort(addr)
	return err == nil && ap.Addr().Unmap().IsLoopback()
}
