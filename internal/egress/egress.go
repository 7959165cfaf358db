// Package egress is how a sandbox reaches the world: not at all, or through a proxy of Berth's.
//
// A sandbox has a loopback and no other network. The helper inside hands out listeners on that loopback,
// and Berth serves them from outside:
//
//   - [Proxy] is an HTTP proxy on [ProxyPort] that connects to what its [Rules] allow. Names are resolved
//     outside, and the very address that is connected to is checked: it is a public one, whatever the
//     rules say.
//   - [Service] leads one port inside to one upstream that the server's configuration names.
//
// [Attach] opens and serves both for one sandbox; [Env] is what programs inside need to find the proxy.
// Everything that comes in on these listeners is hostile, and so is what names resolve to.
package egress

import (
	"net"
	"strconv"
)

// ProxyPort is where the proxy listens on the loopback of a sandbox.
const ProxyPort = 3128

// Env is the environment that makes ordinary programs use the proxy. Without rules there is no proxy,
// and Env is empty.
func Env(rules []string) map[string]string {
	if len(rules) == 0 {
		return nil
	}
	const direct = "localhost,127.0.0.1,::1"
	proxy := "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(ProxyPort))
	return map[string]string{
		"HTTP_PROXY": proxy, "http_proxy": proxy,
		"HTTPS_PROXY": proxy, "https_proxy": proxy,
		"ALL_PROXY": proxy, "all_proxy": proxy,
		"NO_PROXY": direct, "no_proxy": direct,
	}
}
