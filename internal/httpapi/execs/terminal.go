package execs

import (
	"context"
	"encoding/base64"
	"iter"
	"net/http"
	"strings"
	"syscall"

	"github.com/coder/websocket"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/middleware"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/terminal"
)

// scrollback is the size of the past output that a client gets when it attaches to a terminal.
const scrollback = 64 << 10

func (a *handlers) addTerminal(op access.OperationFunc) {
	term := op(http.MethodGet, "/{id}/terminal", "open-terminal", api.ScopeWrite, "Open a terminal over a WebSocket", execProblems(api.CodeForeignOrigin, api.CodeOutputTrimmed)...)
	term.Description = "Starts a login shell, or the given command, in a terminal; with exec_id it attaches to a running one. " +
		"Binary messages are terminal input and output. Text messages are JSON: the server sends {\"type\":\"attached\",\"exec_id\":…} first, with a notice if files were restored or lost since the last use, and {\"type\":\"exit\",…} last, " +
		"the client {\"type\":\"resize\",\"cols\":…,\"rows\":…} and, to end the shell, {\"type\":\"end\"}. Closing with status 4000 also ends the shell; any other status leaves it running. The server closes with status 4001 if the key was revoked or expired. " +
		"The subprotocol is berth.terminal.v1. A browser, which cannot set headers, also offers berth.key.KEY, or opens a signed URL from POST …/terminal. " +
		"Any number of clients may attach to a terminal; it has the size that one of them sent last. One that may only look has view_only in its first message, and its input is ignored."
	term.Accepts = []auth.Kind{auth.SignedURL, auth.APIKey, auth.Session}
	term.Timeout, term.Also = exchange.Unlimited, map[int]string{http.StatusSwitchingProtocols: "The WebSocket of the terminal"}
	a.ServeRaw(term, "application/json", a.terminal, rest.InPath("id"),
		rest.InQuery("cols", "integer", "Columns; default: 80"), rest.InQuery("rows", "integer", "Rows; default: 24"),
		rest.InQuery("command", "string", "A command line for /bin/sh -c; default: a login shell"), rest.InQuery("user", "string", "agent or root"),
		rest.InQuery("exec_id", "string", "The id of the terminal to attach to"), rest.InQuery("after", "integer", "The offset to show output from; default: the last 64 KiB"),
		rest.InQuery(middleware.URLToken, "string", "The token of a signed URL, in place of a key"))
	a.addTerminals(op)
}

// terminal answers GET …/terminal. All checks come before the connection is upgraded.
func (a *handlers) terminal(w http.ResponseWriter, r *http.Request) {
	e, after, err := a.terminalOf(r)
	if err != nil {
		exchange.Fail(w, r, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.Ending, cancel)()
	attach := e.id != ""
	var conn guest.Conn
	if attach {
		conn, err = e.h.Guest(ctx)
	} else {
		e.id, after = exchange.NewID(), 0
		conn, err = e.begin(ctx, 0) // the connection stays open: a started shell can be reached
	}
	if err != nil {
		exchange.Fail(w, r, access.GuestError("open terminal", err))
		return
	}
	defer conn.Close()
	process := conn.Process(e.id)
	if attach {
		if after, err = reattach(ctx, e, process, after); err != nil {
			exchange.Fail(w, r, access.GuestError("attach to terminal", err))
			return
		}
	}
	defer e.h.Hold(ctx, "terminal")()
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{api.TerminalProtocol}})
	if err != nil {
		if !attach {
			hangUp(ctx, process) // no client knows its id
		}
		return
	}
	session := terminal.Session{
		Bye: func() (int, string) {
			if why := exchange.KeyEnded(ctx); why != nil {
				return api.CloseKeyEnded, string(why.Code) + ": " + exchange.DetailOf(why)
			}
			return 0, ""
		},
		ExecID: e.id, Process: process, After: after, Notice: e.h.Notice(), ViewOnly: e.viewOnly,
		Output: func(ctx context.Context, after int64) iter.Seq2[guest.Chunk, error] {
			return e.h.Output(ctx, e.id, after)
		},
		Exit: func(exit guest.Exit) api.ExecExit { return engine.ShowExit(exit, e.started) },
	}
	if err := session.Serve(ctx, ws); err != nil {
		exchange.Of(ctx).Log.InfoContext(ctx, "terminal broke off", "sandbox_id", e.sandbox.ID, "exec_id", e.id, "error", err)
	}
}

