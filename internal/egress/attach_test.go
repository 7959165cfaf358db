package egress_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/testkit"
)

// box stands for the helper in a sandbox: it keeps a listener per port and gives out copies.
type box struct {
	t    *testing.T
	mu   sync.Mutex
	kept map[uint16]*net.TCPListener
	deny uint16
}

func (b *box) Listen(_ context.Context, port uint16) (net.Listener, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if port == b.deny {
		return nil, errors.New("the port is taken")
	}
	if b.kept == nil {
		b.kept = map[uint16]*net.TCPListener{}
	}
	if b.kept[port] == nil {
		b.kept[port] = listen(b.t).(*net.TCPListener)
	}
	f, err := b.kept[port].File()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.FileListener(f)
}

func (b *box) at(port uint16) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept[port].Addr().String()
}

func TestAttachServesProxyAndServices(t *testing.T) {
	upstream := accept(t, echo)
	var traffic egress.Traffic
	b := &box{t: t}
	ctx, cancel := context.WithCancel(t.Context())
	detach, err := egress.Attach(ctx, b, egress.Spec{
		Sandbox: "box-1", Rules: []string{"good.test:*"}, Services: map[string]string{"127.0.0.1:8788": "tcp://" + upstream},
		Resolver: names{"good.test": {"127.0.0.1"}}, AllowPrivate: loopback, Meter: &traffic,
	})
	if err != nil {
		t.Fatal(err)
	}
	cancel() // which ends nothing
	c, r := tunnelTo(t, b.at(egress.ProxyPort), "good.test:"+port(t, upstream))
	s := dial(t, b.at(8788))
	for _, end := range []struct {
		w io.Writer
		r *bufio.Reader
	}{{c, r}, {s, bufio.NewReader(s)}} {
		_, _ = io.WriteString(end.w, "hi\n")
		if line, err := end.r.ReadString('\n'); line != "hi\n" {
			t.Errorf("%q, %v", line, err)
		}
	}
	counted(t, &traffic, [2]int64{6, 6}, [2]int64{6, 6})
	detach()
	detach()
	for _, c := range []net.Conn{c, s} {
		if _, err := io.ReadAll(c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Error(err)
		}
	}
}

func TestSeveralServersServeOneListener(t *testing.T) {
	upstream := accept(t, echo)
	b := &box{t: t}
	attach := func() func() {
		detach, err := egress.Attach(t.Context(), b, egress.Spec{Rules: []string{"all"}, AllowPrivate: loopback})
		if err != nil {
			t.Fatal(err)
		}
		return detach
	}
	detachFirst, detachSecond := attach(), attach()
	defer detachSecond()
	for range 50 {
		tunnelTo(t, b.at(egress.ProxyPort), upstream)
	}
	detachFirst()
	for range 50 {
		tunnelTo(t, b.at(egress.ProxyPort), upstream)
	}
}

func TestAttachOfNothingOpensNothing(t *testing.T) {
	b := &box{t: t}
	detach, err := egress.Attach(t.Context(), b, egress.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	detach()
	if len(b.kept) != 0 {
		t.Errorf("opened %v", b.kept)
	}
}

func TestAttachThatFailsServesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	for name, c := range map[string]struct {
		spec egress.Spec
		want string
	}{
		"bad rule":    {egress.Spec{Rules: []string{"*"}}, "egress rule"},
		"bad service": {egress.Spec{Services: map[string]string{"x": "y"}}, "service"},
		"taken port":  {egress.Spec{Rules: []string{"all"}, Services: map[string]string{"127.0.0.1:9": "http://h"}}, "listen on port 9 of the sandbox: the port is taken"},
	} {
		b := &box{t: t, deny: 9}
		if detach, err := egress.Attach(t.Context(), b, c.spec); err == nil || detach != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	settled(t, before)
}

// deaf hands out listeners that fail.
type deaf struct{ box }

func (d *deaf) Listen(ctx context.Context, port uint16) (net.Listener, error) {
	ln, err := d.box.Listen(ctx, port)
	return broken{ln}, err
}

func TestListenerThatFailsIsLogged(t *testing.T) {
	var log logbook
	d := &deaf{box{t: t}}
	detach, err := egress.Attach(t.Context(), d, egress.Spec{Sandbox: "box-1", Rules: []string{"all"}, Log: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	defer detach()
	want := fmt.Sprintf("sandbox_id=box-1 port=%d error=broken", egress.ProxyPort)
	testkit.Eventually(t, patience, func() error {
		if got := log.String(); !strings.Contains(got, want) {
			return fmt.Errorf("log: %q", got)
		}
		return nil
	})
}
