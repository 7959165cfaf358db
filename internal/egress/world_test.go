package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/testkit"
)

// patience is how long a busy machine may take for what takes no time.
const patience = 30 * time.Second

// loopback is what tests let the proxy reach, since their upstreams are there.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}

// anywhere takes the guard away.
var anywhere = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// names is a resolver that knows a few names.
type names map[string][]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	texts, ok := n[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, Server: "192.0.2.53:53", IsNotFound: true}
	}
	var addrs []netip.Addr
	for _, text := range texts {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	return addrs, nil
}

// listen opens a listener as a sandbox would hand it out.
func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

type serverOf interface {
	Serve(ctx context.Context, ln net.Listener) error
}

// serve runs a proxy or a service until the test ends and returns where.
func serve(t testing.TB, s serverOf) (address string) {
	t.Helper()
	ln := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(patience):
			t.Error("Serve goes on after its context ended")
		}
	})
	return ln.Addr().String()
}

// through is a client of the proxy at an address, as programs in a sandbox are. It follows no redirects.
func through(t testing.TB, address string) *http.Client {
	tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: address})}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{
		Transport: tr, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// fetch gets a URL and returns the status and the body.
func fetch(t testing.TB, c *http.Client, url string) (status int, body string) {
	t.Helper()
	res, err := c.Get(url)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return res.StatusCode, string(b)
}

// dial connects to an address, with a deadline for everything.
func dial(t testing.TB, address string) *net.TCPConn {
	t.Helper()
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// send writes raw bytes to an address and reads one response.
func send(t testing.TB, address, raw string) (status int, body string) {
	t.Helper()
	c := dial(t, address)
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("%q: %v", raw, err)
	}
	return res.StatusCode, string(b)
}

// tunnelTo opens a tunnel and returns its two ends of reading and writing.
func tunnelTo(t testing.TB, proxy, target string) (*net.TCPConn, *bufio.Reader) {
	t.Helper()
	c := dial(t, proxy)
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(res.Body)
		t.Fatalf("CONNECT %s: %d %s", target, res.StatusCode, b)
	}
	return c, r
}

// accept serves each connection to a new listener with f and returns the address.
func accept(t testing.TB, f func(c *net.TCPConn)) (address string) {
	t.Helper()
	ln := listen(t)
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	t.Cleanup(func() { _ = ln.Close() })
	running.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(2 * patience))
				f(c.(*net.TCPConn))
			})
		}
	})
	return ln.Addr().String()
}

// echo copies by hand: the kernel's way takes two more descriptors for each connection.
func echo(c *net.TCPConn) { _, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c}) }

// port is the port of an address.
func port(t testing.TB, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(strings.TrimPrefix(address, "http://"), "https://"))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// logbook is a log that can be read while it is written.
type logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// settled waits until no more goroutines run than before, but for a few that the runtime and net/http
// keep for themselves.
func settled(t testing.TB, before int) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if now := runtime.NumGoroutine(); now > before+5 {
			return fmt.Errorf("%d goroutines, %d before", now, before)
		}
		return nil
	})
}

// counted waits until a meter has seen these bytes, each within [least, most]: a byte may arrive before it
// is counted.
func counted(t testing.TB, traffic *egress.Traffic, in, out [2]int64) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		i, o := traffic.In.Load(), traffic.Out.Load()
		if i < in[0] || i > in[1] || o < out[0] || o > out[1] {
			return fmt.Errorf("%d bytes in, want %v; %d out, want %v", i, in, o, out)
		}
		return nil
	})
}

// allowing is a proxy whose rules allow these, and which may reach loopback.
func allowing(t testing.TB, n names, rules ...string) *egress.Proxy {
	return &egress.Proxy{Sandbox: "box-1", Rules: mustRules(t, rules...), Resolver: n, AllowPrivate: loopback}
}
