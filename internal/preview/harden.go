package preview

import (
	"net/http"
	"strings"
)

// policy gives a page an opaque origin. The page cannot undo it: browsers apply all policies of an answer.
const policy = "sandbox allow-scripts allow-forms allow-modals allow-downloads"

// yielding lists the headers that Berth does not set on answers of a sandbox. The sandbox may set them: they affect only
// its page.
var yielding = []string{"Cache-Control", "Content-Security-Policy", "Referrer-Policy", "X-Frame-Options"}

// dropped lists the headers of the sandbox that affect the whole origin, and commands to proxies. They are removed.
var dropped = []string{
	"Access-Control-Allow-Credentials", "Access-Control-Allow-Headers", "Access-Control-Allow-Methods", "Access-Control-Allow-Origin",
	"Access-Control-Expose-Headers", "Access-Control-Max-Age", "Access-Control-Allow-Private-Network", "Timing-Allow-Origin",
	"Alt-Svc", "Clear-Site-Data", "Nel", "Origin-Agent-Cluster", "Origin-Trial", "Public-Key-Pins", "Refresh", "Report-To", "Reporting-Endpoints",
	"Service-Worker-Allowed", "Sourcemap", "X-Sourcemap", "Strict-Transport-Security", "Www-Authenticate", "Proxy-Authenticate", "Speculation-Rules",
	"Accept-Ch", "Critical-Ch", "Accept-Ch-Lifetime", "Set-Login", "Activate-Storage-Access", "Use-As-Dictionary", "Observe-Browsing-Topics",
	"Sec-Session-Registration", "Sec-Session-Challenge", "Secure-Session-Registration", "Secure-Session-Challenge",
	"Attribution-Reporting-Register-Source", "Attribution-Reporting-Register-Trigger",
	"Authentication-Info", "Proxy-Authentication-Info", "Content-Base", "Uri", "Trailer", DroppedLocation,
	"X-Accel-Redirect", "X-Accel-Expires", "X-Sendfile", "X-Lighttpd-Send-File", "X-Reproxy-Url", "X-Reproxy-File", // commands to a proxy before us
}

// harden changes the headers of an answer so that it is safe to serve it from Berth's origin. own holds the headers that
// Berth has set for the answer; they replace those of the sandbox.
func (p Proxy) harden(own http.Header, in *http.Request, res *http.Response) {
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
	p.references(in, res).keep(h)
}

// keepCookies limits the sandbox's cookies to paths below the prefix and to this host. It drops cookies with names of
// Berth.
func (p Proxy) keepCookies(h http.Header, res *http.Response) {
	cookies := res.Cookies() // without the cookies that cannot be parsed
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
