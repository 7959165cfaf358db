package preview

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/berthdev/berth/api"
)

// DroppedLocation is a header that replaces a Location header that was not passed on. Its value is the reason.
const DroppedLocation = "Berth-Dropped-Location"

// references rewrites the addresses in the headers of one answer. A client may follow an address with the key of its
// request, so none may lead to another route of the server.
type references struct {
	Proxy
	host  string   // the Host of the request
	keyed bool     // the request carried a key of Berth in a header
	at    *url.URL // the address of the request, as the sandbox sees it
}

func (p Proxy) references(in *http.Request, res *http.Response) references {
	return references{p, in.Host, p.Keyed || p.Origin == nil && carriesKey(in.Header), res.Request.URL}
}

// carriesKey reports whether the headers of a request contain a key. Clients repeat headers when they follow a redirect:
// to another host some do not send Authorization, but most send X-API-Key.
func carriesKey(h http.Header) bool {
	return h.Get("Authorization") != "" || h.Get("X-Api-Key") != "" || strings.Contains(h.Get("Sec-Websocket-Protocol"), api.TerminalKeyProtocol)
}

// keep rewrites or drops every header of the answer that a client may follow.
func (f references) keep(h http.Header) {
	if location := h.Values("Location"); len(location) > 0 {
		h.Del("Location")
		if to, why := f.rewrite(location[0]); why == "" {
			h.Set("Location", to)
		} else {
			h.Set(DroppedLocation, why)
		}
	}
	if at := h.Get("Content-Location"); at != "" {
		h.Del("Content-Location")
		if to, why := f.rewrite(at); why == "" {
			h.Set("Content-Location", to)
		}
	}
	links := h.Values("Link")
	h.Del("Link")
	for _, line := range links {
		if kept := f.links(line); kept != "" {
			h.Add("Link", kept)
		}
	}
}

// rewrite returns a reference in the form for the client, or the reason why it must be dropped. It puts addresses of the
// sandbox below the prefix of their port.
func (f references) rewrite(text string) (to, why string) {
	const invalid = "it is not a valid http address"
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == '\\' || r == 0x7f }) || strings.HasPrefix(text, "//") {
		return "", invalid
	}
	path := len(text)
	if i := strings.IndexAny(text, "?#"); i >= 0 {
		path = i
	}
	ref, err := url.Parse(dots.Replace(text[:path]) + text[path:])
	if err != nil || ref.Opaque != "" || ref.User != nil {
		return "", invalid
	}
	if ref.Scheme == "" {
		return f.below(f.Prefix, ref), ""
	}
	if ref.Scheme != "http" && ref.Scheme != "https" || !validHost(ref.Hostname()) {
		return "", invalid
	}
	switch port, prefix := portOf(ref), f.Prefix; {
	case f.isRequestHost(ref):
		// An application that trusts X-Forwarded-Host uses the name of this server for itself.
		return f.below(prefix, pathOf(ref)), ""
	case f.isPort(ref.Hostname()) && !f.keyed:
		return ref.String(), ""
	case isLoopback(ref.Hostname()):
		if port != strconv.Itoa(int(f.Port)) {
			if prefix = f.sibling(port); prefix == "" {
				return "", "it names a port that is not served"
			}
		}
		return f.below(prefix, pathOf(ref)), ""
	case f.isOwn(ref.Hostname()) && (f.keyed || f.Origin == nil):
		return "", "it names this server"
	case f.keyed:
		return "", "it names another site, which would get the key of the request"
	}
	return ref.String(), ""
}

// dots decodes encoded dots. Browsers treat "%2e%2e" in a path as "..", which must be resolved here.
var dots = strings.NewReplacer("%2e", ".", "%2E", ".")

// below returns the path of a reference within the sandbox, below prefix. It does not repeat a prefix that the path has
// already: some applications add it from X-Forwarded-Prefix.
func (f references) below(prefix string, ref *url.URL) string {
	full := f.at.ResolveReference(ref)
	text := full.EscapedPath()
	if text != prefix && !strings.HasPrefix(text, prefix+"/") {
		text = prefix + "/" + strings.TrimPrefix(text, "/")
	}
	if prefix == "" && strings.HasPrefix(text, "//") {
		text = "/." + text // otherwise its first part would be a host
	}
	if full.RawQuery != "" {
		text += "?" + full.RawQuery
	}
	if full.Fragment != "" {
		text += "#" + full.EscapedFragment()
	}
	return text
}

