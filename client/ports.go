package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/berthdev/berth/api"
	"github.com/coder/websocket"
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

// CreatePortURL makes a signed URL of a port of the sandbox, which a browser can open. Everyone who has it may use the
// port until it ends.
func (s Sandboxes) CreatePortURL(ctx context.Context, ref string, port uint16, want api.CreatePortURL) (api.PortURL, error) {
	var out api.PortURL
	_, err := s.c.do(ctx, call{op: "make URL of port", method: http.MethodPost, path: portPath(ref, port, "url"), body: want}, &out)
	return out, err
}

// RevokePortURLs revokes the signed URLs of a port, or only the one with the id if it is not empty.
func (s Sandboxes) RevokePortURLs(ctx context.Context, ref string, port uint16, id string) error {
	query := url.Values{}
	if id != "" {
		query.Set("url", id)
	}
	_, err := s.c.do(ctx, call{op: "revoke URLs of port", method: http.MethodDelete, path: portPath(ref, port, "url"), query: query}, nil)
	return err
}

func portPath(ref string, port uint16, more string) path {
	return path{sandboxesPath, ref, "ports", strconv.Itoa(int(port)), more}
}

// DialPort opens a TCP connection to a port of the sandbox, for any protocol. A stopped sandbox is started first. The
// connection has no deadlines; its method CloseWrite ends one direction.
func (s Sandboxes) DialPort(ctx context.Context, ref string, port uint16) (*PortConn, error) {
	const op = "forward port"
	ws, err := s.dialWebSocket(ctx, path{sandboxesPath, ref, "forward", strconv.Itoa(int(port))}, nil, api.ForwardProtocol)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	c := &PortConn{ws: ws}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// PortConn is a TCP connection to a port of a sandbox. One goroutine may read while another writes.
type PortConn struct {
	ws     *websocket.Conn
	ctx    context.Context
	cancel context.CancelFunc
	left   []byte // bytes that were received and that Read has not returned yet
	ended  bool   // the other side sends no more
}

// Read reads bytes from the connection, and io.EOF after its end.
func (c *PortConn) Read(p []byte) (int, error) {
	for len(c.left) == 0 {
		if c.ended {
			return 0, io.EOF
		}
		kind, data, err := c.ws.Read(c.ctx)
		switch {
		case websocket.CloseStatus(err) == api.CloseKeyEnded:
			return 0, fmt.Errorf("read port: %w", keyEnded(err))
		case err != nil:
			return 0, fmt.Errorf("read port: %w", err)
		case kind == websocket.MessageText:
			c.ended = string(data) == api.ForwardEnd
		default:
			c.left = data
		}
	}
	n := copy(p, c.left)
	c.left = c.left[n:]
	return n, nil
}

// Write sends bytes.
func (c *PortConn) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		n := min(len(p)-sent, portMessage)
		if err := c.ws.Write(c.ctx, websocket.MessageBinary, p[sent:sent+n]); err != nil {
			return sent, fmt.Errorf("write port: %w", err)
		}
		sent += n
	}
	return len(p), nil
}

const portMessage = 64 << 10 // maximum bytes of one message

// CloseWrite tells the program in the sandbox that no more bytes come.
func (c *PortConn) CloseWrite() error {
	return c.ws.Write(c.ctx, websocket.MessageText, []byte(api.ForwardEnd))
}

// Close closes the connection.
func (c *PortConn) Close() error {
	c.cancel()
	return c.ws.CloseNow()
}
