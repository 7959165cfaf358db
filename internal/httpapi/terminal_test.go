package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// screen is a client at a terminal.
type screen struct {
	t     *testing.T
	ws    *websocket.Conn
	ctx   context.Context
	shown strings.Builder
	id    string
	exit  *api.ExecExit
	looks bool // it may only look
}

// dialTerminal tries to open one; header are pairs.
func (w *workshop) dialTerminal(query string, header ...string) (*websocket.Conn, *http.Response, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), long)
	defer cancel()
	opts := &websocket.DialOptions{HTTPHeader: http.Header{}, Subprotocols: []string{api.TerminalProtocol}}
	for i := 0; i < len(header); i += 2 {
		opts.HTTPHeader.Set(header[i], header[i+1])
	}
	return websocket.Dial(ctx, w.server.URL+w.box+"/terminal?"+query, opts)
}

func (w *workshop) terminal(query string) *screen {
	w.t.Helper()
	ws, _, err := w.dialTerminal(query, "Authorization", "Bearer "+w.write)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), long)
	w.t.Cleanup(func() { cancel(); _ = ws.CloseNow() })
	s := &screen{t: w.t, ws: ws, ctx: ctx}
	ws.SetReadLimit(1 << 20)
	if err := s.read(); err != nil || s.id == "" || ws.Subprotocol() != api.TerminalProtocol {
		w.t.Fatalf("the first word is not where we are: %q %v", s.shown.String(), err)
	}
	return s
}

func (s *screen) read() error {
	kind, data, err := s.ws.Read(s.ctx)
	if err != nil {
		return err
	}
	if kind == websocket.MessageBinary {
		s.shown.Write(data)
		return nil
	}
	var word api.TerminalWord
	if err := json.Unmarshal(data, &word); err != nil {
		s.t.Fatalf("word %q: %v", data, err)
	}
	switch word.Type {
	case api.TermAttached:
		s.id, s.looks = word.ExecID, word.ViewOnly
	case api.TermExit:
		s.exit = word.ExecExit
	default:
		s.t.Fatalf("word %q", data)
	}
	return nil
}

