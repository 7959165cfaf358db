package preview

import (
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// policy puts a page into an origin of its own, whatever it says itself: of several policies each holds.
const policy = "sandbox allow-scripts allow-forms allow-modals allow-downloads"

// yielding are the headers on which the sandbox's word goes before ours: they concern its page alone.
var yielding = []string{"Cache-Control", "Content-Security-Policy", "Referrer-Policy", "X-Frame-Options"}

// dropped are headers that speak for the whole origin, to the browser or to other sites.
var dropped = []string{
	"Access-Control-Allow-Credentials", "Access-Control-Allow-Headers", "Access-Control-Allow-Methods", "Access-Control-Allow-Origin",
	"Access-Control-Expose-Headers", "Access-Control-Max-Age", "Access-Control-Allow-Private-Network", "Timing-Allow-Origin",
	"Alt-Svc", "Clear-Site-Data", "Nel", "Origin-Agent-Cluster", "Origin-Trial", "Public-Key-Pins", "Refresh", "Report-To", "Reporting-Endpoints",
	"Service-Worker-Allowed", "Sourcemap", "Strict-Transport-Security", "Www-Authenticate", "Proxy-Authenticate", "Sec-Session-Registration", "Speculation-Rules",
}

// harden makes the answer one that can be given from the server's own origin. What the server says of
// itself stands in own.
func (p Proxy) harden(own http.Header, res *http.Response) {
	h := res.Header
	for _, name := range yielding {
		own.Del(name)
	}
	for name := range own {
		h.Del(name)
	}
	for _, name := range dropped {
		h.Del(name)
	}
	h.Add("Content-Security-Policy", policy)
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	p.keepCookies(h, res)
	p.keepLocation(h, res)
}

// keepCookies lets cookies through, and has them stay below the prefix and on this host alone.
func (p Proxy) keepCookies(h http.Header, res *http.Response) {
	cookies := res.Cookies() // those that can be read
	h.Del("Set-Cookie")
	for _, c := range cookies {
		if ourCookie(c.Name) || strings.HasPrefix(strings.ToLower(c.Name), "__host-") {
			continue
		}
		below := c.Path
		if !strings.HasPrefix(below, "/") {
			below = "/"
		}
		c.Path, c.Domain = p.Prefix+below, ""
		if text := c.String(); text != "" {
			h.Add("Set-Cookie", text)
		}
	}
}

// keepLocation makes a redirect to what listens there one below the prefix. One to another site passes if
// it says so in full; what only looks like a path, and is none to a browser, does not.
func (p Proxy) keepLocation(h http.Header, res *http.Response) {
	location := h.Get("Location")
	if location == "" {
		return
	}
	h.Del("Location")
	if strings.ContainsFunc(location, func(r rune) bool { return r <= ' ' || r == '\\' || r == 0x7f }) || strings.HasPrefix(location, "//") {
		return
	}
	to, err := url.Parse(location)
	if err != nil || to.Opaque != "" || to.User != nil {
		return
	}
	if to.Scheme == "" || p.isHere(to) {
		h.Set("Location", p.below(res.Request.URL, to))
	} else if (to.Scheme == "http" || to.Scheme == "https") && to.Host != "" {
		h.Set("Location", to.String())
	}
}

// isHere reports whether an address is what listens there, as it may call itself.
func (p Proxy) isHere(to *url.URL) bool {
	port := to.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[to.Scheme]
	}
	if port != strconv.Itoa(int(p.Port)) {
		return false
	}
	ip, err := netip.ParseAddr(to.Hostname())
	return strings.EqualFold(to.Hostname(), "localhost") || err == nil && (ip.Unmap().IsLoopback() || ip.IsUnspecified())
}

// below is a reference within what listens there, as the browser must see it.
func (p Proxy) below(at, to *url.URL) string {
	if p.isHere(to) {
		to = &url.URL{Path: to.Path, RawPath: to.RawPath, RawQuery: to.RawQuery, ForceQuery: to.ForceQuery, Fragment: to.Fragment, RawFragment: to.RawFragment}
		if to.Path == "" {
			to.Path = "/"
		}
	}
	full := at.ResolveReference(to)
	text := p.Prefix + "/" + strings.TrimPrefix(full.EscapedPath(), "/")
	if full.RawQuery != "" {
		text += "?" + full.RawQuery
	}
	if full.Fragment != "" {
		text += "#" + full.EscapedFragment()
	}
	return text
}
