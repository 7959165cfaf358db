package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// start starts a terminal that outlives its viewers.
func (w *workshop) start(path, body string) api.SandboxTerminal {
	w.t.Helper()
	return into[api.SandboxTerminal](w.do(call{method: http.MethodPost, path: path + "/terminal", key: w.write, body: body}).is(http.StatusCreated))
}

// look opens a URL of a terminal, without a key.
func (w *workshop) look(address string, header ...string) (*screen, *http.Response, error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), long)
	w.t.Cleanup(cancel)
	opts := &websocket.DialOptions{HTTPHeader: http.Header{}, Subprotocols: []string{api.TerminalProtocol}}
	for i := 0; i < len(header); i += 2 {
		opts.HTTPHeader.Set(header[i], header[i+1])
	}
	ws, res, err := websocket.Dial(ctx, address, opts)
	if err != nil {
		return nil, res, err
	}
	w.t.Cleanup(func() { _ = ws.CloseNow() })
	s := &screen{t: w.t, ws: ws, ctx: ctx}
	ws.SetReadLimit(1 << 20)
	return s, res, s.read()
}

func (w *workshop) looks(address string) *screen {
	w.t.Helper()
	s, _, err := w.look(address)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// refuses checks the status with which a URL is refused.
func (w *workshop) refuses(what, address string, status int, header ...string) {
	w.t.Helper()
	if _, res, err := w.look(address, header...); err == nil || res == nil || res.StatusCode != status {
		w.t.Errorf("%s: %v", what, err)
	}
}

// A terminal runs while its viewers come and go. All of them see the same, and one that may only look changes nothing.
func TestTerminalOutlivesItsViewers(t *testing.T) {
	testkit.Proves(t, "P6", "E4")
	w := newWorkshop(t, withRoots(t))
	made := w.start(w.box, `{"cols":91,"rows":17}`)
	if !strings.HasPrefix(made.ExecID, "term-") || made.SandboxID != w.id || made.ExpiresAt.IsZero() {
		t.Errorf("%+v", made)
	}
	types, sees := w.looks(made.URL), w.looks(made.ViewURL)
	if types.looks || !sees.looks || types.id != made.ExecID || sees.id != made.ExecID {
		t.Errorf("%+v, %+v", types, sees)
	}
	sees.typed("echo typed-by-$((1+1))\n")
	sees.said(`{"type":"resize","cols":10,"rows":5}`)
	sees.said(`{"type":"end"}`)
	types.typed("echo seen-$((40+2)); stty size\n")
	for _, s := range []*screen{types, sees} {
		s.shows("seen-42\r\n17 91\r\n")
		if strings.Contains(s.shown.String(), "typed-by-2") {
			t.Errorf("a viewer that may only look has typed: %q", s.shown.String())
		}
	}
	_ = sees.ws.Close(api.CloseEnd, "end") // as one that may end the shell
	_ = types.ws.CloseNow()
	more := w.start(w.box, `{"exec_id":"`+made.ExecID+`"}`)
	again := w.looks(more.URL)
	again.shows("seen-42\r\n17 91\r\n")
	again.typed("stty size; printf '\\033]52;c;aGk=\\007\\033[2J'\n")
	again.shows("17 91\r\n\x1b]52;c;aGk=\a\x1b[2J") // nothing is changed on the way

	if strings.Contains(w.log.String(), "berth_url") {
		t.Error("a token is in the log")
	}
	w.do(call{method: http.MethodDelete, path: w.box + "/terminal?exec_id=" + made.ExecID, key: w.write}).is(http.StatusNoContent)
	if code, why := again.ends(); code != websocket.StatusNormalClosure && code != api.CloseKeyEnded {
		t.Errorf("closed with %d %q", code, why)
	}
	if status := w.over(made.ExecID); status.Running {
		t.Errorf("%+v", status)
	}
	for _, address := range []string{made.URL, made.ViewURL, more.URL} {
		w.refuses("the URL of a terminal that was ended", address, http.StatusUnauthorized)
	}
	w.do(call{method: http.MethodDelete, path: w.box + "/terminal", key: w.write}).is(http.StatusNoContent)
	w.do(call{method: http.MethodDelete, path: w.box + "/terminal?exec_id=none", key: w.write}).fails(api.CodeNoSuchExec)
	w.do(call{method: http.MethodPost, path: w.box + "/terminal", key: w.write, body: `{"exec_id":"` + made.ExecID + `"}`}).fails(api.CodeNoSuchExec)
}

// A shell that takes no notice of the hangup is killed, and shells that were opened otherwise go on.
func TestDeleteEndsTheTerminalsOfPost(t *testing.T) {
	w := newWorkshop(t, withRoots(t))
	other := w.terminal("command=" + url.QueryEscape("echo on; read x"))
	other.shows("on")
	deaf := w.start(w.box, `{"command":"trap '' HUP; echo deaf; while :; do sleep 1; done"}`)
	w.looks(deaf.ViewURL).shows("deaf")
	w.do(call{method: http.MethodDelete, path: w.box + "/terminal", key: w.write}).is(http.StatusNoContent)
	if status := w.over(deaf.ExecID); status.Exit == nil || status.Exit.Signal != "KILL" {
		t.Errorf("%+v", status)
	}
	if status := into[api.ExecStatus](w.get(w.box + "/exec/" + other.id).is(http.StatusOK)); !status.Running {
		t.Errorf("%+v", status)
	}
}

// URLs of terminals are refused when they are forged, expired, for another terminal or sent by a page of another origin,
// and open nothing else.
func TestTerminalURLsThatAreRefused(t *testing.T) {
	testkit.Proves(t, "P6", "E2", "E4")
	w := newWorkshop(t, withRoots(t), func(o *Options) { o.PreviewDomain = previewDomain })
	made, second := w.start(w.box, `{}`), w.start(w.box, `{"expires_in_seconds":1}`)
	at, err := url.Parse(made.URL)
	if err != nil {
		t.Fatal(err)
	}
	with := func(name, value string) string {
		u, q := *at, at.Query()
		if q.Set(name, value); value == "" {
			q.Del(name)
		}
		u.RawQuery = q.Encode()
		return u.String()
	}
	token := at.Query().Get("berth_url")
	w.refuses("a forged signature", with("berth_url", token[:len(token)-4]+"AAAA"), http.StatusUnauthorized)
	w.refuses("a token without its signature", with("berth_url", strings.Split(token, ".")[0]), http.StatusUnauthorized)
	w.refuses("no token", with("berth_url", ""), http.StatusUnauthorized)
	w.refuses("another terminal", with("exec_id", second.ExecID), http.StatusForbidden)
	w.refuses("a new shell", with("exec_id", ""), http.StatusForbidden)
	w.refuses("a command", with("command", "id"), http.StatusBadRequest)
	w.refuses("a page of another origin", made.URL, http.StatusForbidden, "Origin", "https://evil.test")
	w.refuses("a page of a preview", made.URL, http.StatusForbidden, "Origin", "http://3000-"+w.id+"."+previewDomain)
	if s, _, err := w.look(made.URL, "Origin", w.server.URL); err != nil || s.id != made.ExecID {
		t.Errorf("our own page: %v", err)
	}
	port := into[api.PortURL](w.do(call{method: http.MethodPost, path: w.box + "/ports/8080/url", key: w.write, body: `{}`}).is(http.StatusCreated))
	u, _ := url.Parse(port.URL)
	w.refuses("the URL of a port", with("berth_url", u.Query().Get("berth_url")), http.StatusForbidden)
	w.do(call{path: "/?berth_url=" + token, host: u.Host}).fails(api.CodeForbidden) // a port, with the URL of a terminal
	for _, path := range []string{w.box, w.box + "/exec", w.box + "/terminal"} {
		w.do(call{path: path + "?berth_url=" + token}).is(map[bool]int{true: http.StatusBadRequest, false: http.StatusUnauthorized}[strings.HasSuffix(path, "/terminal")])
	}
	testkit.Eventually(t, long, func() error {
		if _, res, err := w.look(second.URL); err == nil || res == nil || res.StatusCode != http.StatusUnauthorized {
			return fmt.Errorf("an expired URL: %v", err)
		}
		return nil
	})
	other := w.newKey("other", api.ScopeAdmin)
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		path := sandboxesPath + "/" + w.id + "/terminal"
		w.do(call{method: method, path: path, key: other}).fails(api.CodeNotFound)
		w.do(call{method: method, path: path, key: w.read}).fails(api.CodeForbidden)
		w.do(call{method: method, path: path}).fails(api.CodeUnauthenticated)
	}
	for _, body := range []string{`{"cols":-1}`, `{"rows":99999}`, `{"user":"daemon"}`, `{"expires_in_seconds":604801}`, `{"exec_id":"x","command":"y"}`, `{"what":1}`} {
		w.do(call{method: http.MethodPost, path: w.box + "/terminal", key: w.write, body: body}).fails(api.CodeInvalidRequest)
	}
	w.do(call{method: http.MethodPost, path: w.box + "/terminal", key: w.write, body: `{"exec_id":"none"}`}).fails(api.CodeNoSuchExec)
}

