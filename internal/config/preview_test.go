package config

import (
	"strings"
	"testing"
)

func TestPreviewDomain(t *testing.T) {
	for _, c := range []struct{ name, listen, advertise, hosts, given, want, problem string }{
		{name: "a laptop", listen: "127.0.0.1:7070", want: "preview.localhost"},
		{name: "a laptop by name", listen: "localhost:7070", advertise: "http://localhost:7070", want: "preview.localhost"},
		{name: "behind a proxy", listen: "127.0.0.1:7070", advertise: "https://berth.example.com", want: ""},
		{name: "for others", listen: "0.0.0.0:7070", want: ""},
		{name: "none", listen: "127.0.0.1:7070", given: "none", want: ""},
		{name: "another domain", listen: "0.0.0.0:7070", hosts: "berth.example.com", given: "Preview.Example.net.", want: "preview.example.net"},
		{name: "with a star", listen: "0.0.0.0:7070", given: "*.preview.example.net", want: "preview.example.net"},
		{name: "the public suffix list", listen: "0.0.0.0:7070", hosts: "berth.github.io", given: "previews.github.io", want: "previews.github.io"},
		{name: "an address", listen: "10.0.0.1:7070", given: "preview.example.net", want: "preview.example.net"},
		{name: "below the host", listen: "0.0.0.0:7070", hosts: "example.com", given: "preview.example.com", problem: "same site as example.com"},
		{name: "beside the host", listen: "0.0.0.0:7070", hosts: "berth.example.co.uk", given: "preview.example.co.uk", problem: "same site as berth.example.co.uk"},
		{name: "the advertised host", listen: "127.0.0.1:7070", advertise: "https://berth.example.com", given: "p.example.com", problem: "same site as berth.example.com"},
		{name: "the listen address", listen: "berth.example.com:7070", given: "example.com", problem: "same site"},
		{name: "with a port", listen: "127.0.0.1:7070", given: "preview.example.net:80", problem: "not a domain"},
		{name: "a URL", listen: "127.0.0.1:7070", given: "https://preview.example.net", problem: "not a domain"},
		{name: "an IP address", listen: "127.0.0.1:7070", given: "127.0.0.1", problem: "not a domain"},
		{name: "one label", listen: "127.0.0.1:7070", given: "localhost", problem: "not a domain"},
		{name: "too long", listen: "127.0.0.1:7070", given: strings.Repeat("a.", 100) + "net", problem: "longer"},
	} {
		values := map[string]string{"listen": c.listen, "advertise_url": c.advertise, "allowed_hosts": c.hosts, "preview_domain": c.given, "data_dir": t.TempDir()}
		l, err := Load(Sources{Values: values})
		switch {
		case c.problem == "" && (err != nil || l.PreviewDomain != c.want):
			t.Errorf("%s: %q, %v; want %q", c.name, l.PreviewDomain, err, c.want)
		case c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)):
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
