package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/testkit"
)

func TestTLSThroughATunnel(t *testing.T) {
	upstream := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %d", r.Method, r.Host, len(b))
	}))
	defer upstream.Close()
	at := port(t, upstream.URL)
	var traffic egress.Traffic
	p := allowing(t, names{"api.example.com": {"127.0.0.1"}, "example.com": {"127.0.0.1"}}, "*.example.com:"+at)
	p.Meter = &traffic
	client := through(t, serve(t, p))
	client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: upstream.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}

	const size = 1 << 20
	res, err := client.Post("https://api.example.com:"+at+"/", "text/plain", bytes.NewReader(make([]byte, size)))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); string(body) != fmt.Sprintf("POST api.example.com:%s %d", at, size) {
		t.Errorf("got %q", body)
	}
	counted(t, &traffic, [2]int64{100, size}, [2]int64{size, 2 * size})
	if _, err := client.Get("https://example.com:" + at + "/"); err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Errorf("the name above the allowed ones: %v", err)
	}
}

func TestPlainRequestsArriveWithoutTheProxysHeaders(t *testing.T) {
	got := make(chan *http.Request, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "1")
		w.Header().Set("X-Kept", "1")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.Copy(w, r.Body)
	}))
	defer upstream.Close()
	at := port(t, upstream.URL)
	proxy := serve(t, allowing(t, names{"web.test": {"127.0.0.1"}}, "web.test:"+at))
	c := dial(t, proxy)
	fmt.Fprintf(c, "POST http://WEB.test.:%s/a%%2fb?x=1;y&%%zz HTTP/1.1\r\nHost: web.test:%s\r\n"+
		"Connection: X-Mine, keep-alive, Upgrade\r\nX-Mine: 1\r\nKeep-Alive: 5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic c2VjcmV0\r\n"+
		"X-Forwarded-For: 10.1.1.1\r\nForwarded: for=10.1.1.1\r\nUpgrade: websocket\r\nTE: gzip\r\nAuthorization: Bearer mine\r\nContent-Length: 5\r\n\r\nhello", at, at)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusTeapot || string(body) != "hello" || res.Header.Get("X-Kept") != "1" || res.Header.Get("X-Hop") != "" {
		t.Errorf("%d %q %v", res.StatusCode, body, res.Header)
	}
	r := <-got
	if r.Host != "web.test:"+at || r.RequestURI != "/a%2fb?x=1;y&%zz" {
		t.Errorf("host %q, target %q", r.Host, r.RequestURI)
	}
	if len(r.Header) != 2 || r.Header.Get("Authorization") != "Bearer mine" || r.Header.Get("Content-Length") != "5" {
		t.Errorf("headers %v", r.Header)
	}
}

func TestBytesOfPlainRequestsAreCounted(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(make([]byte, 300_000))
	}))
	defer upstream.Close()
	var traffic egress.Traffic
	p := allowing(t, nil, "127.0.0.1:*")
	p.Meter = &traffic
	client := through(t, serve(t, p))
	for range 3 {
		res, err := client.Post(upstream.URL, "text/plain", io.MultiReader(bytes.NewReader(make([]byte, 100_000))))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, res.Body); n != 300_000 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		res.Body.Close()
	}
	counted(t, &traffic, [2]int64{900_000, 1_000_000}, [2]int64{300_000, 400_000})
}

func TestStreamsAreNotHeldBack(t *testing.T) {
	next := make(chan string)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "24") // no sign of a stream but this: it does not come at once
		for text := range next {
			_, _ = io.WriteString(w, text)
			w.(http.Flusher).Flush()
		}
	}))
	defer upstream.Close()
	defer close(next)
	res, err := through(t, serve(t, allowing(t, nil, "127.0.0.1:*"))).Get(streamStart(next, upstream.URL))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	r := bufio.NewReader(res.Body)
	for i := range 3 {
		if i > 0 {
			next <- fmt.Sprintf("data: %d\n", i)
		}
		if line, err := r.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("%q, %v", line, err)
		}
	}
}

// streamStart has the first line sent as soon as the upstream is asked.
func streamStart(next chan<- string, url string) string {
	go func() { next <- "data: 0\n" }()
	return url
}