// An open connection ends when its URL does: at its expiry, and when the key that made it is revoked.
func TestTerminalURLsEndOpenConnections(t *testing.T) {
	testkit.Proves(t, "E4")
	w := newWorkshop(t, withRoots(t))
	brief := w.looks(w.start(w.box, `{"expires_in_seconds":3}`).ViewURL)
	if code, why := brief.ends(); code != api.CloseKeyEnded || !strings.Contains(why, string(api.CodeURLExpired)) {
		t.Errorf("closed with %d %q", code, why)
	}
}

// A flood of output holds up neither the server nor other viewers, and a viewer that comes later gets a bounded part of it.
func TestFloodInATerminalIsBounded(t *testing.T) {
	w := newWorkshop(t, withRoots(t))
	made := w.start(w.box, `{"command":"head -c 30000000 /dev/zero | tr '\\0' x; echo; echo dry; read x"}`)
	testkit.Eventually(t, long, func() error {
		if status := into[api.ExecStatus](w.get(w.box + "/exec/" + made.ExecID).is(http.StatusOK)); status.End < 30_000_000 {
			return fmt.Errorf("%d bytes so far", status.End)
		}
		return nil
	})
	late := w.looks(made.ViewURL)
	late.shows("dry\r\n")
	if n := late.shown.Len(); n > 2*64<<10 {
		t.Errorf("a late viewer got %d bytes", n)
	}
}

