package preview

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// localise makes a request look as if the browser ran on the machine itself and had opened localhost. Development servers
// refuse other hosts, and compare Host, Origin and X-Forwarded-Host with each other. The address of the client and its
// scheme are passed on.
func (p Proxy) localise(in, out *http.Request) {
	out.Header.Del("X-Forwarded-Host")
	if strings.HasPrefix(p.Origin(p.Port), "https:") {
		out.Header.Set("X-Forwarded-Proto", "https")
	}
	if referer, err := url.Parse(in.Referer()); err == nil && strings.EqualFold(referer.Host, in.Host) && referer.Host != "" {
		referer.Scheme, referer.Host = "http", p.host()
		out.Header.Set("Referer", referer.String())
	}
}

// beyond lists the headers of an answer that affect more than its origin, and commands to proxies.
var beyond = []string{
	"Alt-Svc", "Clear-Site-Data", "Nel", "Origin-Agent-Cluster", "Public-Key-Pins", "Report-To", "Strict-Transport-Security",
	"Set-Login", "Activate-Storage-Access", "Sec-Session-Registration", "Sec-Session-Challenge", "Secure-Session-Registration", "Secure-Session-Challenge",
	"Attribution-Reporting-Register-Source", "Attribution-Reporting-Register-Trigger", "Observe-Browsing-Topics",
	"Proxy-Authenticate", "Proxy-Authentication-Info", "Trailer", DroppedLocation,
	"X-Accel-Redirect", "X-Accel-Expires", "X-Sendfile", "X-Lighttpd-Send-File", "X-Reproxy-Url", "X-Reproxy-File",
}

// contain changes the headers of an answer that is served from an origin for the port alone. Pages of other sandboxes have
// the same site: they must not read the answer, or show it in a frame.
func (p Proxy) contain(own http.Header, in *http.Request, res *http.Response) {
	h := res.Header
	for _, name := range beyond {
		h.Del(name)
	}
	for name := range own {
		h.Del(name)
	}
	h.Set("Origin-Agent-Cluster", "?1") // a page cannot give itself the domain of another
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Add("Content-Security-Policy", "frame-ancestors 'self'")
	keepPrivate(h)
	p.ownCookies(h, res)
	p.references(in, res).keep(h)
}

// keepPrivate forbids caches between the browser and the server to keep the answer: they do not know who may see it.
func keepPrivate(h http.Header) {
	var kept []string
	for _, line := range h.Values("Cache-Control") {
		for item := range strings.SplitSeq(line, ",") {
			name, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(item)), "=")
			if !slices.Contains([]string{"", "public", "private", "s-maxage"}, name) {
				kept = append(kept, strings.TrimSpace(item))
			}
		}
	}
	for _, name := range []string{"Cdn-Cache-Control", "Surrogate-Control"} {
		h.Del(name)
	}
	h.Set("Cache-Control", strings.Join(append([]string{"private"}, kept...), ", "))
}

// ownCookies limits the sandbox's cookies to this host, and drops those with names of Berth.
func (p Proxy) ownCookies(h http.Header, res *http.Response) {
	if len(h["Set-Cookie"]) == 0 {
		return
	}
	lines := h["Set-Cookie"]
	h.Del("Set-Cookie")
	for _, line := range lines {
		name, _, _ := strings.Cut(line, "=")
		if ourCookie(name) {
			continue
		}
		parts := strings.Split(line, ";")
		parts = append(parts[:1:1], slices.DeleteFunc(parts[1:], func(part string) bool {
			attribute, _, _ := strings.Cut(part, "=")
			return strings.EqualFold(strings.TrimSpace(attribute), "domain")
		})...)
		h.Add("Set-Cookie", strings.Join(parts, ";"))
	}
}
