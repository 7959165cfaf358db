package config

import (
	"net"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// localPreviews is the preview domain of a server that only this machine reaches. Browsers resolve all names below
// localhost to loopback addresses.
const localPreviews = "preview.localhost"

// mostDomain is the maximum length of a preview domain: a label of 63 characters comes before it.
const mostDomain = 253 - 64

// parseDomain parses a preview domain. "none" is the empty domain.
func parseDomain(raw string) (string, *badValue) {
	const fix = "write a domain such as preview.example.net, without scheme and port, or none"
	domain := strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(raw, "*."), "."))
	_, err := netip.ParseAddr(domain)
	switch {
	case domain == "none":
		return "", nil
	case err == nil || !isHost(domain) || !strings.Contains(domain, "."):
		return "", badValuef(fix, "is not a domain")
	case len(domain) > mostDomain:
		return "", badValuef(fix, "is longer than %d characters", mostDomain)
	}
	return domain, nil
}

// derivePreviewDomain returns the default.
func derivePreviewDomain(c *Config) string {
	if host := hostOf(c.AdvertiseURL); c.Loopback() && (host == "" || loopbackHost(host)) {
		return localPreviews
	}
	return "none"
}

// sameSite returns a host of the server that has the same site as the preview domain, or "". Browsers send cookies of
// one host with requests from pages of another host of its site.
func (c *Config) sameSite() string {
	if c.PreviewDomain == "" {
		return ""
	}
	listen, _, _ := net.SplitHostPort(c.Listen)
	for _, host := range append([]string{hostOf(c.AdvertiseURL), listen}, c.AllowedHosts...) {
		if host != "" && siteOf(host) == siteOf("x."+c.PreviewDomain) {
			return host
		}
	}
	return ""
}

// siteOf returns the registrable domain of a host, or the host itself if it has none.
func siteOf(host string) string {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	if site, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return site
	}
	return host
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

func loopbackHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}
