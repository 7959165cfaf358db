package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
)

// viewer is a client at the signed URL of a terminal.
type viewer struct {
	*testing.T
	ws    *websocket.Conn
	ctx   context.Context
	from  int64 // the offset of the first output
	shown strings.Builder
}

// watch opens the URL at a server, from an offset on; a negative one: where the server begins.
func (p *process) watch(t *testing.T, address string, after int64) *viewer {
	t.Helper()
	at, err := url.Parse(address)
	own, err2 := url.Parse(p.url)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	at.Host = own.Host // the server listens on another port after a restart
	if after >= 0 {
		at.RawQuery += fmt.Sprint("&after=", after)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	ws, _, err := websocket.Dial(ctx, at.String(), &websocket.DialOptions{Subprotocols: []string{api.TerminalProtocol}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	ws.SetReadLimit(1 << 20)
	v := &viewer{T: t, ws: ws, ctx: ctx}
	_, data, err := ws.Read(ctx)
	var word api.TerminalWord
	if err != nil || json.Unmarshal(data, &word) != nil || word.Type != api.TermAttached {
		t.Fatalf("no first word: %q, %v", data, err)
	}
	v.from = word.Next
	return v
}

// read reads one message of output. It is not ok if the connection has ended.
func (v *viewer) read() bool {
	kind, data, err := v.ws.Read(v.ctx)
	if err == nil && kind == websocket.MessageBinary {
		v.shown.Write(data)
	}
	return err == nil
}

func (v *viewer) shows(text string) {
	v.Helper()
	for !strings.Contains(v.shown.String(), text) {
		if !v.read() {
			v.Fatalf("never showed %q, only %q", text, v.shown.String())
		}
	}
}

// A terminal in a real sandbox goes on while the server is killed and started again. A viewer that comes back with the same
// URL and its offset misses no line and gets none twice; the signature is valid at the next server.
func TestTerminalSurvivesAKilledServer(t *testing.T) {
	testkit.Proves(t, "P6", "X4")
	t.Parallel()
	env := local(t)
	p := start(t, env)
	c := p.client(t, client.WithAttempts(1))
	if _, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "box"}); err != nil {
		t.Fatal(err)
	}
	made, err := c.Sandboxes.CreateTerminal(t.Context(), "box", api.CreateTerminal{
		Command: `i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo "line $i."; sleep 0.01; done; read x; echo "got $x"; read y`,
	})
	if err != nil {
		t.Fatal(err)
	}
	types, sees := p.watch(t, made.URL, -1), p.watch(t, made.ViewURL, -1)
	types.shows("line 50.\r\n")
	sees.shows("line 50.\r\n")
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	for sees.read() { // what was on its way
	}
	p = start(t, env)
	rest := p.watch(t, made.ViewURL, sees.from+int64(sees.shown.Len()))
	rest.shows("line 3000.\r\n")
	var want strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&want, "line %d.\r\n", i+1)
	}
	whole := sees.shown.String() + rest.shown.String()
	if first := strings.Index(whole, "line 1."); first != 0 || whole != want.String() {
		t.Errorf("the viewer got %d bytes of %d, in %d lines", len(whole), want.Len(), strings.Count(whole, "\n"))
	}
	types = p.watch(t, made.URL, -1)
	if err := types.ws.Write(types.ctx, websocket.MessageBinary, []byte("you\r")); err != nil {
		t.Fatal(err)
	}
	types.shows("got you\r\n")
	rest.shows("got you\r\n")

	c = p.client(t, client.WithAttempts(1))
	if err := c.Sandboxes.DeleteTerminals(t.Context(), "box", made.ExecID); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		all, err := c.Sandboxes.Execs(t.Context(), "box")
		if slices.ContainsFunc(all, func(x api.ExecStatus) bool { return x.ExecID == made.ExecID && x.Running }) {
			err = fmt.Errorf("%s runs", made.ExecID)
		}
		return err
	})
	made, err = c.Projects.StartTerminal(t.Context(), "p", api.CreateTerminal{})
	if err != nil {
		t.Fatal(err)
	}
	v := p.watch(t, made.URL, -1)
	if err := v.ws.Write(v.ctx, websocket.MessageBinary, []byte("echo in-$((40+2))\r")); err != nil {
		t.Fatal(err)
	}
	v.shows("in-42")
	if err := c.Projects.StopTerminals(t.Context(), "p", ""); err != nil {
		t.Fatal(err)
	}
	for v.read() {
	}
}
