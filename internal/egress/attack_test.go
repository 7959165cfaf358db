package egress_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/testkit"
)

const secret = "the machine's credentials"

// cloud is a network in which every address is the metadata service: what gets a connection gets the
// secret. It remembers what it was asked to connect to.
type cloud struct {
	server *httptest.Server
	mu     sync.Mutex
	asked  []string
}

func newCloud(t *testing.T) *cloud {
	c := &cloud{server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, secret)
	}))}
	t.Cleanup(c.server.Close)
	return c
}

func (c *cloud) dial(ctx context.Context, _, address string) (net.Conn, error) {
	c.mu.Lock()
	c.asked = append(c.asked, address)
	c.mu.Unlock()
	var d net.Dialer
	return d.DialContext(ctx, "tcp", c.server.Listener.Addr().String())
}

func (c *cloud) dialled() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := c.asked
	c.asked = nil
	return asked
}

// both asks for a host through a proxy, by CONNECT and by a whole URL.
func both(t *testing.T, proxy, host string) (connect, plain int, bodies string) {
	t.Helper()
	connect, a := send(t, proxy, fmt.Sprintf("CONNECT %s:80 HTTP/1.1\r\nHost: %s:80\r\n\r\nGET / HTTP/1.0\r\n\r\n", host, host))
	plain, b := send(t, proxy, fmt.Sprintf("GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n", host, host))
	return connect, plain, a + b
}

// Every address that leads to the inside of somebody's network: the guard alone keeps it out.
func TestSpecialAddressesAreOutOfReach(t *testing.T) {
	testkit.Proves(t, "E3")
	for _, addr := range []string{
		"169.254.169.254", "169.254.0.1", "127.0.0.1", "127.8.9.10", "0.0.0.0", "0.1.2.3",
		"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.100.100.200",
		"192.0.0.192", "192.0.2.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.7", "192.88.99.1",
		"224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16",
		"::", "::1", "::7f00:1", "::a9fe:a9fe", "fe80::1", "febf::1", "fec0::1", "fc00::1", "fd00:ec2::254",
		"2002:a9fe:a9fe::", "2002:7f00:1::1", "2001::a9fe:a9fe", "2001:0:4136:e378:8000:63bf:5601:5601",
		"64:ff9b::a9fe:a9fe", "64:ff9b::10.0.0.1", "64:ff9b:1::a9fe:a9fe", "2001:db8::1", "3fff::1",
		"2001:2::1", "2001:20::1", "100::1", "ff02::1", "4000::1", "5f00::1",
		"2606:4700::5efe:a9fe:a9fe", "2606:4700::200:5efe:10.0.0.1",
	} {
		t.Run(addr, func(t *testing.T) {
			net := newCloud(t)
			dns := names{"rebound.test": {addr}}
			unguarded := serve(t, &egress.Proxy{Rules: mustRules(t, "all"), Dial: net.dial, Resolver: dns, AllowPrivate: anywhere})
			guarded := serve(t, &egress.Proxy{Rules: mustRules(t, "all", "[::1]:80", addrRule(addr)), Dial: net.dial, Resolver: dns})
			for _, host := range []string{literal(addr), "rebound.test"} {
				connect, plain, body := both(t, unguarded, host)
				if connect != 200 || plain != 200 || !strings.Contains(body, secret) || len(net.dialled()) == 0 {
					t.Fatalf("%s without the guard: %d, %d %q: the attack proves nothing", host, connect, plain, body)
				}
				connect, plain, body = both(t, guarded, host)
				if connect != 403 || plain != 403 || strings.Contains(body, secret) {
					t.Errorf("%s: %d, %d %q", host, connect, plain, body)
				}
				if asked := net.dialled(); len(asked) != 0 {
					t.Errorf("%s was dialled: %q", host, asked)
				}
			}
		})
	}
}

func literal(addr string) string {
	if strings.Contains(addr, ":") {
		return "[" + addr + "]"
	}
	return addr
}

func addrRule(addr string) string { return literal(addr) + ":80" }

