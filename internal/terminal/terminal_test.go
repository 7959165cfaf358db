package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/coder/websocket"
)

const long = time.Minute

// process is one that does as the test says.
type process struct {
	guest.Process
	chunks chan guest.Chunk
	fails  error // at the end of chunks

	mu      sync.Mutex
	typed   []byte
	size    guest.Size
	signals []syscall.Signal
	deaf    bool // it does not read
}

func newProcess() *process { return &process{chunks: make(chan guest.Chunk, 64)} }

func (p *process) output(ctx context.Context, after int64) iter.Seq2[guest.Chunk, error] {
	return func(yield func(guest.Chunk, error) bool) {
		for {
			select {
			case <-ctx.Done():
				yield(guest.Chunk{}, ctx.Err())
				return
			case c, more := <-p.chunks:
				if !more {
					if p.fails != nil {
						yield(guest.Chunk{}, p.fails)
					}
					return
				}
				if !yield(c, nil) || c.Exit != nil {
					return
				}
			}
		}
	}
}

func (p *process) Write(ctx context.Context, b []byte) (int, error) {
	if p.deaf {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.HasPrefix(string(b), "no more") {
		return 0, guest.ErrNoInput
	}
	p.typed = append(p.typed, b...)
	return len(b), nil
}

func (p *process) Resize(_ context.Context, size guest.Size) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size = size
	return nil
}

func (p *process) Signal(_ context.Context, sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signals = append(p.signals, sig)
	if len(p.signals) > 1 {
		return guest.ErrNoProcess
	}
	return nil
}

// is waits until the process has got something.
func (p *process) is(t *testing.T, check func() bool) {
	t.Helper()
	testkit.Eventually(t, long, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if check() {
			return nil
		}
		return fmt.Errorf("typed %d bytes, size %v, signals %v", len(p.typed), p.size, p.signals)
	})
}

// session serves p to one client, which it returns, and how it ended.
func session(t *testing.T, p *process, change ...func(*Session)) (ws *websocket.Conn, ended chan error, stop context.CancelFunc) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended = make(chan error, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			ended <- err
			return
		}
		s := &Session{ExecID: "x", Process: p, After: 7, Output: p.output, Exit: func(e guest.Exit) api.ExecExit { return api.ExecExit{ExitCode: e.Code} }}
		for _, c := range change {
			c(s)
		}
		ended <- s.Serve(ctx, conn)
	}))
	dial, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	ws, _, err := websocket.Dial(dial, srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = ws.CloseNow(); srv.Close() })
	if got := word(t, ws); got.Type != api.TermAttached || got.ExecID != "x" || got.Next != 7 {
		t.Fatalf("first word %+v", got)
	}
	return ws, ended, stop
}

func read(t *testing.T, ws *websocket.Conn) (websocket.MessageType, []byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	return ws.Read(ctx)
}

func word(t *testing.T, ws *websocket.Conn) (w api.TerminalWord) {
	t.Helper()
	kind, data, err := read(t, ws)
	if err != nil || kind != websocket.MessageText || json.Unmarshal(data, &w) != nil {
		t.Fatalf("no word: %q, %v", data, err)
	}
	return w
}

func send(t *testing.T, ws *websocket.Conn, kind websocket.MessageType, data string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	if err := ws.Write(ctx, kind, []byte(data)); err != nil {
		t.Fatal(err)
	}
}

func outcome(t *testing.T, ended chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(long):
		t.Fatal("the session does not end")
		return nil
	}
}

func TestSessionCarriesBothWays(t *testing.T) {
	p := newProcess()
	ws, ended, _ := session(t, p)
	p.chunks <- guest.Chunk{Data: []byte("shown"), Next: 12}
	if kind, data, err := read(t, ws); kind != websocket.MessageBinary || string(data) != "shown" {
		t.Errorf("%v %q %v", kind, data, err)
	}
	send(t, ws, websocket.MessageBinary, "ls\r")
	p.is(t, func() bool { return string(p.typed) == "ls\r" })
	send(t, ws, websocket.MessageText, `{"type":"resize","cols":100,"rows":40}`)
	p.is(t, func() bool { return p.size == guest.Size{Cols: 100, Rows: 40} })
	p.chunks <- guest.Chunk{Next: 12, Exit: &guest.Exit{Code: 3}}
	if got := word(t, ws); got.Type != api.TermExit || got.ExitCode != 3 || got.Next != 12 {
		t.Errorf("%+v", got)
	}
	if _, _, err := read(t, ws); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("%v", err)
	}
	if err := outcome(t, ended); err != nil {
		t.Error(err)
	}
}