func (s *screen) typed(text string) {
	s.t.Helper()
	if err := s.ws.Write(s.ctx, websocket.MessageBinary, []byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *screen) said(word string) {
	s.t.Helper()
	if err := s.ws.Write(s.ctx, websocket.MessageText, []byte(word)); err != nil {
		s.t.Fatal(err)
	}
}

// shows waits until the text was shown.
func (s *screen) shows(text string) {
	s.t.Helper()
	for !strings.Contains(s.shown.String(), text) {
		if err := s.read(); err != nil {
			s.t.Fatalf("never showed %q, only %q, exit %+v: %v", text, s.shown.String(), s.exit, err)
		}
	}
}

// ends waits for the server to close, and returns with which status.
func (s *screen) ends() (websocket.StatusCode, string) {
	s.t.Helper()
	for {
		if err := s.read(); err != nil {
			return websocket.CloseStatus(err), err.Error()
		}
	}
}

func TestTerminalIsAShell(t *testing.T) {
	testkit.Proves(t, "P6")
	w := newWorkshop(t)
	s := w.terminal("cols=91&rows=17")
	s.typed("stty size; echo own=$OWN term=$TERM\n")
	s.shows("17 91\r\n")
	s.shows("own=of the sandbox term=xterm-256color\r\n")
	s.said(`{"type":"resize","cols":120,"rows":33}`)
	s.typed("stty size\n")
	s.shows("33 120\r\n")
	if w.holds.Load() != 1 {
		t.Errorf("%d holds, want the terminal's", w.holds.Load())
	}
	s.typed("exit 7\n")
	if code, why := s.ends(); code != websocket.StatusNormalClosure || s.exit == nil || s.exit.ExitCode != 7 {
		t.Errorf("closed with %d %q, exit %+v", code, why, s.exit)
	}
	testkit.Eventually(t, long, func() error {
		if n := w.holds.Load(); n != 0 {
			return fmt.Errorf("%d holds are left", n)
		}
		return nil
	})
	if status := w.over(s.id); !status.Terminal {
		t.Errorf("%+v", status)
	}
}

func TestTerminalIsLeftAndTakenUpAgain(t *testing.T) {
	w := newWorkshop(t)
	s := w.terminal("command=" + "echo%20hello%3B%20read%20x%3B%20echo%20got%20$x%3B%20stty%20size%3B%20read%20y")
	s.shows("hello\r\n")
	_ = s.ws.CloseNow() // as a network that breaks
	again := w.terminal("cols=100&rows=50&exec_id=" + s.id)
	if again.id != s.id {
		t.Fatalf("attached to %s, want %s", again.id, s.id)
	}
	again.shows("hello\r\n") // scrollback
	again.typed("you\n")
	again.shows("got you\r\n50 100\r\n")
	both := w.terminal("exec_id=" + s.id + "&after=7")
	both.shows("got you\r\n")
	if strings.Contains(both.shown.String(), "hello") {
		t.Errorf("showed output before the offset: %q", both.shown.String())
	}
	if err := again.ws.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	if status := into[api.ExecStatus](w.get(w.box + "/exec/" + s.id).is(http.StatusOK)); !status.Running {
		t.Errorf("detaching ended it: %+v", status)
	}
	both.said(`{"type":"end"}`)
	if code, _ := both.ends(); code != websocket.StatusNormalClosure || both.exit == nil || both.exit.Signal != "HUP" {
		t.Errorf("hung up: %d, %+v", code, both.exit)
	}
	over := w.terminal("exec_id=" + s.id + "&after=0")
	if code, _ := over.ends(); code != websocket.StatusNormalClosure || over.exit == nil || !strings.Contains(over.shown.String(), "hello") {
		t.Errorf("attached after the end: %d, %+v, %q", code, over.exit, over.shown.String())
	}
}

func TestTerminalIsHungUpByItsCloseCode(t *testing.T) {
	w := newWorkshop(t)
	s := w.terminal("command=read%20x")
	if err := s.ws.Close(api.CloseEnd, "end"); err != nil {
		t.Error(err)
	}
	w.over(s.id)
}

func TestTerminalShowsOnlyTheLastOfALongPast(t *testing.T) {
	w := newWorkshop(t)
	s := w.terminal("command=" + "seq%201%2060000%3B%20read%20x")
	s.shows("60000\r\n")
	again := w.terminal("exec_id=" + s.id)
	again.shows("60000\r\n")
	// What the helper counted may lag a little behind what its spool shows.
	if n := again.shown.Len(); n > 2*scrollback || n < scrollback/2 {
		t.Errorf("%d bytes of scrollback", n)
	}
}

// A page of another origin gets no terminal, with any key (B4 21).
func TestForeignPagesGetNoTerminal(t *testing.T) {
	testkit.Proves(t, "P6")
	w := newWorkshop(t)
	for _, origin := range []string{"https://evil.test", "null", "http://localhost:1", w.server.URL + ".evil.test"} {
		_, res, err := w.dialTerminal("", "Authorization", "Bearer "+w.write, "Origin", origin)
		if err == nil || res == nil || res.StatusCode != http.StatusForbidden {
			t.Errorf("origin %q: %v", origin, err)
		}
	}
	ws, _, err := w.dialTerminal("", "Authorization", "Bearer "+w.write, "Origin", w.server.URL)
	if err != nil {
		t.Errorf("our own origin: %v", err)
	} else {
		_ = ws.Close(api.CloseEnd, "")
	}
	if list := into[api.List[api.ExecStatus]](w.get(w.box + "/exec").is(http.StatusOK)); len(list.Items) != 1 {
		t.Errorf("refused handshakes started something: %+v", list.Items)
	}
}

func TestBrowsersOfferTheirKeyAsAProtocol(t *testing.T) {
	w := newWorkshop(t)
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	offer := func(key string) (*websocket.Conn, *http.Response, error) {
		return websocket.Dial(ctx, w.server.URL+w.box+"/terminal", &websocket.DialOptions{Subprotocols: []string{api.TerminalProtocol, api.TerminalKeyProtocol + key}})
	}
	ws, res, err := offer(w.write)
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Header.Get("Sec-WebSocket-Protocol"); got != api.TerminalProtocol {
		t.Errorf("answered with the protocol %q", got)
	}
	_ = ws.Close(api.CloseEnd, "")
	for key, status := range map[string]int{"": 401, "berth_not_one_of_ours": 401, w.read: 403} {
		if _, res, err := offer(key); err == nil || res == nil || res.StatusCode != status {
			t.Errorf("key %q: %v", key, err)
		}
	}
	if _, res, err := w.dialTerminal("key=" + w.write); err == nil || res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a key in the address: %v", err)
	}
	for _, key := range []string{w.write, w.read} {
		if strings.Contains(w.log.String(), key) {
			t.Error("a key is in the log")
		}
	}
}

