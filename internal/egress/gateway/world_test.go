package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/egress/gateway"
	"github.com/berthdev/berth/internal/testkit"
)

// patience is how long a busy machine may take for what takes no time.
const patience = 30 * time.Second

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}

// box stands for the helper in a sandbox: it keeps a listener per port and gives out copies.
type box struct {
	t    testing.TB
	mu   sync.Mutex
	kept map[uint16]*net.TCPListener
}

func newBox(t testing.TB) *box { return &box{t: t, kept: map[uint16]*net.TCPListener{}} }

func (b *box) Listen(_ context.Context, port uint16) (net.Listener, error) {
	f, err := gateway.CopyOf(b.listener(port))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.FileListener(f)
}

func (b *box) listener(port uint16) *net.TCPListener {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept[port] == nil {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(func() { _ = ln.Close() })
		b.kept[port] = ln.(*net.TCPListener)
	}
	return b.kept[port]
}

// mortal is a box that can end.
type mortal struct {
	*box
	read, write *os.File
}

func newMortal(t testing.TB) mortal {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = read.Close(); _ = write.Close() })
	return mortal{newBox(t), read, write}
}

// Pidfd returns a descriptor that becomes readable when the box ends, as a pidfd does.
func (m mortal) Pidfd(context.Context) (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", m.read.Fd()))
}

func (m mortal) end() { _ = m.write.Close() }

func (b *box) at(port uint16) string { return b.listener(port).Addr().String() }

func (b *box) proxy() string { return b.at(egress.ProxyPort) }

// world is a directory with the egress process, which ends with the test.
type world struct {
	*testing.T
	dir string
	log *logbook
	got *egress.Traffic

	mu   sync.Mutex
	lost int
}

// newWorld has a real process, started by the first client.
func newWorld(t *testing.T) *world {
	w := &world{T: t, dir: filepath.Join(t.TempDir(), strings.Repeat("long", 40)), log: new(logbook), got: new(egress.Traffic)}
	t.Cleanup(func() {
		if err := gateway.End(context.Background(), w.dir); err != nil {
			t.Error(err)
		}
		testkit.Eventually(t, patience, func() error {
			if pids := w.pids(); len(pids) > 0 {
				return fmt.Errorf("processes %v are left", pids)
			}
			return nil
		})
	})
	return w
}

// newWorldInside has the process within the test.
func newWorldInside(t *testing.T) *world {
	w := &world{T: t, dir: filepath.Join(t.TempDir(), "egress"), log: new(logbook), got: new(egress.Traffic)}
	ended := gateway.ServeForTest(t, w.dir)
	t.Cleanup(func() {
		if err := gateway.End(context.Background(), w.dir); err != nil {
			t.Error(err)
		}
		select {
		case <-ended:
		case <-time.After(patience):
			t.Error("the process does not end")
		}
	})
	return w
}

func (w *world) options() gateway.Options {
	return gateway.Options{
		Dir: w.dir, Program: testkit.Binary(w), Log: w.log.logger(), Meter: w.got,
		Lost: func() { w.mu.Lock(); defer w.mu.Unlock(); w.lost++ },
	}
}

func (w *world) losses() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// client is the server's side, as long as the test goes on or until it is closed.
func (w *world) client() *gateway.Client {
	w.Helper()
	c, err := gateway.New(w.options())
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = c.Close() })
	return c
}

// attach serves a box until the test ends.
func (w *world) attach(c *gateway.Client, b egress.Listener, rules ...string) (detach func()) {
	w.Helper()
	return w.attachSpec(c, b, egress.Spec{Rules: rules})
}

func (w *world) attachSpec(c *gateway.Client, b egress.Listener, spec egress.Spec) (detach func()) {
	w.Helper()
	return w.attachAs("box-1", c, b, spec)
}

func (w *world) attachAs(sandbox string, c *gateway.Client, b egress.Listener, spec egress.Spec) (detach func()) {
	w.Helper()
	spec.Sandbox, spec.AllowPrivate = sandbox, loopback
	detach, err := c.Attach(w.Context(), sandbox+"-1", b, spec)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(detach)
	return detach
}

// pids lists the processes of the directory.
func (w *world) pids() (pids []int) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		if line, err := os.ReadFile(path); err == nil && string(line) == gateway.Name+"\x00"+w.dir+"\x00" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// pid is the one process of the directory.
func (w *world) pid() int {
	w.Helper()
	pids := w.pids()
	if len(pids) != 1 {
		w.Fatalf("there are processes %v", pids)
	}
	return pids[0]
}

// upstream echoes lines.
func upstream(t testing.TB) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return ln.Addr().String()
}

// tunnel is a connection through the proxy.
type tunnel struct {
	net.Conn
	r *bufio.Reader
}

// connect asks the proxy for a tunnel.
func connect(t testing.TB, proxy, target string) (tunnel, int) {
	t.Helper()
	c, err := net.DialTimeout("tcp", proxy, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		t.Fatal(err)
	}
	return tunnel{c, r}, res.StatusCode
}

func open(t testing.TB, proxy, target string) tunnel {
	t.Helper()
	c, status := connect(t, proxy, target)
	if status != http.StatusOK {
		t.Fatalf("CONNECT %s: %d", target, status)
	}
	return c
}

// works sends a line and gets it back.
func (c tunnel) works(t testing.TB) {
	t.Helper()
	if _, err := io.WriteString(c, "hi\n"); err != nil {
		t.Errorf("the connection broke: %v", err)
	}
	if line, err := c.r.ReadString('\n'); line != "hi\n" {
		t.Errorf("the connection broke: %q, %v", line, err)
	}
}

// ended waits for the end of the connection.
func (c tunnel) ended(t testing.TB) {
	t.Helper()
	if _, err := io.Copy(io.Discard, c.r); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the connection goes on: %v", err)
	}
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

// shows waits until the log has a text.
func (l *logbook) shows(t testing.TB, text string) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if got := l.String(); !strings.Contains(got, text) {
			return fmt.Errorf("no %q in the log: %s", text, got)
		}
		return nil
	})
}