func TestRequestsThatCouldBeReadTwoWaysAreRefused(t *testing.T) {
	reached := make(chan string, 100)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reached <- r.RequestURI }))
	defer upstream.Close()
	at := upstream.Listener.Addr().String()
	proxy := serve(t, allowing(t, names{"other.test": {"127.0.0.1"}}, "127.0.0.1:*", "other.test:*"))
	get := "GET http://" + at + "/ HTTP/1.1\r\nHost: " + at + "\r\n"
	post := "POST http://" + at + "/ HTTP/1.1\r\nHost: " + at + "\r\n"
	for name, c := range map[string]struct {
		raw    string
		status int
		words  string
	}{
		"length and chunks":       {post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", 400, "both Content-Length and Transfer-Encoding"},
		"chunks and length":       {post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400, "both Content-Length and Transfer-Encoding"},
		"two lengths":             {post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", 400, ""},
		"one length twice":        {post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400, "twice"},
		"list of lengths":         {post + "Content-Length: 5, 5\r\n\r\nhello", 400, ""},
		"signed length":           {post + "Content-Length: +5\r\n\r\nhello", 400, ""},
		"chunks twice":            {post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501, ""},
		"chunks disguised":        {post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501, ""},
		"chunks, identity":        {post + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 501, ""},
		"chunks in HTTP/1.0":      {"POST http://" + at + "/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "version of HTTP"},
		"space before the colon":  {post + "Content-Length : 5\r\n\r\nhello", 400, ""},
		"two hosts":               {get + "Host: other.test\r\n\r\n", 400, ""},
		"another host":            {"GET http://" + at + "/ HTTP/1.1\r\nHost: other.test\r\n\r\n", 400, "different hosts"},
		"another port":            {"GET http://" + at + "/ HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n", 400, "different hosts"},
		"no host":                 {"GET http://" + at + "/ HTTP/1.1\r\n\r\n", 400, ""},
		"empty host":              {"GET http://" + at + "/ HTTP/1.1\r\nHost:\r\n\r\n", 400, "different hosts"},
		"not a whole URL":         {"GET / HTTP/1.1\r\nHost: " + at + "\r\n\r\n", 400, "whole URL"},
		"star":                    {"OPTIONS * HTTP/1.1\r\nHost: " + at + "\r\n\r\n", 400, "whole URL"},
		"opaque":                  {"GET http:" + at + " HTTP/1.1\r\nHost: " + at + "\r\n\r\n", 400, ""},
		"https by URL":            {"GET https://" + at + "/ HTTP/1.1\r\nHost: " + at + "\r\n\r\n", 400, "CONNECT only"},
		"ftp":                     {"GET ftp://" + at + "/ HTTP/1.1\r\nHost: " + at + "\r\n\r\n", 400, "HTTP only"},
		"user":                    {"GET http://other.test@" + at + "/ HTTP/1.1\r\nHost: " + at + "\r\n\r\n", 400, "user"},
		"CONNECT with a user":     {"CONNECT other.test@" + at + " HTTP/1.1\r\nHost: " + at + "\r\n\r\n", 400, ""},
		"CONNECT without a port":  {"CONNECT other.test HTTP/1.1\r\nHost: other.test\r\n\r\n", 403, "no port"},
		"CONNECT to port 0":       {"CONNECT other.test:0 HTTP/1.1\r\nHost: other.test\r\n\r\n", 403, "1 to 65535"},
		"CONNECT to a URL":        {"CONNECT http://" + at + "/ HTTP/1.1\r\nHost: " + at + "\r\n\r\n", 400, ""},
		"CONNECT to a path":       {"CONNECT /x HTTP/1.1\r\nHost: " + at + "\r\n\r\n", 400, "host:port"},
		"CONNECT with a query":    {"CONNECT " + at + "?x HTTP/1.1\r\nHost: x\r\n\r\n", 400, "host:port"},
		"CONNECT with a body":     {"CONNECT " + at + " HTTP/1.1\r\nHost: " + at + "\r\nContent-Length: 5\r\n\r\nhello", 400, "no body"},
		"bare IPv6":               {"CONNECT ::1:80 HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
		"name in brackets":        {"CONNECT [other.test]:80 HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
		"HTTP/2":                  {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, ""},
		"not HTTP":                {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", 400, ""},
		"control character":       {"GET http://" + at + "/\x01 HTTP/1.1\r\nHost: " + at + "\r\n\r\n", 400, ""},
		"escape in the host":      {"GET http://127%2e0.0.1/ HTTP/1.1\r\nHost: 127%2e0.0.1\r\n\r\n", 400, ""},
		"space in the host":       {"CONNECT other.test%20:80 HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
		"header without a colon":  {get + "Nonsense\r\n\r\n", 400, ""},
		"nothing of the above":    {get + "\r\n", 200, ""},
		"HTTP/1.0 needs no host":  {"GET http://" + at + "/ HTTP/1.0\r\n\r\n", 200, ""},
		"international host":      {"CONNECT \xc3\xbc.test:80 HTTP/1.1\r\nHost: x\r\n\r\n", 403, "xn--tda.test:80"},
		"another spelling of one": {"GET http://OTHER.test.:" + port(t, at) + "/ HTTP/1.1\r\nHost: other.TEST:" + port(t, at) + "\r\n\r\n", 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			status, body := send(t, proxy, c.raw)
			if status != c.status || !strings.Contains(body, c.words) {
				t.Errorf("%d %q, want %d %q", status, body, c.status, c.words)
			}
			for len(reached) > 0 {
				if at := <-reached; c.status != 200 || at != "/" {
					t.Errorf("the upstream was asked for %s", at)
				}
			}
		})
	}
}

func TestOneRequestPerConnection(t *testing.T) {
	reached := make(chan string, 10)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reached <- r.RequestURI }))
	defer upstream.Close()
	at := upstream.Listener.Addr().String()
	c := dial(t, serve(t, allowing(t, nil, "127.0.0.1:*")))
	for _, path := range []string{"first", "second"} {
		fmt.Fprintf(c, "GET http://%s/%s HTTP/1.1\r\nHost: %s\r\n\r\n", at, path, at)
	}
	if _, err := io.ReadAll(c); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatal(err)
	}
	if got := <-reached; got != "/first" || len(reached) != 0 {
		t.Errorf("asked for %q and %d more", got, len(reached))
	}
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	var log logbook
	down := listen(t)
	nobody := down.Addr().String()
	_ = down.Close()
	dns := names{"inside.test": {"10.0.0.1"}, "empty.test": {}, "api.good.test": {"127.0.0.1"}}
	p := allowing(t, dns, "good.test:443", "inside.test", "gone.test", "empty.test", "127.0.0.1:*")
	p.Log = log.logger()
	proxy := serve(t, p)
	for host, c := range map[string]struct {
		status int
		words  []string
		logged string
	}{
		"evil.test:443":     {403, []string{"may not connect to evil.test:443", `add "evil.test:443" to egress in the sandbox's template`}, "target=evil.test:443"},
		"api.good.test:443": {403, []string{"may not connect to api.good.test:443"}, "target=api.good.test:443"},
		"good.test:80":      {403, []string{"may not connect to good.test:80"}, "target=good.test:80"},
		"inside.test:80":    {403, []string{"leads to a private address", "public addresses only"}, "10.0.0.1 is a private address"},
		"0x7f.1:80":         {403, []string{`may not connect to "0x7f.1:80"`, "four decimal numbers"}, "target=0x7f.1:80"},
		"gone.test:443":     {502, []string{"cannot connect to gone.test:443: no such name"}, "status=502"},
		"empty.test:443":    {502, []string{"cannot connect to empty.test:443: no such name"}, "no address"},
		nobody:              {502, []string{"cannot connect to " + nobody + ": connection refused"}, "target=" + nobody},
	} {
		status, body := send(t, proxy, "CONNECT "+host+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		if status != c.status {
			t.Errorf("%s: status %d, want %d", host, status, c.status)
		}
		for _, want := range c.words {
			if !strings.Contains(body, want) {
				t.Errorf("%s: %q lacks %q", host, body, want)
			}
		}
		if strings.Contains(body, "192.0.2.53") || strings.Contains(body, "10.0.0.1") || strings.Contains(body, "lookup") {
			t.Errorf("%s: %q tells of the machine outside", host, body)
		}
		if !strings.Contains(log.String(), c.logged) {
			t.Errorf("%s: not in the log: %q", host, c.logged)
		}
	}
	if lines := strings.Split(strings.TrimSpace(log.String()), "\n"); len(lines) != 8 {
		t.Errorf("%d lines in the log", len(lines))
	} else if !strings.Contains(lines[0], "sandbox_id=box-1") || !strings.Contains(lines[0], "egress refused") {
		t.Errorf("log says %q", lines[0])
	}
}

func TestASandboxCannotFloodTheLog(t *testing.T) {
	var log logbook
	p := allowing(t, nil)
	p.Log = log.logger()
	proxy := serve(t, p)
	for range 100 {
		if status, _ := send(t, proxy, "CONNECT evil.test:443 HTTP/1.1\r\n\r\n"); status != 403 {
			t.Fatalf("status %d", status)
		}
	}
	if n := strings.Count(log.String(), "\n"); n == 0 || n > 60 {
		t.Errorf("%d lines", n)
	}
}

func TestClientsThatGiveUpAreNotLoggedAsRefused(t *testing.T) {
	var log logbook
	dialling, gone := make(chan struct{}), make(chan struct{})
	p := &egress.Proxy{Rules: mustRules(t, "all"), Resolver: names{"slow.test": {public}}, Log: log.logger()}
	p.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		close(dialling)
		<-ctx.Done()
		close(gone)
		return nil, ctx.Err()
	}
	proxy := serve(t, p)
	c := dial(t, proxy)
	_, _ = io.WriteString(c, "CONNECT slow.test:443 HTTP/1.1\r\n\r\n")
	<-dialling
	_ = c.Close()
	<-gone
	if status, _ := send(t, proxy, "CONNECT 10.0.0.1:443 HTTP/1.1\r\n\r\n"); status != 403 {
		t.Errorf("status %d", status)
	}
	if got := log.String(); strings.Contains(got, "slow.test") || !strings.Contains(got, "10.0.0.1:443") {
		t.Errorf("log: %s", got)
	}
}

func TestHalfClosedTunnelsGoOn(t *testing.T) {
	heard := make(chan string, 1)
	upstream := accept(t, func(c *net.TCPConn) {
		b, _ := io.ReadAll(c) // to the client's end
		_, _ = fmt.Fprintf(c, "you said %q", b)
		_ = c.CloseWrite()
		heard <- string(b)
	})
	proxy := serve(t, allowing(t, nil, "127.0.0.1:*"))
	c, r := tunnelTo(t, proxy, upstream)
	_, _ = io.WriteString(c, "hello")
	_ = c.CloseWrite()
	if b, err := io.ReadAll(r); err != nil || string(b) != `you said "hello"` {
		t.Errorf("%q, %v", b, err)
	}
	if got := <-heard; got != "hello" {
		t.Errorf("heard %q", got)
	}
}

func TestUpstreamMayEndFirst(t *testing.T) {
	heard := make(chan string, 1)
	upstream := accept(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "bye")
		_ = c.CloseWrite()
		b, _ := io.ReadAll(c)
		heard <- string(b)
	})
	c, r := tunnelTo(t, serve(t, allowing(t, nil, "127.0.0.1:*")), upstream)
	if b, err := io.ReadAll(r); err != nil || string(b) != "bye" {
		t.Fatalf("%q, %v", b, err)
	}
	_, _ = io.WriteString(c, "still here")
	_ = c.Close()
	if got := <-heard; got != "still here" {
		t.Errorf("heard %q", got)
	}
}

