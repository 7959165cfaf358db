package egress_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/testkit"
)

// waysOf serves a spec on listeners of a box, instead of the one before.
func waysOf(t *testing.T, w *egress.Ways, b *box, spec egress.Spec) {
	t.Helper()
	spec.Sandbox, spec.AllowPrivate = "box-1", loopback
	listeners, err := egress.Listen(t.Context(), b, spec)
	if err == nil {
		err = w.Serve(spec, listeners)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// talks sends a line and gets it back.
func talks(t *testing.T, c net.Conn, r *bufio.Reader) {
	t.Helper()
	_, _ = io.WriteString(c, "hi\n")
	if line, err := r.ReadString('\n'); line != "hi\n" {
		t.Errorf("%q, %v", line, err)
	}
}

// over waits for the end of a connection.
func over(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the connection goes on: %v", err)
	}
}

// Changed rules end the tunnels that they do not allow, and leave the others, also when other limits come with them.
func TestChangedRulesEndWhatTheyForbid(t *testing.T) {
	testkit.Proves(t, "E3")
	stays, goes, late := accept(t, echo), accept(t, echo), accept(t, echo)
	b, w := &box{t: t}, new(egress.Ways)
	defer w.Close()
	waysOf(t, w, b, egress.Spec{Rules: []string{stays, goes, late}})
	kept, r := tunnelTo(t, b.at(egress.ProxyPort), stays)
	ends, _ := tunnelTo(t, b.at(egress.ProxyPort), goes)
	last, lastR := tunnelTo(t, b.at(egress.ProxyPort), late)
	waysOf(t, w, b, egress.Spec{Rules: []string{stays, late}, Limits: egress.Limits{Conns: 7}})
	over(t, ends)
	talks(t, kept, r)
	talks(t, last, lastR)
	if status, _ := connectStatus(b.at(egress.ProxyPort), goes); status != 403 {
		t.Errorf("status %d", status)
	}
	// The rules are also those of the server that drains because of its limits.
	waysOf(t, w, b, egress.Spec{Rules: []string{stays}, Limits: egress.Limits{Conns: 7}})
	over(t, last)
	talks(t, kept, r)
	waysOf(t, w, b, egress.Spec{})
	over(t, kept)
}

// A service that leads elsewhere ends its connections. Other changes of it apply to new connections.
func TestChangedServices(t *testing.T) {
	first, second := accept(t, echo), accept(t, echo)
	b, w := &box{t: t}, new(egress.Ways)
	defer w.Close()
	leadsTo := func(upstream string, conns int) {
		waysOf(t, w, b, egress.Spec{Services: map[string]string{"127.0.0.1:8788": "tcp://" + upstream}, Limits: egress.Limits{Conns: conns}})
	}
	leadsTo(first, 0)
	c := dial(t, b.at(8788))
	r := bufio.NewReader(c)
	talks(t, c, r)
	leadsTo(first, 0)
	leadsTo(first, 5)
	talks(t, c, r)
	leadsTo(second, 5)
	over(t, c)
	again := dial(t, b.at(8788))
	talks(t, again, bufio.NewReader(again))
}

// Ways that drain finish what they have, an answer under way included, and accept nothing.
func TestDrainFinishes(t *testing.T) {
	proceed := make(chan bool)
	slow := accept(t, func(c *net.TCPConn) {
		_, _ = c.Read(make([]byte, 4096))
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfirst")
		<-proceed
		_, _ = io.WriteString(c, "last")
	})
	up := accept(t, echo)
	b, w := &box{t: t}, new(egress.Ways)
	waysOf(t, w, b, egress.Spec{
		Rules: []string{up}, Services: map[string]string{"127.0.0.1:8788": "http://" + slow, "127.0.0.1:8789": "tcp://" + up},
	})
	tunnel, r := tunnelTo(t, b.at(egress.ProxyPort), up)
	call := dial(t, b.at(8788))
	_, _ = io.WriteString(call, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	answer := bufio.NewReader(call)
	for text := ""; !strings.HasSuffix(text, "\r\n\r\nfirst"); {
		next, err := answer.ReadByte()
		if err != nil {
			t.Fatalf("%q, %v", text, err)
		}
		text += string(next)
	}
	plain := dial(t, b.at(8789))
	plainR := bufio.NewReader(plain)
	talks(t, plain, plainR)
	w.Drain()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Wait()
	}()
	talks(t, tunnel, r)
	talks(t, plain, plainR)
	proceed <- true
	if rest, err := io.ReadAll(answer); err != nil || string(rest) != "last" {
		t.Errorf("%q, %v", rest, err)
	}
	select {
	case <-done:
		t.Error("it does not wait for its connections")
	default:
	}
	_, _ = tunnel.Close(), plain.Close()
	testkit.Eventually(t, patience, func() error {
		select {
		case <-done:
			return nil
		default:
			return fmt.Errorf("it waits for connections that have ended")
		}
	})
}

// A spec that cannot be served changes nothing. A server whose listener failed is replaced.
func TestWaysThatFail(t *testing.T) {
	up := accept(t, echo)
	d, w := &deaf{box{t: t}}, new(egress.Ways)
	defer w.Close()
	var log logbook
	spec := egress.Spec{Sandbox: "box-1", Rules: []string{up}, AllowPrivate: loopback, Log: log.logger()}
	listeners, err := egress.Listen(t.Context(), d, spec)
	if err == nil {
		err = w.Serve(spec, listeners)
	}
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, func() error {
		if !strings.Contains(log.String(), "egress ended") {
			return fmt.Errorf("log: %s", log.String())
		}
		return nil
	})
	testkit.Eventually(t, patience, func() error { // it has ended for the next one, too
		waysOf(t, w, &d.box, egress.Spec{Rules: []string{up}})
		if status, err := connectStatus(d.at(egress.ProxyPort), up); status != 200 {
			return fmt.Errorf("%d, %v", status, err)
		}
		return nil
	})
	for _, bad := range []egress.Spec{{Rules: []string{"*"}}, {Rules: []string{up}, Services: map[string]string{"127.0.0.1:8788": "tcp://" + up}}} {
		if err := w.Serve(bad, nil); err == nil {
			t.Errorf("%+v is served", bad)
		}
	}
	tunnelTo(t, d.at(egress.ProxyPort), up)
}
