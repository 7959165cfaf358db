package client

import (
	"net/http"
	"net/url"
	"strconv"
)

// PortURL is where the server serves a port of the sandbox. What is put behind it reaches whatever
// listens there, with the key that other calls need, too.
func (s Sandboxes) PortURL(ref string, port uint16) (*url.URL, error) {
	target, err := path{sandboxesPath, ref, "ports", strconv.Itoa(int(port))}.on(s.c.base)
	if err != nil {
		return nil, err
	}
	return target.JoinPath("/"), nil
}

// Port makes a client whose requests all go to one port of the sandbox, whatever host they name. It
// adds the key and follows no redirects.
func (s Sandboxes) Port(ref string, port uint16) (*http.Client, error) {
	at, err := s.PortURL(ref, port)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &portTransport{s.c, at}, CheckRedirect: s.c.http.CheckRedirect}, nil
}

type portTransport struct {
	c  *Client
	at *url.URL
}

func (t *portTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL = t.at.JoinPath(r.URL.EscapedPath())
	out.URL.RawQuery, out.Host = r.URL.RawQuery, ""
	if t.c.key != "" {
		out.Header.Set("Authorization", "Bearer "+t.c.key)
	}
	rt := t.c.http.Transport
	if rt == nil {
		rt = http.DefaultTransport
	}
	return rt.RoundTrip(out)
}
