package egress_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/testkit"
)

func TestHugeHeadsAreRefused(t *testing.T) {
	testkit.Proves(t, "E6")
	upstream := accept(t, echo)
	proxy := serve(t, allowing(t, nil, "127.0.0.1:*"))
	filler := strings.Repeat("X-Filler: "+strings.Repeat("x", 1000)+"\r\n", 100)
	for name, raw := range map[string]string{
		"headers": "CONNECT " + upstream + " HTTP/1.1\r\n" + filler + "\r\n",
		"target":  "GET http://" + upstream + "/" + strings.Repeat("x", 100<<10) + " HTTP/1.1\r\nHost: " + upstream + "\r\n\r\n",
	} {
		if status, _ := send(t, proxy, raw); status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: status %d", name, status)
		}
	}
	tunnelTo(t, proxy, upstream)
}

func TestHugeAnswersHeadsAreRefused(t *testing.T) {
	upstream := accept(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX-Filler: "+strings.Repeat("x", 200<<10)+"\r\n\r\n")
		_, _ = io.Copy(io.Discard, c)
	})
	status, _ := fetch(t, through(t, serve(t, allowing(t, nil, "127.0.0.1:*"))), "http://"+upstream)
	if status != http.StatusBadGateway {
		t.Errorf("status %d", status)
	}
}

// Connections that say nothing, or one byte at a time, cost a slot for a moment and no more.
func TestSlowHeadsDoNotKeepOthersOut(t *testing.T) {
	testkit.Proves(t, "E6")
	upstream := accept(t, echo)
	p := allowing(t, nil, "127.0.0.1:*")
	p.Limits = egress.Limits{Conns: 4, HeaderTimeout: 100 * time.Millisecond}
	proxy := serve(t, p)
	var slow []net.Conn
	for i := range 100 { // more than are accepted at once
		c := dial(t, proxy)
		if i%2 == 0 {
			_, _ = io.WriteString(c, "CONNECT 127")
		}
		slow = append(slow, c)
	}
	c, r := tunnelTo(t, proxy, upstream)
	_, _ = io.WriteString(c, "hi\n")
	if line, err := r.ReadString('\n'); line != "hi\n" {
		t.Errorf("%q, %v", line, err)
	}
	for _, c := range slow {
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Fatalf("a slow connection stays: %v", err)
		}
	}
}

func TestTooManyConnectionsAreTold(t *testing.T) {
	testkit.Proves(t, "E6")
	var log logbook
	upstream := accept(t, echo)
	p := allowing(t, nil, "127.0.0.1:*")
	p.Limits, p.Log = egress.Limits{Conns: 3}, log.logger()
	proxy := serve(t, p)
	first, _ := tunnelTo(t, proxy, upstream)
	for range 2 {
		tunnelTo(t, proxy, upstream)
	}
	status, body := send(t, proxy, "CONNECT "+upstream+" HTTP/1.1\r\n\r\n")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "too many connections") {
		t.Errorf("%d %q", status, body)
	}
	if !strings.Contains(log.String(), "too many connections") {
		t.Error("not in the log")
	}
	_ = first.Close()
	testkit.Eventually(t, patience, func() error {
		if status, _ := connectStatus(proxy, upstream); status != 200 {
			return fmt.Errorf("status %d with a free place", status)
		}
		return nil
	})
}

// connectStatus opens a tunnel and closes it.
func connectStatus(proxy, target string) (int, error) {
	c, err := net.DialTimeout("tcp", proxy, patience)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\n\r\n", target)
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return 0, err
	}
	return res.StatusCode, nil
}

func TestIdleTunnelsEnd(t *testing.T) {
	testkit.Proves(t, "E6")
	p := allowing(t, nil, "127.0.0.1:*")
	p.Limits.Idle = 50 * time.Millisecond
	proxy := serve(t, p)
	for name, upstream := range map[string]string{
		"open":        accept(t, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) }),
		"half closed": accept(t, func(c *net.TCPConn) { _ = c.CloseWrite(); _, _ = io.Copy(io.Discard, c) }),
	} {
		c, r := tunnelTo(t, proxy, upstream)
		if _, err := io.Copy(io.Discard, r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// Writing to it fails at last: the other end is gone.
		testkit.Eventually(t, patience, func() error {
			if _, err := c.Write([]byte("x")); err == nil {
				return fmt.Errorf("%s: still taken", name)
			}
			return nil
		})
	}
}

func TestIdlePlainRequestsEnd(t *testing.T) {
	testkit.Proves(t, "E6")
	flooded := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/silent":
		case "/stalls":
			_, _ = w.Write(make([]byte, 10))
			w.(http.Flusher).Flush()
		case "/floods":
			defer close(flooded)
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		case "/waits":
			_, _ = io.Copy(io.Discard, r.Body)
			return
		}
		<-r.Context().Done()
	}))
	defer upstream.Close()
	p := allowing(t, nil, "127.0.0.1:*")
	p.Limits.Idle = 200 * time.Millisecond
	proxy := serve(t, p)
	at := upstream.Listener.Addr().String()
	for _, path := range []string{"/silent", "/stalls"} {
		c := dial(t, proxy)
		fmt.Fprintf(c, "GET http://%s%s HTTP/1.1\r\nHost: %s\r\n\r\n", at, path, at)
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %v", path, err)
		}
	}
	// A client that takes nothing, and one that sends nothing.
	deaf, mute := dial(t, proxy), dial(t, proxy)
	fmt.Fprintf(deaf, "GET http://%s/floods HTTP/1.1\r\nHost: %s\r\n\r\n", at, at)
	fmt.Fprintf(mute, "POST http://%s/waits HTTP/1.1\r\nHost: %s\r\nContent-Length: 10\r\n\r\nhalf", at, at)
	if _, err := io.Copy(io.Discard, mute); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("/waits: %v", err)
	}
	select {
	case <-flooded:
	case <-time.After(patience):
		t.Error("/floods: still sends to a client that takes nothing")
	}
}

func TestManyTunnelsAtOnceLeaveNothingBehind(t *testing.T) {
	testkit.Proves(t, "E6")
	n := testkit.Size(t, "egress.tunnels")
	before := runtime.NumGoroutine()
	t.Run("open", func(t *testing.T) {
		upstream := accept(t, echo)
		p := allowing(t, nil, "127.0.0.1:*")
		var traffic egress.Traffic
		p.Limits.Conns, p.Meter = n, &traffic
		proxy := serve(t, p)
		var opened, all sync.WaitGroup
		opened.Add(n)
		for i := range n {
			all.Go(func() {
				if err := oneTunnel(proxy, upstream, i, &opened); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		want := int64(5 * n)
		counted(t, &traffic, [2]int64{want, want}, [2]int64{want, want})
	})
	settled(t, before)
}

// oneTunnel opens a tunnel, waits for all others to be open, and sends a line there and back.
func oneTunnel(proxy, upstream string, i int, opened *sync.WaitGroup) error {
	c, err := net.DialTimeout("tcp", proxy, patience)
	if err != nil {
		opened.Done()
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * patience))
	_, _ = fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\n\r\n", upstream)
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	opened.Done()
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	opened.Wait()
	want := fmt.Sprintf("%04d\n", i%10_000)
	_, _ = io.WriteString(c, want)
	if line, err := r.ReadString('\n'); line != want {
		return fmt.Errorf("%q, want %q: %v", line, want, err)
	}
	return nil
}
