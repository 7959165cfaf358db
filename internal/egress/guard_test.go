package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func nothing() ([]netip.Addr, error) { return nil, nil }

func TestPublicAddressesAreLetThrough(t *testing.T) {
	g := guard{own: nothing}
	for _, addr := range []string{
		"1.1.1.1", "8.8.8.8", "::ffff:8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
		"128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0",
		"198.17.255.255", "198.20.0.0", "203.0.114.0", "223.255.255.255", "168.63.129.17",
		"2000::1", "2001:200::1", "2001:4860:4860::8888", "2003::1", "2606:4700:4700::1111", "2a00:1450:4001::200e", "3ffe::1",
	} {
		if words := g.forbidden(netip.MustParseAddr(addr)); words != "" {
			t.Errorf("%s: %s", addr, words)
		}
	}
}

func TestSpecialAddressesHaveNames(t *testing.T) {
	g := guard{own: nothing}
	for addr, want := range map[string]string{
		"169.254.169.254": "link-local", "::ffff:169.254.169.254": "link-local", "fe80::1%eth0": "link-local", "2606:4700::1%x": "link-local",
		"127.0.0.1": "loopback", "::1": "loopback", "10.1.2.3": "private", "fd00::1": "private", "100.64.0.0": "carrier",
		"0.0.0.0": "machine itself", "::": "machine itself", "255.255.255.255": "broadcast", "240.0.0.1": "reserved", "224.0.0.1": "multicast",
		"2002:808:808::1": "6to4", "2001::1": "Teredo", "64:ff9b::808:808": "NAT64", "::8.8.8.8": "inside an IPv6", "fdff::": "private",
	} {
		if got := g.forbidden(netip.MustParseAddr(addr)); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
	if g.forbidden(netip.Addr{}) == "" {
		t.Error("no address is an address")
	}
}

// A public address of the machine leads to its own services, past whatever filters come from outside.
func TestAddressesOfTheMachineAreRefused(t *testing.T) {
	own := netip.MustParseAddr("8.8.8.8")
	g := guard{own: func() ([]netip.Addr, error) { return []netip.Addr{own}, nil }}
	if g.forbidden(own) == "" || g.forbidden(netip.MustParseAddr("::ffff:8.8.8.8")) == "" || g.forbidden(netip.MustParseAddr("8.8.4.4")) != "" {
		t.Error("the wrong ones")
	}
	g.own = func() ([]netip.Addr, error) { return nil, errors.New("no answer") }
	if g.forbidden(own) == "" {
		t.Error("let through without knowing")
	}
	all, err := ownAddresses()
	if err != nil || !strings.Contains(fmt.Sprint(all), "127.0.0.1") {
		t.Errorf("this machine has %v, %v", all, err)
	}
}

// The last check is made on what the kernel is given, whatever was checked before.
func TestDialRefusesWhatTheKernelIsGiven(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	open := guarded(guard{own: nothing, allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::/0")}})
	shut := guarded(guard{own: nothing})
	for _, host := range []string{"127.0.0.1", "localhost", "::ffff:127.0.0.1", "127.8.9.10"} {
		if c, err := open(t.Context(), "tcp", net.JoinHostPort(host, port)); err == nil {
			_ = c.Close()
		} else if host != "127.8.9.10" { // which nobody listens on
			t.Fatalf("%s without the guard: %v: the attack proves nothing", host, err)
		}
		if _, err := shut(t.Context(), "tcp", net.JoinHostPort(host, port)); err == nil || !strings.Contains(err.Error(), "loopback address") {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestHTTPSServiceVerifiesItsUpstream(t *testing.T) {
	upstream := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) }))
	defer upstream.Close()
	upstream.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	pool := x509.NewCertPool()
	pool.AddCert(upstream.Certificate())
	u, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	for want, s := range map[int]*Service{200: {Upstream: u, roots: pool}, 502: {Upstream: u}} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Serve(ctx, ln) }()
		res, err := http.Get("http://" + ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != want || want == 200 && string(body) != u.Host {
			t.Errorf("%d %q, want %d", res.StatusCode, body, want)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestWordsForFailures(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		words  string
	}{
		{&net.DNSError{IsNotFound: true}, 502, "no such name"},
		{&net.DNSError{IsTimeout: true}, 504, "it does not answer in time"},
		{&net.DNSError{Server: "10.0.0.1:53"}, 502, "its name cannot be resolved now"},
		{&net.OpError{Err: syscall.ECONNREFUSED}, 502, "connection refused"},
		{&net.OpError{Err: syscall.ENETUNREACH}, 502, "it is unreachable"},
		{&net.OpError{Err: syscall.EHOSTUNREACH}, 502, "it is unreachable"},
		{context.DeadlineExceeded, 504, "it does not answer in time"},
		{io.ErrUnexpectedEOF, 502, "the connection failed"},
	} {
		if status, words := failure(c.err); status != c.status || words != c.words {
			t.Errorf("%v: %d %q", c.err, status, words)
		}
	}
}

func TestTunnelLivesAsLongAsBytesPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside, client := net.Pipe()
		outside, upstream := net.Pipe()
		start := time.Now()
		ended := make(chan time.Duration, 1)
		go func() {
			tunnel(t.Context(), inside, []byte("early "), outside, time.Minute)
			ended <- time.Since(start)
		}()
		buf := make([]byte, 100)
		if n, err := upstream.Read(buf); string(buf[:n]) != "early " {
			t.Fatalf("%q, %v", buf[:n], err)
		}
		ends := [2]net.Conn{client, upstream}
		for i := range 10 {
			time.Sleep(50 * time.Second)
			if _, err := ends[i%2].Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if n, err := ends[1-i%2].Read(buf); n != 1 {
				t.Fatal(err)
			}
		}
		if _, err := client.Read(buf); err == nil {
			t.Error("more came")
		}
		if took := <-ended; took != 560*time.Second {
			t.Errorf("ended after %v", took)
		}
	})
}

func TestJournalSaysHowMuchItLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		j := newJournal(slog.New(slog.NewTextHandler(&b, nil)), "box-1")
		r := badRequest(strings.Repeat("x", 1000))
		for range journalLines + 7 {
			j.refused(t.Context(), r)
		}
		if n := strings.Count(b.String(), "\n"); n != journalLines {
			t.Errorf("%d lines", n)
		}
		time.Sleep(journalPeriod)
		b.Reset()
		j.refused(t.Context(), r)
		if !strings.Contains(b.String(), "not_logged=7") || len(b.String()) > 600 {
			t.Errorf("log: %s", b.String())
		}
	})
}

// hopeless is a listener that fails for good.
type hopeless struct{ net.Listener }

func (hopeless) Accept() (net.Conn, error) { return nil, io.ErrClosedPipe }

func TestAFailedAcceptTakesNoSlot(t *testing.T) {
	b := limitListener(hopeless{}, 1, false)
	for range 3 {
		if _, err := b.Accept(); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Accept: %v", err)
		}
	}
}

// scarce is a listener whose process has no descriptors left, for a while.
type scarce struct {
	net.Listener
	errs chan error
}

func (s scarce) Accept() (net.Conn, error) {
	select {
	case err := <-s.errs:
		return nil, err
	default:
		return s.Listener.Accept()
	}
}

// A long connection must not fill the memory with what passed it.
func TestOnlyAHeadIsRemembered(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, record := range []bool{true, false} {
		b := limitListener(ln, 1, record)
		out, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(out, "head body")
		_ = out.Close()
		c, err := b.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadFull(c, make([]byte, 4))
		if got := string(c.(*client).take()); got != "head" && record || got != "" && !record {
			t.Errorf("remembers %q", got)
		}
		_, _ = io.ReadAll(c)
		if got := c.(*client).take(); len(got) != 0 {
			t.Errorf("then remembers %q", got)
		}
		_ = c.Close()
	}
}

func TestAShortageOfDescriptorsIsWaitedOut(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := scarce{ln, make(chan error, 3)}
	s.errs <- &net.OpError{Err: syscall.EMFILE}
	s.errs <- &net.OpError{Err: syscall.ECONNABORTED}
	b := limitListener(s, 1, false)
	go func() {
		if c, err := net.Dial("tcp", ln.Addr().String()); err == nil {
			_ = c.Close()
		}
	}()
	c, err := b.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	full := make(chan error, 1)
	go func() {
		_, err := b.Accept() // there is one slot, and it is taken
		full <- err
	}()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := <-full; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
	s.errs <- &net.OpError{Err: syscall.EMFILE}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := b.Accept(); err == nil {
		t.Error("accepted after Close")
	}
}