// Spellings that the C library takes for an address are no hosts here.
func TestOtherSpellingsOfAddressesAreRefused(t *testing.T) {
	testkit.Proves(t, "E3")
	for spelling, means := range map[string]string{
		"2852039166":            "169.254.169.254",
		"0xa9fea9fe":            "169.254.169.254",
		"0xA9.0xFE.0xA9.0xFE":   "169.254.169.254",
		"0251.0376.0251.0376":   "169.254.169.254",
		"025177524776":          "169.254.169.254",
		"169.254.43518":         "169.254.169.254",
		"169.16689662":          "169.254.169.254",
		"0251.254.0xa9fe":       "169.254.169.254",
		"00000169.254.169.0254": "", // read differently by different programs
		"127.1":                 "127.0.0.1",
		"2130706433":            "127.0.0.1",
		"0x7f.1":                "127.0.0.1",
		"0":                     "0.0.0.0",
	} {
		t.Run(spelling, func(t *testing.T) {
			out, err := exec.Command("getent", "ahostsv4", spelling).Output()
			if means != "" && (err != nil || !strings.HasPrefix(string(out), means+" ")) {
				t.Fatalf("getent: %q, %v: the attack proves nothing", out, err)
			}
			refusedEverywhere(t, spelling)
		})
	}
}

func TestIPv4InsideIPv6IsRefused(t *testing.T) {
	testkit.Proves(t, "E3")
	for _, spelling := range []string{
		"[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[0:0:0:0:0:ffff:a9fe:a9fe]", "[::FFFF:127.0.0.1]",
		"[::169.254.169.254]", "[::ffff:0:169.254.169.254]", "[fe80::1%25lo]", "[fe80::1%25eth0]", "[::1%25lo]",
	} {
		t.Run(spelling, func(t *testing.T) { refusedEverywhere(t, spelling) })
	}
}

// refusedEverywhere wants a host refused although everything is allowed, and nothing resolved or dialled.
func refusedEverywhere(t *testing.T, host string) {
	t.Helper()
	net := newCloud(t)
	dns := names{strings.ToLower(strings.Trim(host, "[]")): {"169.254.169.254"}}
	proxy := serve(t, &egress.Proxy{Rules: mustRules(t, "all"), Dial: net.dial, Resolver: dns})
	connect, plain, body := both(t, proxy, host)
	if connect/100 != 4 || plain/100 != 4 || strings.Contains(body, secret) || len(net.dialled()) != 0 {
		t.Errorf("%d, %d %q", connect, plain, body)
	}
}

// Addresses by which a plain process on the machine reaches the machine's own services.
func TestTheMachinesLoopbackIsOutOfReach(t *testing.T) {
	testkit.Proves(t, "E3")
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, secret) }))
	defer own.Close()
	at := port(t, own.URL)
	proxy := serve(t, &egress.Proxy{Rules: mustRules(t, "all", "localhost:*", "127.0.0.1:*")})
	for _, host := range []string{"127.0.0.1", "0.0.0.0", "localhost", "[::ffff:127.0.0.1]"} {
		url := "http://" + host + ":" + at + "/"
		if _, body := fetch(t, &http.Client{Timeout: patience}, url); body != secret {
			t.Fatalf("%s from a plain process: %q: the attack proves nothing", host, body)
		}
		if status, body := fetch(t, through(t, proxy), url); status != 403 || strings.Contains(body, secret) {
			t.Errorf("%s: %d %q", host, status, body)
		}
	}
}

// flipping answers with one address, then with the other, then with the first again.
type flipping struct {
	mu     sync.Mutex
	n      int
	addrs  []string
	lookup []string
}

func (f *flipping) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	addr := f.addrs[f.n%len(f.addrs)]
	f.n++
	f.lookup = append(f.lookup, host)
	return []netip.Addr{netip.MustParseAddr(addr)}, nil
}

const public, metadata = "93.184.216.34", "169.254.169.254"

