package guesttest

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/guest"
)

var networkCases = []testCase{
	{name: "DialAndListen", test: dialAndListen},
	{name: "ListenersAreShared", test: listenersAreShared},
	{name: "DialIsRefused", test: dialIsRefused},
}

// freePort returns a port without a listener.
func freePort(t testing.TB) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

func listen(t testing.TB, c guest.Conn, port uint16) net.Listener {
	t.Helper()
	l, err := c.Listen(t.Context(), port)
	if err != nil {
		t.Fatalf("listen on %d: %v", port, err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// talk dials a port of the instance. It checks that text arrives at l's side, and that the close of l's side arrives here.
func talk(t testing.TB, c guest.Conn, port uint16, l net.Listener, text string) {
	t.Helper()
	conn, err := c.Dial(t.Context(), port)
	if err != nil {
		t.Fatalf("dial %d: %v", port, err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	buf := make([]byte, len(text))
	if _, err := io.ReadFull(peer, buf); err != nil || string(buf) != text {
		t.Fatalf("read %q, %v, want %q", buf, err, text)
	}
	peer.Close()
	if rest, err := io.ReadAll(conn); err != nil || len(rest) > 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
}

func dialAndListen(t *testing.T, in instance) {
	port := freePort(t)
	l := listen(t, in, port)
	for _, text := range []string{"one", "two", "three"} {
		talk(t, in, port, l, text)
	}
}

func listenersAreShared(t *testing.T, in instance) {
	port, other := freePort(t), in.connect(t)
	first := listen(t, in, port)
	second := listen(t, other, port)
	talk(t, in, port, second, "to the second")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	talk(t, other, port, second, "with the first closed")
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	// No server accepts now. The helper keeps the listener, so the connection waits for the next server.
	conn, err := in.Dial(t.Context(), port)
	if err != nil {
		t.Fatalf("dial with nobody there: %v", err)
	}
	conn.Close()
	third := listen(t, other, port)
	peer, err := third.Accept()
	if err != nil {
		t.Fatal(err)
	}
	peer.Close()
	talk(t, in, port, third, "to the third")
}

func dialIsRefused(t *testing.T, in instance) {
	_, err := in.Dial(t.Context(), freePort(t))
	want(t, "dial where nobody listens", err, guest.ErrRefused)
	_, err = in.Dial(t.Context(), 0)
	want(t, "dial no port", err, guest.ErrInvalid)
	_, err = in.Listen(t.Context(), 0)
	want(t, "listen on no port", err, guest.ErrInvalid)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = in.Dial(ctx, 1)
	want(t, "dial too late", err, context.Canceled)
}