// pathOf returns a copy of an address without its scheme and host.
func pathOf(u *url.URL) *url.URL {
	path := &url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery, ForceQuery: u.ForceQuery, Fragment: u.Fragment, RawFragment: u.RawFragment}
	if path.Path == "" {
		path.Path = "/"
	}
	return path
}

// sibling returns the prefix of another port of the sandbox, or "" if that port is not served.
func (f references) sibling(port string) string {
	if f.Origin != nil {
		n, err := ParsePort(port)
		if err != nil {
			return ""
		}
		return f.Origin(n)
	}
	all, own := strings.CutSuffix(f.Prefix, "/"+strconv.Itoa(int(f.Port)))
	if _, err := ParsePort(port); err != nil || !own {
		return ""
	}
	return all + "/" + port
}

// isPort reports whether a host is the origin of a port, of this sandbox or another.
func (f references) isPort(host string) bool {
	if f.Origin == nil {
		return false
	}
	own, err := url.Parse(f.Origin(f.Port))
	if err != nil {
		return false
	}
	_, domain, _ := strings.Cut(bare(own.Hostname()), ".")
	return strings.HasSuffix(bare(host), "."+domain)
}

// isRequestHost reports whether an address has the host and port of the request.
func (f references) isRequestHost(u *url.URL) bool {
	host, port, err := net.SplitHostPort(f.host)
	if err != nil {
		host, port = f.host, ""
	}
	if bare(host) != bare(u.Hostname()) {
		return false
	}
	return portOf(u) == port || port == "" && (portOf(u) == "80" || portOf(u) == "443")
}

// isOwn reports whether a host is one of the server's hosts or a subdomain of one. Clients also send their key to
// subdomains when they follow a redirect.
func (f references) isOwn(host string) bool {
	host = bare(host)
	requested, _, err := net.SplitHostPort(f.host)
	if err != nil {
		requested = f.host
	}
	for name := host; name != ""; {
		if name == bare(requested) || f.Own != nil && f.Own(name) {
			return true
		}
		if _, err := netip.ParseAddr(name); err == nil {
			return false
		}
		_, name, _ = strings.Cut(name, ".")
	}
	return false
}

// isLoopback reports whether a host is a loopback address, which inside is the sandbox itself.
func isLoopback(host string) bool {
	host = bare(host)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && (ip.Unmap().IsLoopback() || ip.Unmap().IsUnspecified())
}

var (
	hostName   = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?$`)
	numberHost = regexp.MustCompile(`(?i)(^|\.)([0-9]+|0x[0-9a-f]*)\.?$`)
)

// validHost reports whether all clients interpret a host in the same way: a plain name, or an address in its usual form.
// It returns false for forms such as 127.1 and 0x7f000001.
func validHost(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Zone() == ""
	}
	return hostName.MatchString(host) && !numberHost.MatchString(host)
}

// bare returns a host in lower case, without brackets and a final dot. An address is in its shortest form.
func bare(host string) string {
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String()
	}
	return host
}

func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

// links rewrites the targets of a Link header and drops links that rewrite refuses.
func (f references) links(line string) string {
	var kept []string
	for line = strings.TrimLeft(line, " \t,"); strings.HasPrefix(line, "<"); line = strings.TrimLeft(line, " \t,") {
		target, rest, closed := strings.Cut(line[1:], ">")
		if !closed {
			break
		}
		end := linkEnd(rest)
		if to, why := f.rewrite(target); why == "" {
			kept = append(kept, "<"+to+">"+rest[:end])
		}
		line = rest[end:]
	}
	return strings.Join(kept, ", ")
}

// linkEnd returns the position of the comma after a link's parameters. It skips commas in quotes.
func linkEnd(text string) int {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch {
		case quoted && text[i] == '\\':
			i++
		case text[i] == '"':
			quoted = !quoted
		case text[i] == ',' && !quoted:
			return i
		}
	}
	return len(text)
}