func TestRebindingDoesNotHelp(t *testing.T) {
	testkit.Proves(t, "E3")
	net := newCloud(t)
	// Who checks a name and then connects by name has looked it up twice.
	naive := &flipping{addrs: []string{public, metadata}}
	checked, _ := naive.LookupNetIP(t.Context(), "ip", "flip.test")
	used, _ := naive.LookupNetIP(t.Context(), "ip", "flip.test")
	if checked[0].String() != public || used[0].String() != metadata {
		t.Fatal("the resolver does not flip: the attack proves nothing")
	}
	proxy := serve(t, &egress.Proxy{Rules: mustRules(t, "flip.test"), Dial: net.dial, Resolver: &flipping{addrs: []string{public, metadata}}})
	var allowed, refused int
	for range 20 {
		status, body := send(t, proxy, "CONNECT flip.test:443 HTTP/1.1\r\nHost: flip.test:443\r\n\r\nGET / HTTP/1.0\r\n\r\n")
		switch {
		case status == 200 && strings.Contains(body, secret): // all of this network says the secret
			allowed++
		case status == 403:
			refused++
		default:
			t.Errorf("%d %q", status, body)
		}
	}
	if allowed != 10 || refused != 10 {
		t.Errorf("%d allowed, %d refused", allowed, refused)
	}
	for _, asked := range net.dialled() {
		if asked != public+":443" {
			t.Errorf("connected to %s", asked)
		}
	}
}

func TestOfSeveralAddressesOnlyPublicOnesAreTried(t *testing.T) {
	net := newCloud(t)
	dns := names{"mixed.test": {metadata, "::ffff:10.0.0.1", "::ffff:" + public, "fd00::1"}}
	proxy := serve(t, &egress.Proxy{Rules: mustRules(t, "mixed.test"), Dial: net.dial, Resolver: dns})
	if status, _ := fetch(t, through(t, proxy), "http://mixed.test/"); status != 200 {
		t.Errorf("status %d", status)
	}
	if asked := net.dialled(); len(asked) != 1 || asked[0] != public+":80" {
		t.Errorf("connected to %q", asked)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	testkit.Proves(t, "E3")
	net := newCloud(t)
	lure := httptest.NewServer(http.RedirectHandler("http://"+metadata+"/latest/", http.StatusFound))
	defer lure.Close()
	// A plain process in that network follows the redirect to the secret.
	toLure := func(ctx context.Context, network, address string) (c net2, err error) {
		if strings.HasPrefix(address, metadata) {
			return net.dial(ctx, network, address)
		}
		return dialLoopback(ctx, lure.Listener.Addr().String())
	}
	plain := &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: toLure, DisableKeepAlives: true}}
	if _, body := fetch(t, plain, "http://lure.test/"); body != secret {
		t.Fatalf("without the proxy: %q: the attack proves nothing", body)
	}
	net.dialled()
	proxy := serve(t, &egress.Proxy{Rules: mustRules(t, "all"), Dial: toLure, Resolver: names{"lure.test": {public}}})
	client := through(t, proxy)
	if status, body := fetch(t, client, "http://lure.test/"); status != http.StatusFound || strings.Contains(body, secret) {
		t.Errorf("%d %q", status, body)
	}
	client.CheckRedirect = nil
	if status, body := fetch(t, client, "http://lure.test/"); status != 403 || strings.Contains(body, secret) {
		t.Errorf("a client that follows: %d %q", status, body)
	}
	if asked := net.dialled(); len(asked) != 0 {
		t.Errorf("connected to %q", asked)
	}
}

type net2 = net.Conn

func dialLoopback(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

func TestWhatIsNotAllowedIsNotEvenResolved(t *testing.T) {
	testkit.Proves(t, "E3")
	dns := &flipping{addrs: []string{public}}
	proxy := serve(t, &egress.Proxy{Rules: mustRules(t, "good.test:443"), Resolver: dns, Dial: newCloud(t).dial})
	for _, host := range []string{"secret-data.evil.test", "good.test.evil.test"} {
		if connect, plain, _ := both(t, proxy, host); connect != 403 || plain != 403 {
			t.Errorf("%s: %d, %d", host, connect, plain)
		}
	}
	if len(dns.lookup) != 0 {
		t.Errorf("resolved %q", dns.lookup)
	}
}