func TestTerminalsThatAreRefused(t *testing.T) {
	w := newWorkshop(t)
	w.stream(shell("true", `"exec_id":"plain"`)).rest()
	for query, code := range map[string]api.Code{
		"cols=0":                      api.CodeInvalidRequest,
		"rows=99999":                  api.CodeInvalidRequest,
		"cols=x":                      api.CodeInvalidRequest,
		"user=daemon":                 api.CodeInvalidRequest,
		"user=root":                   api.CodeInvalidRequest, // this helper has none
		"after=5":                     api.CodeInvalidRequest,
		"exec_id=plain":               api.CodeInvalidRequest,
		"exec_id=plain&command=x":     api.CodeInvalidRequest,
		"what=else":                   api.CodeInvalidRequest,
		"exec_id=none":                api.CodeNoSuchExec,
		"exec_id=UPPER":               api.CodeNoSuchExec,
		"command=a&command=b":         api.CodeInvalidRequest,
		"exec_id=plain&after=nothing": api.CodeInvalidRequest,
	} {
		_, res, err := w.dialTerminal(query, "Authorization", "Bearer "+w.write)
		if err == nil || res == nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		body, _ := io.ReadAll(res.Body)
		answer{t, res.StatusCode, res.Header, body}.fails(code)
	}
	w.do(call{path: w.box + "/terminal", key: w.write}).fails(api.CodeInvalidRequest)
	w.do(call{path: w.box + "/terminal", key: w.write, header: map[string]string{"Upgrade": "websocket", "Connection": "upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "short"}}).fails(api.CodeInvalidRequest)
	w.post(w.box+"/stop", "").is(http.StatusOK)
	_, res, err := w.dialTerminal("exec_id=plain", "Authorization", "Bearer "+w.write)
	if err == nil || res == nil || res.StatusCode != http.StatusConflict {
		t.Errorf("in a stopped sandbox: %v", err)
	}
}

func TestDrainSaysGoodbyeToTerminals(t *testing.T) {
	w := newWorkshop(t)
	s := w.terminal("command=read%20x")
	w.Drain()
	if code, _ := s.ends(); code != websocket.StatusGoingAway {
		t.Errorf("closed with %d", code)
	}
	if status := into[api.ExecStatus](w.get(w.box + "/exec/" + s.id).is(http.StatusOK)); !status.Running {
		t.Errorf("%+v", status)
	}
}

// A shell that was started can be reached, by the connection that started it.
func TestTerminalNeedsOneConnection(t *testing.T) {
	w := newWorkshop(t)
	before := w.guests.Load()
	s := w.terminal("")
	if n := w.guests.Load() - before; n != 1 {
		t.Errorf("%d connections: a failure in between leaves a shell without a client", n)
	}
	s.typed("exit\n")
	s.ends()
}