func TestClientThatLeavesEndsNothing(t *testing.T) {
	for _, leave := range []func(*websocket.Conn) error{
		func(ws *websocket.Conn) error { return ws.CloseNow() },
		func(ws *websocket.Conn) error { return ws.Close(websocket.StatusNormalClosure, "") },
		func(ws *websocket.Conn) error { return ws.Close(websocket.StatusGoingAway, "") },
	} {
		p := newProcess()
		ws, ended, _ := session(t, p)
		if err := leave(ws); err != nil {
			t.Error(err)
		}
		if err := outcome(t, ended); err != nil || len(p.signals) != 0 {
			t.Errorf("%v, signals %v", err, p.signals)
		}
	}
}

func TestClientThatHangsUp(t *testing.T) {
	p := newProcess()
	ws, ended, _ := session(t, p)
	send(t, ws, websocket.MessageText, `{"type":"end"}`)
	p.is(t, func() bool { return len(p.signals) == 1 && p.signals[0] == syscall.SIGHUP })
	if err := ws.Close(api.CloseEnd, ""); err != nil { // a second time, when it has ended
		t.Error(err)
	}
	if err := outcome(t, ended); err != nil {
		t.Error(err)
	}
	p.is(t, func() bool { return len(p.signals) == 2 })
}

func TestClientThatMisbehavesIsToldWhy(t *testing.T) {
	for data, want := range map[string]websocket.StatusCode{
		`{`:                                    websocket.StatusUnsupportedData,
		`{"type":"dance"}`:                     websocket.StatusUnsupportedData,
		`{"type":"resize"}`:                    websocket.StatusUnsupportedData,
		`{"type":"resize","cols":-1,"rows":5}`: websocket.StatusUnsupportedData,
		`{"type":"resize","cols":70000,"rows":5}`: websocket.StatusUnsupportedData,
		strings.Repeat("x", maxMessage+1):         websocket.StatusMessageTooBig,
	} {
		p := newProcess()
		ws, ended, _ := session(t, p)
		send(t, ws, websocket.MessageText, data)
		if _, _, err := read(t, ws); websocket.CloseStatus(err) != want {
			t.Errorf("%.30s: %v", data, err)
		}
		if err := outcome(t, ended); err == nil {
			t.Errorf("%.30s: no error", data)
		}
	}
}

// Unread input is bounded, and does not keep the client from closing.
func TestProcessThatDoesNotRead(t *testing.T) {
	p := newProcess()
	p.deaf = true
	ws, ended, _ := session(t, p)
	send(t, ws, websocket.MessageBinary, "ignored")
	send(t, ws, websocket.MessageText, `{"type":"end"}`)
	p.is(t, func() bool { return len(p.signals) == 1 })
	for range 2 * maxTyped / maxMessage {
		ctx, cancel := context.WithTimeout(context.Background(), long)
		err := ws.Write(ctx, websocket.MessageBinary, make([]byte, maxMessage))
		cancel()
		if err != nil {
			break
		}
	}
	if _, _, err := read(t, ws); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("%v", err)
	}
	if err := outcome(t, ended); err == nil {
		t.Error("no error")
	}
}

func TestInputAfterTheEndIsDropped(t *testing.T) {
	p := newProcess()
	ws, ended, _ := session(t, p)
	send(t, ws, websocket.MessageBinary, "no more")
	send(t, ws, websocket.MessageBinary, "and this")
	p.chunks <- guest.Chunk{Exit: &guest.Exit{}}
	if got := word(t, ws); got.Type != api.TermExit {
		t.Errorf("%+v", got)
	}
	_ = ws.CloseNow()
	if err := outcome(t, ended); err != nil || len(p.typed) != 0 {
		t.Errorf("%v, typed %q", err, p.typed)
	}
}

func TestOutputThatEndsEarly(t *testing.T) {
	for _, c := range []struct {
		fails error
		code  websocket.StatusCode
	}{
		{nil, websocket.StatusInternalError}, {errors.New("disk"), websocket.StatusInternalError}, {guest.ErrTrimmed, websocket.StatusPolicyViolation},
	} {
		p := newProcess()
		p.fails = c.fails
		close(p.chunks)
		ws, ended, _ := session(t, p)
		_, _, err := read(t, ws)
		if websocket.CloseStatus(err) != c.code || strings.Contains(err.Error(), "disk") {
			t.Errorf("%v: %v", c.fails, err)
		}
		if err := outcome(t, ended); err == nil {
			t.Errorf("%v: no error", c.fails)
		}
	}
}

func TestServerThatGoesSaysSo(t *testing.T) {
	p := newProcess()
	ws, ended, stop := session(t, p)
	stop()
	if _, _, err := read(t, ws); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("%v", err)
	}
	if err := outcome(t, ended); err != nil || len(p.signals) != 0 {
		t.Errorf("%v, signals %v", err, p.signals)
	}
}

// A client that neither reads nor answers is let go.
func TestClientThatIsGoneWithoutAWord(t *testing.T) {
	p := newProcess()
	_, ended, _ := session(t, p, func(s *Session) { s.beat = 50 * time.Millisecond })
	if err := outcome(t, ended); err != nil { // the client does not read, so no ping is answered
		t.Error(err)
	}
}
