package client

import (
	"net/http"
	"net/url"
	"strconv"
)

// PortURL returns the URL of a port of the sandbox. Requests to paths below it reach the program that listens on the
// port. They need the same key as other calls.
func (s Sandboxes) PortURL(ref string, port uint16) (*url.URL, error) {
	target, err := path{sandboxesPath, ref, "ports", strconv.Itoa(int(port))}.on(s.c.base)
	if err != nil {
		return nil, err
	}
	return target.JoinPath("/"), nil
}

// Port returns an HTTP client that sends all requests to one port of the sandbox, whatever host their URLs name. It
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
