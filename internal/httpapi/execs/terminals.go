package execs

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

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
	"github.com/berthdev/berth/internal/store"
)

// Terminals starts and ends the terminals of sandboxes that outlive their viewers, and signs the URLs of their WebSockets.
type Terminals struct {
	*access.Sandboxes
	URLs         *auth.URLs // nil: no URLs are signed
	Sessions     *exchange.Sessions
	AdvertiseURL string // its scheme and host are those of the URLs; empty: those of the request
}

const (
	// terminalMark begins the ids of these terminals. Shells that were opened otherwise have other ids.
	terminalMark = "term-"
	// hupTime is the time that a shell has to end after SIGHUP.
	hupTime = 2 * time.Second
)

// TerminalProblems are the problems of the routes that start a terminal.
var TerminalProblems = []api.Code{
	api.CodeNotReplayable, api.CodeNoSuchExec, api.CodeDiskFull, api.CodeExecExists,
}

// DescribeTerminal describes the answer of the routes that start a terminal.
const DescribeTerminal = "Starts a login shell, or the given command, in a terminal that runs until it exits, is deleted, or the sandbox stops; viewers come and go. " +
	"With exec_id it makes further URLs of one that runs. The answer has two signed URLs of its WebSocket (see GET …/sandboxes/{id}/terminal): url types, view_url only looks. " +
	"Everyone who has a URL may use it, until it expires or is revoked, or until the key that made it ends. The URLs are not stored for the Idempotency-Key: a repeated request returns 409 not_replayable."

func (a *handlers) addTerminals(op access.OperationFunc) {
	create := op(http.MethodPost, "/{id}/terminal", "create-terminal", api.ScopeWrite, "Start a terminal and sign its URLs",
		append(TerminalProblems, access.ReachProblems...)...)
	create.Description, create.Secret, create.Status = DescribeTerminal, true, http.StatusCreated
	rest.Serve(a.Spec, create, a.createTerminal)
	end := op(http.MethodDelete, "/{id}/terminal", "delete-terminal", api.ScopeWrite, "Stop the terminals of a sandbox",
		append([]api.Code{api.CodeNoSuchExec}, access.ReachProblems...)...)
	end.Description = "Stops the terminals that POST has started, or only that of exec_id, and revokes their URLs. Connections end within two seconds on every server."
	rest.Serve(a.Spec, end, a.endTerminals)
}

type createTerminal struct {
	access.ByRef
	Body *api.CreateTerminal
}

