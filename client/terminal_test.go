package client_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/coder/websocket"
)

// terminals serves a terminal that echoes what is typed, after saying what it was asked for.
func terminals(t *testing.T, said chan<- api.TerminalWord, typed chan<- string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/terminal") {
			streaming(w)
			event(w, `{"type":"started","exec_id":"e"}`)
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+key {
			t.Errorf("no key: %v", r.Header)
		}
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{api.TerminalProtocol}})
		if err != nil {
			t.Error(err)
			return
		}
		defer ws.CloseNow()
		say := func(word api.TerminalWord) {
			data, _ := json.Marshal(word)
			_ = ws.Write(r.Context(), websocket.MessageText, data)
		}
		say(api.TerminalWord{Type: api.TermAttached, ExecID: "e"})
		_ = ws.Write(r.Context(), websocket.MessageBinary, []byte(r.URL.RawQuery+"\n"))
		for {
			kind, data, err := ws.Read(r.Context())
			if err != nil {
				typed <- "closed " + websocket.CloseStatus(err).String()
				return
			}
			if kind == websocket.MessageBinary {
				typed <- string(data)
				continue
			}
			var word api.TerminalWord
			_ = json.Unmarshal(data, &word)
			said <- word
			if word.Type == api.TermEnd {
				_ = ws.Write(r.Context(), websocket.MessageBinary, []byte("bye"))
				say(api.TerminalWord{Type: api.TermExit, ExecExit: &api.ExecExit{ExitCode: 129, Signal: "HUP"}})
				_ = ws.Close(websocket.StatusNormalClosure, "exit")
				return
			}
		}
	}
}

func TestTerminalReadsWritesAndEnds(t *testing.T) {
	said, typed := make(chan api.TerminalWord, 8), make(chan string, 8)
	c := serve(t, terminals(t, said, typed))
	term, err := c.Sandboxes.Terminal(t.Context(), "box", client.TerminalOptions{Exec: api.Exec{User: "root"}})
	if err != nil {
		t.Fatal(err)
	}
	if term.ExecID != "e" {
		t.Errorf("id %q", term.ExecID)
	}
	if n, err := io.WriteString(term, strings.Repeat("x", 20_000)); n != 20_000 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if got := len(<-typed) + len(<-typed); got != 20_000 {
		t.Errorf("%d bytes were typed", got)
	}
	if err := term.Resize(api.TermSize{Cols: 100, Rows: 30}); err != nil {
		t.Error(err)
	}
	if word := <-said; word.Type != api.TermResize || word.Cols != 100 || word.Rows != 30 {
		t.Errorf("%+v", word)
	}
	if err := term.End(); err != nil {
		t.Error(err)
	}
	shown, err := io.ReadAll(term)
	if err != nil || string(shown) != "cols=80&rows=24&user=root\nbye" {
		t.Errorf("%q, %v", shown, err)
	}
	if exit, err := term.Wait(); err != nil || exit.ExitCode != 129 {
		t.Errorf("%+v, %v", exit, err)
	}
	if err := term.Close(); err != nil {
		t.Error(err)
	}
}

// What an address cannot carry is started first, and then attached to.
func TestTerminalOfACommand(t *testing.T) {
	said, typed := make(chan api.TerminalWord, 8), make(chan string, 8)
	c := serve(t, terminals(t, said, typed))
	for _, opts := range []client.TerminalOptions{
		{Exec: api.Exec{Command: api.Command{"vi"}}}, {Exec: api.Exec{Env: map[string]string{"A": "b"}}}, {Attach: "e", After: new(int64)},
	} {
		term, err := c.Sandboxes.Terminal(t.Context(), "box", opts)
		if err != nil {
			t.Fatal(err)
		}
		line := make([]byte, 100)
		n, _ := term.Read(line)
		if string(line[:n]) != "after=0&cols=80&exec_id=e&rows=24\n" {
			t.Errorf("%q", line[:n])
		}
		if err := term.Close(); err != nil {
			t.Error(err)
		}
		if got := <-typed; got != "closed StatusNormalClosure" {
			t.Errorf("%q", got)
		}
		if _, err := term.Wait(); err == nil {
			t.Error("a closed terminal has an exit")
		}
	}
}

func TestTerminalsThatDoNotOpen(t *testing.T) {
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		want api.Code
	}{
		"refused": {func(w http.ResponseWriter, r *http.Request) { refuse(w, api.NewProblem(api.CodeNoSuchExec, "none")) }, api.CodeNoSuchExec},
		"gone":    {func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }, api.CodeServerUnreachable},
		"nothing": {func(w http.ResponseWriter, r *http.Request) { answer(w, http.StatusOK, "x") }, api.CodeServerUnreachable},
		"no words": {func(w http.ResponseWriter, r *http.Request) {
			if ws, err := websocket.Accept(w, r, nil); err == nil {
				_ = ws.Write(r.Context(), websocket.MessageText, []byte("{"))
				_, _, _ = ws.Read(r.Context())
			}
		}, api.CodeServerUnreachable},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := serve(t, c.h, client.WithAttempts(1)).Sandboxes.Terminal(ctx, "box", client.TerminalOptions{Attach: "e"})
		cancel()
		if p := problemOf(t, err); p.Code != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) { refuse(w, api.NewProblem(api.CodeInvalidRequest, "bad")) })
	if _, err := c.Sandboxes.Terminal(t.Context(), "box", client.TerminalOptions{Exec: api.Exec{Command: api.Shell("x")}}); err == nil {
		t.Error("what could not be started is attached to")
	}
	if _, err := c.Sandboxes.Terminal(t.Context(), "..", client.TerminalOptions{}); err == nil {
		t.Error("a path out of sandboxes")
	}
}
