package egress_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/egress"
)

// service is one that leads to a URL.
func service(t testing.TB, upstream string) *egress.Service {
	t.Helper()
	all, err := egress.ParseServices(map[string]string{"127.0.0.1:8788": upstream})
	if err != nil {
		t.Fatal(err)
	}
	all[0].Sandbox = "box-1"
	return &all[0]
}

func TestServicesAreParsedInOrder(t *testing.T) {
	all, err := egress.ParseServices(map[string]string{
		"127.0.0.1:9000": "https://model.example/v1",
		"127.0.0.1:5432": "tcp://127.0.0.1:5432",
		"127.0.0.1:8788": "http://127.0.0.1:4000",
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range all {
		got = append(got, fmt.Sprintf("%d %s", s.Port, s.Upstream))
	}
	if want := "5432 tcp://127.0.0.1:5432, 8788 http://127.0.0.1:4000, 9000 https://model.example/v1"; strings.Join(got, ", ") != want {
		t.Errorf("got %q", got)
	}
	if none, err := egress.ParseServices(nil); err != nil || len(none) != 0 {
		t.Errorf("of nothing: %v, %v", none, err)
	}
}

func TestBadServicesAreRefusedWithWords(t *testing.T) {
	const good = "http://127.0.0.1:4000"
	for _, c := range []struct{ inside, upstream, want string }{
		{"127.0.0.1:3128", good, "port 3128 is the proxy's"},
		{"127.0.0.1:0", good, "listens on 127.0.0.1:port"},
		{"127.0.0.1", good, "listens on 127.0.0.1:port"},
		{"127.0.0.1:08788", good, "listens on 127.0.0.1:port"},
		{"127.0.0.1:70000", good, "listens on 127.0.0.1:port"},
		{"127.0.0.2:80", good, "listens on 127.0.0.1:port"},
		{"0.0.0.0:80", good, "listens on 127.0.0.1:port"},
		{"localhost:80", good, "listens on 127.0.0.1:port"},
		{"[::1]:80", good, "listens on 127.0.0.1:port"},
		{"[::ffff:127.0.0.1]:80", good, "listens on 127.0.0.1:port"},
		{"8788", good, "listens on 127.0.0.1:port"},
		{"127.0.0.1:80", "", "names no host"},
		{"127.0.0.1:80", "127.0.0.1:4000", "not a URL"},
		{"127.0.0.1:80", "http:opaque", "names no host"},
		{"127.0.0.1:80", "http://:80", "names no host"},
		{"127.0.0.1:80", "http://me:hunter2@host", "has a user in it"},
		{"127.0.0.1:80", "http://me:hunter2@host:x", "not a URL"},
		{"127.0.0.1:80", "http://host?x=1", "query or a fragment"},
		{"127.0.0.1:80", "http://host#x", "query or a fragment"},
		{"127.0.0.1:80", "http://host:0", "1 to 65535"},
		{"127.0.0.1:80", "http://host:70000", "1 to 65535"},
		{"127.0.0.1:80", "unix:///run/x.sock", "names no host"},
		{"127.0.0.1:80", "ftp://host", `scheme is "ftp"`},
		{"127.0.0.1:80", "tcp://host", "with a port"},
		{"127.0.0.1:80", "tcp://host:1/x", "without a path"},
	} {
		_, err := egress.ParseServices(map[string]string{c.inside: c.upstream, "127.0.0.1:1": good})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), fmt.Sprintf("service %q", c.inside)) {
			t.Errorf("%q → %q: %v, want %q", c.inside, c.upstream, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error tells a password: %v", err)
		}
	}
}

func TestServiceLeadsToItsUpstreamAlone(t *testing.T) {
	got := make(chan *http.Request, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got <- r }))
	defer upstream.Close()
	s := service(t, upstream.URL+"/base")
	var traffic egress.Traffic
	s.Meter = &traffic
	at := serve(t, s)
	for _, target := range []string{"/v1/messages?x=1;y", "http://169.254.169.254/v1/messages?x=1;y"} {
		status, _ := send(t, at, "GET "+target+" HTTP/1.1\r\nHost: 169.254.169.254\r\nX-Forwarded-For: 1.2.3.4\r\nProxy-Authorization: x\r\nAuthorization: y\r\nConnection: close\r\n\r\n")
		if status != 200 {
			t.Fatalf("status %d", status)
		}
		r := <-got
		if r.RequestURI != "/base/v1/messages?x=1;y" || r.Host != upstream.Listener.Addr().String() {
			t.Errorf("asked for %s of %s", r.RequestURI, r.Host)
		}
		if len(r.Header) != 1 || r.Header.Get("Authorization") != "y" {
			t.Errorf("headers %v", r.Header)
		}
	}
	counted(t, &traffic, [2]int64{100, 10_000}, [2]int64{100, 10_000})
}

