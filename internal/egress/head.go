package egress

import (
	"bufio"
	"bytes"
	"net/http"
	"net/textproto"

	"github.com/berthdev/berth/internal/fault"
)

// checkHead refuses requests that two HTTP servers could interpret differently. It parses the original head, because
// net/http resolves such conflicts without reporting them. first holds the first bytes of the connection.
func checkHead(r *http.Request, first []byte) (hostHeader string, err *refusal) {
	in := textproto.NewReader(bufio.NewReader(bytes.NewReader(first)))
	if _, err := in.ReadLine(); err != nil {
		return "", badRequest("the request is malformed.")
	}
	h, bad := in.ReadMIMEHeader()
	switch {
	case bad != nil:
		return "", badRequest("the request is malformed.")
	case len(h["Content-Length"]) > 1, len(h["Transfer-Encoding"]) > 1, len(h["Host"]) > 1:
		return "", badRequest("the request has a header twice that it may have once.")
	case len(h["Content-Length"]) > 0 && len(h["Transfer-Encoding"]) > 0:
		return "", badRequest("the request has both Content-Length and Transfer-Encoding.")
	case len(h["Transfer-Encoding"]) > 0 && !r.ProtoAtLeast(1, 1):
		return "", badRequest("the request has a Transfer-Encoding, which its version of HTTP does not know.")
	}
	return h.Get("Host"), nil
}

// connectTarget returns the target of a CONNECT request.
func connectTarget(r *http.Request) (target, *refusal) {
	if r.ContentLength != 0 {
		return target{}, badRequest("CONNECT has no body.")
	}
	if r.URL.Path != "" || r.URL.User != nil || r.URL.Host == "" || r.URL.Host != r.RequestURI {
		return target{}, badRequest("CONNECT wants host:port.")
	}
	t, err := parseTarget(r.URL.Host, 0)
	if err != nil {
		return target{}, badTarget(r.URL.Host, err)
	}
	return t, nil
}

// plainTarget returns the target of a request with a whole URL.
func plainTarget(r *http.Request, hostHeader string) (target, *refusal) {
	switch {
	case r.URL.Host == "" || r.URL.Opaque != "":
		return target{}, badRequest("this is the sandbox's HTTP proxy; it wants a whole URL, or CONNECT.")
	case r.URL.Scheme == "https":
		return target{}, badRequest("the proxy reaches https by CONNECT only.")
	case r.URL.Scheme != "http":
		return target{}, badRequest("the proxy speaks HTTP only, and CONNECT for all else over TCP.")
	case r.URL.User != nil:
		return target{}, badRequest("the URL has a user in it; send an Authorization header.")
	}
	t, err := parseTarget(r.URL.Host, 80)
	if err != nil {
		return target{}, badTarget(r.URL.Host, err)
	}
	if hostHeader == "" && !r.ProtoAtLeast(1, 1) {
		return t, nil
	}
	if named, err := parseTarget(hostHeader, 80); err != nil || named != t {
		return target{}, badRequest("the Host header and the URL name different hosts.")
	}
	return t, nil
}

// badTarget refuses a target that cannot be parsed.
func badTarget(text string, err error) *refusal {
	return &refusal{
		status: http.StatusForbidden,
		words:  "this sandbox may not connect to " + quote(text) + ": " + err.Error() + ".\nTo allow a host, add host:port to egress in the sandbox's template.",
		target: fault.Clip(text, maxLogged),
		cause:  err.Error(),
	}
}
