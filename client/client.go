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
// All calls can be repeated safely, and the client repeats them: each POST carries an Idempotency-Key, so a lost
// answer, a busy server or a restarting server delays a call but causes no second effect. Streams continue after a
// lost connection where they were. In the errors of calls, errors.As finds an [api.Problem], whether the server sent
// it or no server answered. Only the error of an ended context may have none.
package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
)

// Client calls one server with one key. It is safe for concurrent use.
type Client struct {
	Sandboxes     Sandboxes
	Projects      Projects
	Conversations Conversations
	Keys          Keys
	Accounts      Accounts
	Agents        Agents
	Secrets       Secrets
	Slack         Slack
	Templates     Templates

	base      *url.URL
	key       string
	http      *http.Client
	agent     string
	attempts  int
	timeout   time.Duration
	maxAnswer int64
	peer      func(net.Addr) error
	notice    func(string)
}

// An Option configures a Client.
type Option func(*Client)

// WithAttempts sets the maximum number of times that a call is sent; with 1 it is never repeated. The default is 5.
func WithAttempts(n int) Option { return func(c *Client) { c.attempts = max(n, 1) } }

// WithTimeout limits the time of one call with all its attempts, unless its context has a deadline. The default is
// five minutes; zero: no limit.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// WithMaxAnswer limits the size of an answer in bytes. The default is 32 MiB.
func WithMaxAnswer(bytes int64) Option { return func(c *Client) { c.maxAnswer = bytes } }

// WithUserAgent sets the User-Agent header: the name of the calling program. The default is berth-go.
func WithUserAgent(name string) Option { return func(c *Client) { c.agent = name } }

// WithTransport replaces the HTTP transport. The client still follows no redirects.
func WithTransport(t http.RoundTripper) Option { return func(c *Client) { c.http.Transport = t } }

// WithRootCAs trusts only certificates that these authorities have signed, instead of the machine's authorities. It
// is for the client's own transport: do not combine it with WithTransport.
func WithRootCAs(pool *x509.CertPool) Option {
	return func(c *Client) {
		if t, ok := c.http.Transport.(*http.Transport); ok {
			t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		}
	}
}

// WithPeerCheck calls check with the server's address for each new connection, before the client sends anything. An
// error of check ends the connection and is the cause of the call's error. Connections of a transport that
// WithTransport has set are not checked.
func WithPeerCheck(check func(peer net.Addr) error) Option { return func(c *Client) { c.peer = check } }

// WithNotices calls f with each notice in an answer about files: the version that was restored since the sandbox's last
// use, and the changes that were lost.
func WithNotices(f func(notice string)) Option { return func(c *Client) { c.notice = f } }

// roundTrip sends one request.
func (c *Client) roundTrip(req *http.Request) (*http.Response, error) {
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if notice := res.Header.Get(api.HeaderNotice); notice != "" && c.notice != nil {
		c.notice(notice)
	}
	return res, nil
}

// New returns a client for the server at baseURL, such as http://127.0.0.1:7070. Without a key, only health and
// readiness can be requested. White space around the key, such as the newline at the end of a key file, is ignored.
func New(baseURL, key string, opts ...Option) (*Client, error) {
	base, err := parseBase(baseURL)
	if err != nil {
		return nil, err
	}
	key = strings.TrimSpace(key)
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the API key holds a space or a character that is not printable ASCII")
	}
	c := &Client{base: base, key: key, agent: "berth-go", attempts: 5, timeout: 5 * time.Minute, maxAnswer: 32 << 20}
	// A redirect could send the key to another host. The API uses no redirects.
	c.http = &http.Client{Transport: c.transport(), CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	for _, opt := range opts {
		opt(c)
	}
	c.Sandboxes, c.Projects, c.Conversations, c.Templates = Sandboxes{c}, Projects{c}, Conversations{c}, Templates{c}
	c.Keys, c.Accounts, c.Agents, c.Secrets, c.Slack = Keys{c}, Accounts{c}, Agents{c}, Secrets{c}, Slack{c}
	return c, nil
}

// Server returns the address of the server in its canonical form.
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

// redactUser removes the user and password of an invalid address, for the error message.
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
