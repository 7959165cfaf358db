package httpapi

import (
	"context"
	"encoding/base64"
	"iter"
	"net/http"
	"strings"
	"syscall"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/terminal"
	"github.com/coder/websocket"
)

// scrollback is how much of a terminal's past is shown to who attaches to it.
const scrollback = 64 << 10

func (a *Handler) addTerminal(op opMaker) {
	term := op(http.MethodGet, "/{id}/terminal", "open-terminal", api.ScopeWrite, "Open a terminal, over a WebSocket", execProblems(api.CodeForeignOrigin, api.CodeOutputTrimmed)...)
	term.Description = "Starts a login shell, or command, in a terminal; with exec_id it attaches to one that runs. " +
		"Binary messages are bytes, typed or shown. Text messages are JSON: the server sends {\"type\":\"attached\",\"exec_id\":…} first and {\"type\":\"exit\",…} last, " +
		"the client {\"type\":\"resize\",\"cols\":…,\"rows\":…} and, to hang up, {\"type\":\"end\"}. Closing with the status 4000 hangs up, too; any other leaves the shell running. " +
		"The subprotocol is berth.terminal.v1; a browser, which cannot set headers, offers berth.key.KEY besides."
	term.Timeout, term.Also = unlimited, map[int]string{http.StatusSwitchingProtocols: "The terminal"}
	a.serveRaw(term, "application/json", a.terminal, inPath("id"),
		inQuery("cols", "integer", "Columns; 80 if left out"), inQuery("rows", "integer", "Rows; 24 if left out"),
		inQuery("command", "string", "A text for /bin/sh -c; a login shell if left out"), inQuery("user", "string", "agent or root"),
		inQuery("exec_id", "string", "Attach to this one"), inQuery("after", "integer", "The offset to show from; the last 64 KiB if left out"))
}

// terminal answers GET …/terminal. Whatever can be refused is refused before the connection is no longer
// one of HTTP.
func (a *Handler) terminal(w http.ResponseWriter, r *http.Request) {
	e, after, err := a.terminalOf(r)
	if err != nil {
		fail(w, r, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.ending, cancel)()
	attach := e.id != ""
	var conn guest.Conn
	if attach {
		conn, err = e.h.Guest(ctx)
	} else {
		e.id, after = newID(), 0
		conn, err = e.begin(ctx, 0) // one connection for all: a shell that is started can be reached
	}
	if err != nil {
		fail(w, r, guestError("open terminal", err))
		return
	}
	defer conn.Close()
	process := conn.Process(e.id)
	if attach {
		if after, err = reattach(ctx, e, process, after); err != nil {
			fail(w, r, guestError("attach to terminal", err))
			return
		}
	}
	defer e.h.Hold(ctx, "terminal")()
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{api.TerminalProtocol}})
	if err != nil {
		if !attach {
			hangUp(ctx, process) // nobody knows of it
		}
		return
	}
	session := terminal.Session{
		ExecID: e.id, Process: process, After: after,
		Output: func(ctx context.Context, after int64) iter.Seq2[guest.Chunk, error] {
			return e.h.Output(ctx, e.id, after)
		},
		Exit: func(exit guest.Exit) api.ExecExit { return exitOut(exit, e.started) },
	}
	if err := session.Serve(ctx, ws); err != nil {
		exchangeOf(ctx).log.InfoContext(ctx, "terminal broke off", "sandbox_id", e.sandbox.ID, "exec_id", e.id, "error", err)
	}
}

// hangUp ends a shell whose client is gone, and with it perhaps the request's context.
func hangUp(ctx context.Context, p guest.Process) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
	defer cancel()
	_ = p.Signal(ctx, syscall.SIGHUP) // it may have ended by itself
}

// terminalOf reads what terminal is asked for. After is -1 where the query does not say.
func (a *Handler) terminalOf(r *http.Request) (e *execution, after int64, err error) {
	if err := checkUpgrade(r); err != nil {
		return nil, 0, err
	}
	if err := readQuery(r, "cols", "rows", "command", "user", "exec_id", "after"); err != nil {
		return nil, 0, err
	}
	query := r.URL.Query()
	cols, err := number(r, "cols", 1, 10_000, 80)
	var rows int64
	if err == nil {
		rows, err = number(r, "rows", 1, 10_000, 24)
	}
	if err == nil {
		after, err = number(r, "after", 0, 1<<62, -1)
	}
	if err != nil {
		return nil, 0, err
	}
	e = &execution{id: query.Get("exec_id"), want: api.Exec{
		Command: api.LoginShell(), User: query.Get("user"), Terminal: &api.TermSize{Cols: int(cols), Rows: int(rows)},
	}}
	if line := query.Get("command"); line != "" {
		e.want.Command = api.Shell(line)
	}
	switch {
	case e.want.User != "" && e.want.User != guest.Agent && e.want.User != guest.Root:
		return nil, 0, invalidField("query.user", "expected agent or root")
	case e.id == "" && after >= 0:
		return nil, 0, invalidField("query.after", "expected only with exec_id")
	case e.id != "" && (query.Has("command") || query.Has("user")):
		return nil, 0, invalidField("query.exec_id", "expected without command and user")
	case e.id != "":
		err = checkExecID(e.id)
	}
	if err == nil {
		e.h, e.sandbox, err = a.open(r.Context(), r.PathValue("id"))
	}
	if err == nil && e.id != "" && e.sandbox.State != sandbox.Running {
		no := sandbox.Errorf("attach to terminal", api.CodeNotRunning, "sandbox %s is %s: nothing runs in it", e.sandbox.ID, e.sandbox.State)
		no.Hint = "What the terminal showed can still be read, with GET …/exec/{exec_id}/stream."
		err = no
	}
	return e, after, err
}

// reattach finds where to show a running terminal from, and gives it the size of who looks at it now.
func reattach(ctx context.Context, e *execution, p guest.Process, after int64) (int64, error) {
	status, err := p.Status(ctx)
	switch {
	case err != nil:
		return 0, err
	case !status.Terminal:
		return 0, invalidField("query.exec_id", "that command has no terminal")
	case after < 0:
		after = max(status.First, status.End-scrollback)
	case after == 0:
		after = status.First
	case after < status.First:
		return 0, guest.ErrTrimmed
	case after > status.End:
		return 0, invalidField("query.after", "the output is not that long")
	}
	e.started = status.StartedAt
	size := e.want.Terminal
	if status.Exit == nil {
		_ = p.Resize(ctx, guest.Size{Cols: uint16(size.Cols), Rows: uint16(size.Rows)}) // it may have ended just now
	}
	return after, nil
}

// checkUpgrade refuses what is no WebSocket handshake: later there is no way back.
func checkUpgrade(r *http.Request) error {
	key, err := base64.StdEncoding.DecodeString(r.Header.Get("Sec-WebSocket-Key"))
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") && strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade") &&
		r.Header.Get("Sec-WebSocket-Version") == "13" && err == nil && len(key) == 16 && r.ProtoMajor == 1 {
		return nil
	}
	e := sandbox.Errorf("open terminal", api.CodeInvalidRequest, "the request is no WebSocket handshake")
	e.Hint = "Connect with a WebSocket client over HTTP/1.1; 'berth shell' is one."
	return e
}
