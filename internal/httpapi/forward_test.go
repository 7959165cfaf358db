package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/berthdev/berth/api"
	berthclient "github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
)

// answering listens where the helper's loopback is, and serves each connection.
func answering(t *testing.T, serve func(c *net.TCPConn)) uint16 {
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
			go func() { defer c.Close(); serve(c.(*net.TCPConn)) }()
		}
	}()
	return uint16(ln.Addr().(*net.TCPAddr).Port)
}

func (w *workshop) client(key string) *berthclient.Client {
	w.t.Helper()
	c, err := berthclient.New(w.server.URL, key, berthclient.WithAttempts(1))
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// A protocol whose client ends its direction first, with more bytes than any buffer holds, in both directions.
func TestForwardedConnections(t *testing.T) {
	w := newWorkshop(t)
	port := answering(t, func(c *net.TCPConn) {
		got, err := io.ReadAll(c)
		if err == nil {
			_, _ = fmt.Fprintf(c, "%d bytes\n", len(got))
			_, _ = c.Write(got)
		}
	})
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	for range 3 {
		c, err := w.client(w.write).Sandboxes.DialPort(t.Context(), "box", port)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write(sent); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		head, rest, _ := bytes.Cut(got, []byte("\n"))
		if err != nil || string(head) != strconv.Itoa(len(sent))+" bytes" || !bytes.Equal(rest, sent) {
			t.Fatalf("%s, %d bytes, %v", head, len(rest), err)
		}
	}
}

// The program ends its direction first, and goes on reading.
func TestForwardedConnectionEndsInside(t *testing.T) {
	w := newWorkshop(t)
	read := make(chan string, 1)
	port := answering(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "bye")
		_ = c.CloseWrite()
		got, _ := io.ReadAll(c)
		read <- string(got)
	})
	c, err := w.client(w.write).Sandboxes.DialPort(t.Context(), "box", port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := io.ReadAll(c); err != nil || string(got) != "bye" {
		t.Errorf("%q, %v", got, err)
	}
	_, err = io.WriteString(c, "late words")
	if err := errors.Join(err, c.CloseWrite()); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "late words" {
		t.Errorf("inside %q was read", got)
	}
}

func TestForwardsThatAreRefused(t *testing.T) {
	w := newWorkshop(t)
	_, refusing, _ := net.SplitHostPort(testkit.RefusingAddress(t))
	closed, _ := strconv.ParseUint(refusing, 10, 16)
	port := answering(t, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
	for _, c := range []struct {
		name, key, box string
		port           uint16
		code           api.Code
	}{
		{"no key", "", "box", port, api.CodeUnauthenticated},
		{"a key that reads", w.read, "box", port, api.CodeForbidden},
		{"another tenant's", w.newKey("globex", api.ScopeAdmin), "box", port, api.CodeNotFound},
		{"no sandbox", w.write, "nobox", port, api.CodeNotFound},
		{"port 0", w.write, "box", 0, api.CodeInvalidRequest},
		{"the way out", w.write, "box", 3128, api.CodeForbidden},
		{"where nothing listens", w.write, "box", uint16(closed), api.CodePortUnreachable},
	} {
		_, err := w.client(c.key).Sandboxes.DialPort(t.Context(), c.box, c.port)
		if p, ok := errors.AsType[*api.Problem](err); !ok || p.Code != c.code {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	at := w.box + "/forward/" + strconv.Itoa(int(port))
	w.do(call{path: at, key: w.write}).fails(api.CodeInvalidRequest)
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	_, res, err := websocket.Dial(ctx, w.server.URL+at, &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"https://evil.test"}, "Authorization": {"Bearer " + w.write}}})
	if err == nil || res == nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("a foreign page: %v", err)
	}
}

func TestForwardEndsWithItsKeyAndItsServer(t *testing.T) {
	w := newWorkshop(t)
	port := answering(t, func(c *net.TCPConn) { _, _ = io.Copy(c, c) })
	made := into[api.NewKey](w.post(keysPath, `{"scope":"write"}`).is(http.StatusCreated))
	dial := func(key string) *berthclient.PortConn {
		t.Helper()
		c, err := w.client(key).Sandboxes.DialPort(t.Context(), "box", port)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		echo := make([]byte, 2)
		if _, err := io.WriteString(c, "hi"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, echo); err != nil || string(echo) != "hi" {
			t.Fatalf("%q, %v", echo, err)
		}
		return c
	}
	revoked, kept := dial(made.Secret), dial(w.write)
	w.remove(keysPath + "/" + made.ID).is(http.StatusNoContent)
	_, err := revoked.Read(make([]byte, 1))
	if p, ok := errors.AsType[*api.Problem](err); !ok || p.Code != api.CodeKeyRevoked {
		t.Errorf("with a revoked key: %v", err)
	}
	w.Drain()
	if _, err := kept.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "shutting down") {
		t.Errorf("at a drain: %v", err)
	}
}