func TestEarlyBytesArriveInOrder(t *testing.T) {
	upstream := accept(t, echo)
	c := dial(t, serve(t, allowing(t, nil, "127.0.0.1:*")))
	want := strings.Repeat("0123456789", 10_000)
	go func() {
		_, _ = fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\n\r\n%s", upstream, want)
		_ = c.CloseWrite()
	}()
	b, err := io.ReadAll(c)
	_, got, _ := strings.Cut(string(b), "\r\n\r\n")
	if err != nil || got != want {
		t.Errorf("%d bytes, want %d; %v", len(got), len(want), err)
	}
}

func TestListenersErrorIsReturned(t *testing.T) {
	for name, s := range map[string]serverOf{
		"proxy": &egress.Proxy{},
		"http":  service(t, "http://127.0.0.1:1"),
		"tcp":   service(t, "tcp://127.0.0.1:1"),
	} {
		if err := s.Serve(t.Context(), broken{listen(t)}); err == nil || err.Error() != "broken" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type broken struct{ net.Listener }

func (broken) Accept() (net.Conn, error) { return nil, fmt.Errorf("broken") }

func TestServeEndsEverythingWithItsContext(t *testing.T) {
	silent := accept(t, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
	dialling := make(chan struct{}, 2)
	p := allowing(t, names{"slow.test": {"127.0.0.1"}}, "127.0.0.1:*", "slow.test")
	p.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasSuffix(address, port(t, silent)) {
			return dialLoopback(ctx, address)
		}
		dialling <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ln := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, ln) }()
	proxy := ln.Addr().String()
	_, tunnelled := tunnelTo(t, proxy, silent)
	half := dial(t, proxy)
	_, _ = io.WriteString(half, "CONNECT some")
	asking := dial(t, proxy)
	_, _ = io.WriteString(asking, "GET http://"+silent+"/ HTTP/1.1\r\nHost: "+silent+"\r\n\r\n")
	for _, raw := range []string{"CONNECT slow.test:80 HTTP/1.1\r\n\r\n", "GET http://slow.test/ HTTP/1.1\r\nHost: slow.test\r\n\r\n"} {
		_, _ = io.WriteString(dial(t, proxy), raw)
	}
	<-dialling
	<-dialling
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Serve: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("Serve goes on")
	}
	for _, r := range []io.Reader{tunnelled, half, asking} {
		if _, err := io.ReadAll(r); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Error(err)
		}
	}
	if c, err := net.Dial("tcp", proxy); err == nil {
		_ = c.Close()
		t.Error("the listener is open")
	}
}