func TestServiceStaysBelowItsPath(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RequestURI) }))
	defer upstream.Close()
	at := serve(t, service(t, upstream.URL+"/base"))
	for _, target := range []string{"/../admin", "/%2e%2e/admin", "/..%2fadmin", "/x/..\\admin", "/%252e%252e/admin", "/..;a=b/admin", "*"} {
		if status, body := send(t, at, "OPTIONS "+target+" HTTP/1.1\r\nHost: x\r\n\r\n"); status != 400 {
			t.Errorf("%s: %d %q", target, status, body)
		}
	}
	if status, _ := send(t, at, "CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: x\r\n\r\n"); status != 400 {
		t.Errorf("CONNECT: %d", status)
	}
	if status, body := send(t, at, "GET /a..b/...?../x HTTP/1.1\r\nHost: x\r\n\r\n"); status != 200 || body != "/base/a..b/...?../x" {
		t.Errorf("%d %q", status, body)
	}
}

func TestServiceDoesNotHoldStreamsBack(t *testing.T) {
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
	at := serve(t, service(t, upstream.URL))
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}).Get(streamStart(next, "http://"+at))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	r := bufio.NewReader(res.Body)
	for i := range 3 {
		if i > 0 {
			next <- fmt.Sprintf("data: %d\n", i)
		}
		if line, err := r.ReadString('\n'); line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("%q, %v", line, err)
		}
	}
}

func TestServiceUpgradesToWebSockets(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" {
			http.Error(w, "no upgrade", http.StatusBadRequest)
			return
		}
		c, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(c, buf)
	}))
	defer upstream.Close()
	c := dial(t, serve(t, service(t, upstream.URL)))
	_, _ = io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", res, err)
	}
	for _, text := range []string{"ping\n", "pong\n"} {
		_, _ = io.WriteString(c, text)
		if line, err := r.ReadString('\n'); line != text {
			t.Fatalf("%q, %v", line, err)
		}
	}
}

func TestServiceWhoseUpstreamIsDownSaysSo(t *testing.T) {
	down := listen(t)
	_ = down.Close()
	var log logbook
	s := service(t, "http://"+down.Addr().String())
	s.Log = log.logger()
	status, body := send(t, serve(t, s), "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if status != 502 || body != "berth: the service behind 127.0.0.1:8788 does not answer: connection refused.\n" {
		t.Errorf("%d %q", status, body)
	}
	if !strings.Contains(log.String(), down.Addr().String()) || !strings.Contains(log.String(), "sandbox_id=box-1") {
		t.Errorf("log: %s", log.String())
	}
}

func TestTCPServiceCarriesBytes(t *testing.T) {
	s := service(t, "tcp://"+accept(t, echo))
	var traffic egress.Traffic
	s.Meter = &traffic
	c := dial(t, serve(t, s))
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\n\r\n")
	_ = c.CloseWrite()
	if b, err := io.ReadAll(c); err != nil || string(b) != "GET / HTTP/1.1\r\n\r\n" {
		t.Errorf("%q, %v", b, err)
	}
	counted(t, &traffic, [2]int64{18, 18}, [2]int64{18, 18})
}

func TestTCPServiceWhoseUpstreamIsDownHangsUp(t *testing.T) {
	down := listen(t)
	_ = down.Close()
	var log logbook
	s := service(t, "tcp://"+down.Addr().String())
	s.Log = log.logger()
	if b, err := io.ReadAll(dial(t, serve(t, s))); len(b) != 0 {
		t.Errorf("%q, %v", b, err)
	}
	if !strings.Contains(log.String(), "connection refused") {
		t.Errorf("log: %s", log.String())
	}
}

func TestTCPServiceIsBounded(t *testing.T) {
	s := service(t, "tcp://"+accept(t, echo))
	s.Limits = egress.Limits{Conns: 2, Idle: 100 * time.Millisecond}
	at := serve(t, s)
	var all []*net.TCPConn
	for range 6 { // the idle ones make place for the next
		all = append(all, dial(t, at))
	}
	for _, c := range all {
		if _, err := io.ReadAll(c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Error(err)
		}
	}
}

// lateWriter is a Meter that stops the connection's writer behind the given number of bytes until the answer has begun.
type lateWriter struct {
	bytes           int64
	answered, wrote chan struct{}
}

func (l *lateWriter) Count(_, out int64) {
	if l.bytes -= out; out > 0 && l.bytes <= 0 {
		<-l.answered
		close(l.wrote)
	}
}

// An answer that begins before the writer of its request has returned is not cut off.
func TestPromptAnswerIsNotCutOff(t *testing.T) {
	const asked, answered = 64 << 10, 32 << 20
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(make([]byte, answered))
	}))
	defer upstream.Close()
	s, late := service(t, upstream.URL), &lateWriter{asked, make(chan struct{}), make(chan struct{})}
	s.Meter = late
	client := http.Client{Timeout: patience}
	res, err := client.Post("http://"+serve(t, s), "text/plain", bytes.NewReader(make([]byte, asked)))
	close(late.answered)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	<-late.wrote
	if n, err := io.Copy(io.Discard, res.Body); err != nil || n != answered {
		t.Errorf("%d bytes, %v", n, err)
	}
}