func (a *handlers) createTerminal(ctx context.Context, in *createTerminal) (*rest.Created[api.SandboxTerminal], error) {
	h, _, err := a.Handle(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return a.Terminals.Start(ctx, h, in.Body)
}

type endTerminals struct {
	access.ByRef
	ExecID string `query:"exec_id" doc:"The id of the one terminal to end; absent: all"`
}

func (a *handlers) endTerminals(ctx context.Context, in *endTerminals) (*struct{}, error) {
	h, s, err := a.Handle(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return nil, a.Terminals.End(ctx, h, s, in.ExecID)
}

// Start starts a terminal, or finds a running one, and signs its URLs.
func (t Terminals) Start(ctx context.Context, h *engine.Handle, body *api.CreateTerminal) (*rest.Created[api.SandboxTerminal], error) {
	want := api.CreateTerminal{}
	if body != nil {
		want = *body
	}
	if t.URLs == nil {
		return nil, fault.Errorf("start terminal", api.CodeUnsupported, "this server signs no URLs")
	}
	if want.ExecID != "" && (want.Command != "" || want.User != "") {
		return nil, exchange.InvalidField("body.exec_id", "expected without command and user")
	}
	e := &execution{h: h, id: want.ExecID, want: api.Exec{
		Command: api.LoginShell(), User: want.User,
		Terminal: &api.TermSize{Cols: cmp.Or(want.Cols, 80), Rows: cmp.Or(want.Rows, 24)},
	}}
	if want.Command != "" {
		e.want.Command = api.Shell(want.Command)
	}
	if err := t.run(ctx, e); err != nil {
		return nil, access.GuestError("start terminal", err)
	}
	s, err := h.Record(ctx)
	if err != nil {
		return nil, err
	}
	out := api.SandboxTerminal{ExecID: e.id, SandboxID: sandbox.PublicID(s.ID), Notice: h.Notice()}
	lifetime := time.Duration(cmp.Or(want.ExpiresInSeconds, api.PortURLSeconds)) * time.Second
	for _, one := range []struct {
		url  *string
		view bool
	}{{&out.URL, false}, {&out.ViewURL, true}} {
		u, err := t.sign(ctx, s, e.id, one.view, lifetime)
		if err != nil {
			return nil, err
		}
		*one.url, out.ExpiresAt = t.address(ctx, s, e.id, u), u.ExpiresAt
	}
	return &rest.Created[api.SandboxTerminal]{Status: http.StatusCreated, Body: out}, nil
}

// run starts the terminal of e, or checks that the one with its id runs.
func (t Terminals) run(ctx context.Context, e *execution) error {
	if e.id == "" {
		e.id, e.own, e.again, e.unseen = terminalMark+exchange.EffectID(ctx), true, true, true
		conn, err := e.begin(ctx, 0)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	if err := checkExecID(e.id); err != nil {
		return err
	}
	s, err := e.h.Record(ctx)
	if err == nil && s.State != sandbox.Running {
		err = fault.Errorf("find terminal", api.CodeNotRunning, "sandbox %s is %s: nothing runs in it", s.ID, s.State)
	}
	if err != nil {
		return err
	}
	conn, err := e.h.Guest(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	status, err := conn.Process(e.id).Status(ctx)
	switch {
	case err != nil:
		return err
	case !status.Terminal:
		return exchange.InvalidField("body.exec_id", "that command has no terminal")
	case status.Exit != nil:
		return fault.Errorf("find terminal", api.CodeNoSuchExec, "the terminal has ended")
	}
	return nil
}

func (t Terminals) sign(ctx context.Context, s sandbox.Sandbox, id string, view bool, lifetime time.Duration) (store.PreviewURL, error) {
	who, _ := auth.PrincipalFrom(ctx)
	return t.In(ctx).Keys().URLs().Create(ctx, store.PreviewURL{
		Sandbox: s.ID, Terminal: id, ViewOnly: view, Key: store.Key{ID: who.KeyID},
	}, lifetime)
}

// address returns the URL of a terminal's WebSocket.
func (t Terminals) address(ctx context.Context, s sandbox.Sandbox, id string, u store.PreviewURL) string {
	r := exchange.Of(ctx).Request
	at := url.URL{Scheme: "ws", Host: r.Host}
	if r.TLS != nil {
		at.Scheme = "wss"
	}
	if own, err := url.Parse(t.AdvertiseURL); err == nil && own.Host != "" {
		at.Scheme, at.Host = strings.Replace(own.Scheme, "http", "ws", 1), own.Host
	}
	at.Path = exchange.SandboxesPath + "/" + sandbox.PublicID(s.ID) + "/terminal"
	at.RawQuery = url.Values{"exec_id": {id}, middleware.URLToken: {t.URLs.Sign(u)}}.Encode()
	return at.String()
}

// End ends the terminals of a sandbox, or only one, and revokes their URLs. It does not start the sandbox.
func (t Terminals) End(ctx context.Context, h *engine.Handle, s sandbox.Sandbox, id string) error {
	if id != "" {
		if err := checkExecID(id); err != nil {
			return err
		}
	}
	ids, err := t.In(ctx).Keys().URLs().RevokeTerminals(ctx, s.ID, id)
	if err != nil {
		return err
	}
	for _, one := range ids {
		t.Sessions.End(exchange.OfURL(one), exchange.EndOfKey(api.CodeURLRevoked, "the terminal was ended"))
	}
	if s.State != sandbox.Running {
		return nil // its processes have ended with it
	}
	conn, err := h.Guest(ctx)
	if err != nil {
		return access.GuestError("end terminal", err)
	}
	defer conn.Close()
	all, err := conn.Processes(ctx)
	if err != nil {
		return access.GuestError("end terminal", err)
	}
	known := len(ids) > 0
	for _, p := range all {
		if !p.Terminal || p.ID != id && (id != "" || !strings.HasPrefix(p.ID, terminalMark)) {
			continue
		}
		known = true
		if p.Exit == nil {
			err = errors.Join(err, endShell(ctx, conn.Process(p.ID)))
		}
	}
	if err == nil && id != "" && !known {
		err = fault.Errorf("end terminal", api.CodeNoSuchExec, "the sandbox has no such terminal")
	}
	return access.GuestError("end terminal", err)
}

// endShell hangs up, and kills a shell that goes on.
func endShell(ctx context.Context, p guest.Process) error {
	hup := p.Signal(ctx, syscall.SIGHUP)
	limit := time.After(hupTime)
	for pause := 10 * time.Millisecond; hup == nil; pause = min(2*pause, 250*time.Millisecond) {
		if st, err := p.Status(ctx); err != nil || st.Exit != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit:
			hup = p.Signal(ctx, syscall.SIGKILL)
			if hup == nil {
				return nil
			}
		case <-time.After(pause):
		}
	}
	if errors.Is(hup, guest.ErrNoProcess) {
		return nil
	}
	return hup
}
