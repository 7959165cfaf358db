// Package client talks to a Berth server over HTTP.
//
// [New] makes a [Client]; its fields group the calls by resource:
//
//	c, err := client.New("http://127.0.0.1:7070", key)
//	sandbox, made, err := c.Sandboxes.Create(ctx, api.CreateSandbox{Name: "scratch"})
//	for sandbox, err := range c.Sandboxes.List(ctx, client.SandboxFilter{}) { … }
//	turn, err := c.Conversations.Prompt(ctx, id, api.Prompt{Prompt: "write notes.txt: hello"})
//	for event, err := range turn.Events() { … }
//
// Every call may be repeated safely and is: each POST carries an Idempotency-Key, so a lost answer,
// a busy server or one that is just restarting costs a pause and no second effect. Streams go on after
// a cut where they were. What cannot be mended comes back as an error in which errors.As finds an
// [api.Problem], whether the server sent it or no server answered at all; only an ended context does
// not.
package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client is one server seen with one key. It is safe for concurrent use.
type Client struct {
	Sandboxes     Sandboxes
	Projects      Projects
	Conversations Conversations
	Keys          Keys
	Accounts      Accounts
	Agents        Agents
	Templates     Templates

	base     *url.URL
	key      string
	http     *http.Client
	agent    string
	attempts int
	timeout  time.Duration
	most     int64
	peer     func(net.Addr) error
}

// An Option changes how a client calls.
type Option func(*Client)

// WithAttempts bounds how often one call is sent in all; 1 never repeats. The default is 5.
func WithAttempts(n int) Option { return func(c *Client) { c.attempts = max(n, 1) } }

// WithTimeout bounds one call with all its attempts where the context has no deadline of its own.
// The default is five minutes.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// WithMaxAnswer bounds how many bytes of an answer are read. The default is 32 MiB.
func WithMaxAnswer(bytes int64) Option { return func(c *Client) { c.most = bytes } }

// WithUserAgent names the program that calls.
func WithUserAgent(name string) Option { return func(c *Client) { c.agent = name } }

// WithTransport replaces the HTTP transport. Redirects stay unfollowed whichever it is.
func WithTransport(t http.RoundTripper) Option { return func(c *Client) { c.http.Transport = t } }

// WithPeerCheck asks about the far end of each new connection before anything is sent over it; an
// error ends the connection and is the reason that no server was reached. A transport of your own
// is not checked.
func WithPeerCheck(check func(peer net.Addr) error) Option { return func(c *Client) { c.peer = check } }

// New makes a client for the server at baseURL, such as http://127.0.0.1:7070. An empty key calls
// without one, which only health and readiness answer.
func New(baseURL, key string, opts ...Option) (*Client, error) {
	base, err := parseBase(baseURL)
	if err != nil {
		return nil, err
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the API key holds a space or a character that is not printable ASCII")
	}
	c := &Client{base: base, key: key, agent: "berth-go", attempts: 5, timeout: 5 * time.Minute, most: 32 << 20}
	// A redirect could carry the key to another host, and the API has none.
	c.http = &http.Client{Transport: c.transport(), CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	for _, opt := range opts {
		opt(c)
	}
	c.Sandboxes, c.Projects, c.Conversations, c.Templates = Sandboxes{c}, Projects{c}, Conversations{c}, Templates{c}
	c.Keys, c.Accounts, c.Agents = Keys{c}, Accounts{c}, Agents{c}
	return c, nil
}

// Server is the address the client was made with, in its canonical form.
func (c *Client) Server() string { return c.base.String() }

func parseBase(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("the server address %q is not of the form http://host:port", redactUser(raw))
	case u.User != nil:
		return nil, fmt.Errorf("the server address of %s holds a user or password; give the key apart from it", u.Host)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the server address %q may not hold a query or fragment", raw)
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	return u, nil
}

// redactUser keeps a password in an unreadable address out of the error about it.
func redactUser(raw string) string {
	if at := strings.LastIndex(raw, "@"); at >= 0 {
		return "…" + raw[at:]
	}
	return raw
}

func (c *Client) transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = c.dial
	t.MaxResponseHeaderBytes = 64 << 10
	return t
}

func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil || c.peer == nil {
		return conn, err
	}
	if err := c.peer(conn.RemoteAddr()); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}