func TestTerminalOfAProject(t *testing.T) {
	testkit.Proves(t, "P1", "P6")
	w := newWorkshop(t, withRoots(t))
	project := at("p")
	w.do(call{method: http.MethodDelete, path: project + "/terminal", key: w.write}).fails(api.CodeNotFound)
	made := w.start(project, `{"command":"echo project; read x"}`)
	s := w.looks(made.URL)
	s.shows("project\r\n")
	if got := into[api.ProjectSandbox](w.get(project).is(http.StatusOK)); got.SandboxID != made.SandboxID {
		t.Errorf("the terminal is in %s, the project's sandbox is %s", made.SandboxID, got.SandboxID)
	}
	w.do(call{method: http.MethodPost, path: project + "/terminal", key: w.read}).fails(api.CodeForbidden)
	w.do(call{method: http.MethodPost, path: at("sandboxes", "terminal"), key: w.write}).fails(api.CodeInvalidID)
	w.do(call{method: http.MethodDelete, path: project + "/terminal", key: w.write}).is(http.StatusNoContent)
	if code, why := s.ends(); code != websocket.StatusNormalClosure && code != api.CloseKeyEnded {
		t.Errorf("closed with %d %q", code, why)
	}
	w.refuses("the URL of a terminal that was ended", made.URL, http.StatusUnauthorized)
}
