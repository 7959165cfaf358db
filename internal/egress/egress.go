// Package egress controls a sandbox's access to the network: none, or through Berth's proxy.
//
// A sandbox has a loopback and no other network. The helper inside opens listeners on that loopback, and Berth
// serves them from outside:
//
//   - [Proxy] is an HTTP proxy on [ProxyPort] that connects to the hosts that its [Rules] allow. It resolves
//     names outside and connects only to public addresses, whatever the rules allow.
//   - [Service] forwards one port inside to one upstream that the server's configuration names.
//
// [Attach] opens and serves both for one sandbox; [Env] is the environment that programs inside need to use the
// proxy. All input on these listeners is hostile, and so are the results of name resolution.
package egress

import (
	"net"
	"strconv"
)

// ProxyPort is the proxy's port on the loopback of a sandbox.
const ProxyPort = 3128

// Env returns the environment that makes ordinary programs use the proxy. Without rules there is no proxy,
// and Env returns nil.
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