func TestOperatorMayAllowPrivateAddresses(t *testing.T) {
	upstream := accept(t, echo)
	p := allowing(t, names{"inside.test": {"127.0.0.1"}}, "inside.test:*")
	c, r := tunnelTo(t, serve(t, p), "inside.test:"+port(t, upstream))
	_, _ = io.WriteString(c, "hi\n")
	if line, err := r.ReadString('\n'); line != "hi\n" {
		t.Errorf("%q, %v", line, err)
	}
	p.AllowPrivate = nil
	if status, _ := send(t, serve(t, p), "CONNECT inside.test:"+port(t, upstream)+" HTTP/1.1\r\n\r\n"); status != 403 {
		t.Errorf("without it: %d", status)
	}
}

func TestTheNextAddressIsTriedWhenOneIsDown(t *testing.T) {
	upstream := accept(t, echo)
	var asked []string
	p := &egress.Proxy{Rules: mustRules(t, "two.test"), Resolver: names{"two.test": {"8.8.8.8", "2606:4700::1111", "8.8.4.4"}}}
	p.Dial = func(ctx context.Context, _, address string) (net.Conn, error) {
		asked = append(asked, address)
		if len(asked) < 3 {
			return nil, fmt.Errorf("down")
		}
		return dialLoopback(ctx, upstream)
	}
	tunnelTo(t, serve(t, p), "two.test:443")
	if got := strings.Join(asked, " "); got != "8.8.8.8:443 [2606:4700::1111]:443 8.8.4.4:443" {
		t.Errorf("asked %s", got)
	}
}

func TestUnansweredDialsEnd(t *testing.T) {
	p := &egress.Proxy{Rules: mustRules(t, "all"), Resolver: names{"slow.test": {"8.8.8.8", "8.8.4.4"}}, Limits: egress.Limits{DialTimeout: 50 * time.Millisecond}}
	p.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	testkit.Proves(t, "E6")
	if connect, plain, body := both(t, serve(t, p), "slow.test"); connect != 504 || plain != 504 || !strings.Contains(body, "in time") {
		t.Errorf("%d, %d %q", connect, plain, body)
	}
}