// hangUp ends a shell whose client has disconnected. It also works after the request's context has ended.
func hangUp(ctx context.Context, p guest.Process) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), middleware.FinishTime)
	defer cancel()
	_ = p.Signal(ctx, syscall.SIGHUP) // it may have ended by itself
}

// terminalOf parses the request for a terminal. after is -1 if the query does not have it.
func (a *handlers) terminalOf(r *http.Request) (e *execution, after int64, err error) {
	if err := checkUpgrade(r); err != nil {
		return nil, 0, err
	}
	if err := rest.ReadQuery(r, "cols", "rows", "command", "user", "exec_id", "after", middleware.URLToken); err != nil {
		return nil, 0, err
	}
	query := r.URL.Query()
	cols, err := rest.Number(r, "cols", 1, 10_000, 80)
	var rows int64
	if err == nil {
		rows, err = rest.Number(r, "rows", 1, 10_000, 24)
	}
	if err == nil {
		after, err = rest.Number(r, "after", 0, 1<<62, -1)
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
	if e.id != "" && !query.Has("cols") && !query.Has("rows") {
		e.want.Terminal = nil // the size stays
	}
	if err := e.narrow(r.Context()); err != nil {
		return nil, 0, err
	}
	switch {
	case e.want.User != "" && e.want.User != guest.Agent && e.want.User != guest.Root:
		return nil, 0, exchange.InvalidField("query.user", "expected agent or root")
	case e.id == "" && after >= 0:
		return nil, 0, exchange.InvalidField("query.after", "expected only with exec_id")
	case e.id != "" && (query.Has("command") || query.Has("user")):
		return nil, 0, exchange.InvalidField("query.exec_id", "expected without command and user")
	case e.id != "":
		err = checkExecID(e.id)
	}
	if err == nil {
		e.h, e.sandbox, err = a.Handle(r.Context(), r.PathValue("id"))
	}
	if err == nil && e.id != "" && e.sandbox.State != sandbox.Running {
		no := fault.Errorf("attach to terminal", api.CodeNotRunning, "sandbox %s is %s: nothing runs in it", e.sandbox.ID, e.sandbox.State)
		no.Hint = "What the terminal showed can still be read, with GET …/exec/{exec_id}/stream."
		err = no
	}
	return e, after, err
}

// narrow limits the caller with the signed URL of a terminal to that terminal.
func (e *execution) narrow(ctx context.Context) error {
	who, _ := auth.PrincipalFrom(ctx)
	if who.Terminal == "" {
		return nil
	}
	if e.id != who.Terminal {
		return fault.Errorf("open terminal", api.CodeForbidden, "the URL is for another terminal")
	}
	if e.viewOnly = who.ViewOnly; e.viewOnly {
		e.want.Terminal = nil
	}
	return nil
}

// reattach returns the offset from which to show a running terminal, and sets the terminal's size to the client's if it
// has sent one.
func reattach(ctx context.Context, e *execution, p guest.Process, after int64) (int64, error) {
	status, err := p.Status(ctx)
	switch {
	case err != nil:
		return 0, err
	case !status.Terminal:
		return 0, exchange.InvalidField("query.exec_id", "that command has no terminal")
	case after < 0:
		after = max(status.First, status.End-scrollback)
	case after == 0:
		after = status.First
	case after < status.First:
		return 0, guest.ErrTrimmed
	case after > status.End:
		return 0, exchange.InvalidField("query.after", "the output is not that long")
	}
	e.started = status.StartedAt
	size := e.want.Terminal
	if status.Exit == nil && size != nil {
		_ = p.Resize(ctx, guest.Size{Cols: uint16(size.Cols), Rows: uint16(size.Rows)}) // it may have ended just now
	}
	return after, nil
}

// checkUpgrade refuses a request that is not a WebSocket handshake. After the upgrade, no error could be answered.
func checkUpgrade(r *http.Request) error {
	key, err := base64.StdEncoding.DecodeString(r.Header.Get("Sec-WebSocket-Key"))
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") && strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade") &&
		r.Header.Get("Sec-WebSocket-Version") == "13" && err == nil && len(key) == 16 && r.ProtoMajor == 1 {
		return nil
	}
	e := fault.Errorf("open terminal", api.CodeInvalidRequest, "the request is no WebSocket handshake")
	e.Hint = "Connect with a WebSocket client over HTTP/1.1; 'berth shell' is one."
	return e
}
