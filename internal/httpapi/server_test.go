package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// running is a Server under way.
type running struct {
	*Server
	*site
	stop func()
	done chan error
}

func start(t *testing.T, s *site, change ...func(*Server)) *running {
	t.Helper()
	srv := NewServer(s.Handler, ServerOptions{DrainTimeout: patience})
	for _, c := range change {
		c(srv)
	}
	if err := srv.Listen(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{Server: srv, site: s, stop: cancel, done: make(chan error, 1)}
	go func() { r.done <- srv.Serve(ctx) }()
	t.Cleanup(cancel)
	s.server.URL = "http://" + srv.Addr()
	return r
}

func (r *running) ended(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(2 * patience):
		t.Fatal("the server does not end")
		return nil
	}
}

func TestPortInUseIsExplained(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	addr := taken.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	err = new(Server).Listen(t.Context(), addr)
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Code != api.CodeInvalidConfig || !strings.Contains(err.Error(), "port "+port) || !strings.Contains(err.Error(), "in use") || !strings.Contains(e.Hint, "--listen") {
		t.Errorf("error %v", err)
	}
}

func TestAddressThatIsNotOursIsExplained(t *testing.T) {
	for _, addr := range []string{"203.0.113.9:7070", "no-port"} {
		e, ok := errors.AsType[*fault.Error](new(Server).Listen(t.Context(), addr))
		if !ok || e.Code != api.CodeInvalidConfig || !strings.Contains(e.Error(), addr) || !strings.Contains(e.Hint, "--listen") {
			t.Errorf("%s: %v", addr, e)
		}
	}
	e := listenError("127.0.0.1:80", fmt.Errorf("bind: %w", os.ErrPermission)).(*fault.Error)
	if !strings.Contains(e.Hint, "1024") {
		t.Errorf("hint %q", e.Hint)
	}
}

// A server that stops says so, finishes what it has begun, and takes nothing new.
func TestDrainFinishesWhatWasBegun(t *testing.T) {
	testkit.Proves(t, "X4")
	s, g := newGated(t, store.Options{DataDir: t.TempDir()})
	r := start(t, s, func(srv *Server) { srv.o.DrainDelay = time.Second })
	s.do(call{path: "/readyz"}).is(http.StatusOK)
	begun := s.inBackground(call{method: http.MethodPost, path: sandboxesPath, key: s.write, body: `{"name":"box"}`})
	<-g.entered
	r.stop()
	testkit.Eventually(t, patience, func() error {
		if got := into[api.Ready](s.do(call{path: "/readyz"})); got.Status != "draining" {
			return fmt.Errorf("ready says %s", got.Status)
		}
		return nil
	})
	testkit.Eventually(t, patience, func() error {
		conn, err := net.Dial("tcp", r.Addr())
		if err != nil {
			return nil
		}
		conn.Close()
		return errors.New("still listening")
	})
	select {
	case err := <-r.done:
		t.Fatalf("ended with a request under way: %v", err)
	default:
	}
	g.leave <- nil
	(<-begun).is(http.StatusCreated)
	if err := r.ended(t); err != nil {
		t.Error(err)
	}
}

func TestDrainEndsWhatDoesNot(t *testing.T) {
	s, g := newGated(t, store.Options{DataDir: t.TempDir()})
	r := start(t, s, func(srv *Server) { srv.o.DrainTimeout = 50 * time.Millisecond })
	begun := s.inBackground(call{method: http.MethodPost, path: sandboxesPath, key: s.write, body: `{"name":"box"}`})
	<-g.entered
	r.stop()
	if p := (<-begun).fails(api.CodeShuttingDown); !p.Retryable {
		t.Error("not retryable")
	}
	if err := r.ended(t); err == nil || !strings.Contains(err.Error(), "still running") {
		t.Errorf("error %v", err)
	}
}

func TestServerThatCannotServeSaysSo(t *testing.T) {
	s := newSite(t)
	srv := NewServer(s.Handler, ServerOptions{})
	if err := srv.Listen(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	srv.listener.Close()
	if err := srv.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), srv.Addr()) {
		t.Errorf("error %v", err)
	}
}

// raw sends bytes as they are and returns the answer.
func (r *running) raw(t *testing.T, text string) answer {
	t.Helper()
	conn, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return answer{t, res.StatusCode, res.Header, body}
}

func TestOddRequests(t *testing.T) {
	r := start(t, newSite(t))
	r.raw(t, "GET /api/v1/..%2f HTTP/1.1\r\nHost: localhost\r\n\r\n").fails(api.CodeInvalidPath)
	r.raw(t, "GET /a/../docs HTTP/1.1\r\nHost: localhost\r\n\r\n").fails(api.CodeInvalidPath)
	r.raw(t, "GET /a\\b HTTP/1.1\r\nHost: localhost\r\n\r\n").fails(api.CodeInvalidPath)
	r.raw(t, "GET http://localhost HTTP/1.1\r\nHost: localhost\r\n\r\n").fails(api.CodeInvalidPath)
	r.raw(t, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n").fails(api.CodeInvalidPath)
	r.raw(t, "GET /healthz HTTP/1.1\r\nHost: evil.test\r\n\r\n").fails(api.CodeWrongHostHeader)
	r.raw(t, "GET http://evil.test/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").fails(api.CodeWrongHostHeader)
	r.raw(t, "GET /healthz HTTP/1.0\r\n\r\n").fails(api.CodeWrongHostHeader)
	r.raw(t, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Big: "+strings.Repeat("x", 100<<10)+"\r\n\r\n").fails(api.CodeHeadersTooLarge)
	r.raw(t, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Big: "+strings.Repeat("x", 300<<10)+"\r\n\r\n").is(http.StatusRequestHeaderFieldsTooLarge)
	r.raw(t, "POST "+sandboxesPath+" HTTP/1.1\r\nHost: localhost\r\nX-API-Key: "+r.write+"\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").fails(api.CodeInvalidRequest)
}

// A client that promises a body and does not send it gets no further than its deadline.
func TestBodyThatDoesNotComeIsNotWaitedFor(t *testing.T) {
	s := newSite(t)
	s.Handler.bodyTime = 100 * time.Millisecond
	s.Handler.served = s.wrap(s.routes.Mux)
	r := start(t, s)
	head := "POST " + sandboxesPath + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n"
	r.raw(t, head+"X-API-Key: "+s.write+"\r\n\r\n{").fails(api.CodeBodyTimeout)
	r.raw(t, head+"\r\n{").fails(api.CodeUnauthenticated)
	for _, c := range []struct {
		line, host string
		code       api.Code
	}{
		{"PUT " + sandboxesPath + "/box/files/f", "localhost", api.CodeUnauthenticated},
		{"PUT " + sandboxesPath + "/box/archive", "localhost", api.CodeUnauthenticated},
		{"POST " + sandboxesPath + "/box/ports/8000/", "localhost", api.CodeUnauthenticated},
		{"POST /api/v1/nothing", "localhost", api.CodeNoRoute},
		{"POST /healthz", "localhost", api.CodeMethodNotAllowed},
		{"POST /api/v1/..%2f", "localhost", api.CodeInvalidPath},
		{"POST " + sandboxesPath, "other.example", api.CodeWrongHostHeader},
	} {
		r.raw(t, c.line+" HTTP/1.1\r\nHost: "+c.host+"\r\nContent-Length: 10\r\n\r\n{").fails(c.code)
	}
}

// A handler may take longer than a body may: the body's deadline does not end the request.
func TestSlowHandlerOutlivesTheBodysDeadline(t *testing.T) {
	s, g := newGated(t, store.Options{DataDir: t.TempDir()})
	s.Handler.bodyTime = 500 * time.Millisecond
	s.Handler.served = s.wrap(s.routes.Mux)
	start(t, s)
	begun := s.inBackground(call{method: http.MethodPost, path: sandboxesPath, key: s.write, body: `{"name":"box"}`, header: map[string]string{idempotencyHeader: "k"}})
	<-g.entered
	<-time.After(s.Handler.bodyTime * 3 / 2)
	g.leave <- nil
	(<-begun).is(http.StatusCreated)
}
