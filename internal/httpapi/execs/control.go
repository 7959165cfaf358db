package execs

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/sandbox"
)

// ByExec names one command of a sandbox in a path.
type ByExec struct {
	access.ByRef
	ExecID string `path:"exec_id" doc:"The command's id"`
}

// process connects to a running command. It does not start the sandbox: a stopped sandbox has no commands.
func (a *handlers) process(ctx context.Context, ref, id string) (guest.Process, guest.Conn, error) {
	if err := checkExecID(id); err != nil {
		return nil, nil, err
	}
	h, s, err := a.Handle(ctx, ref)
	switch {
	case err != nil:
		return nil, nil, err
	case s.State != sandbox.Running:
		return nil, nil, fault.Errorf("reach command", api.CodeNotRunning, "sandbox %s is %s: nothing runs in it", s.ID, s.State)
	}
	conn, err := h.Guest(ctx)
	if err != nil {
		return nil, nil, access.GuestError("reach command", err)
	}
	return conn.Process(id), conn, nil
}

type signalExec struct {
	ByExec
	Body api.ExecSignal
}

func (a *handlers) signalExec(ctx context.Context, in *signalExec) (*struct{}, error) {
	sig, err := signalOf(in.Body.Signal)
	if err != nil {
		return nil, err
	}
	p, conn, err := a.process(ctx, in.ID, in.ExecID)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return nil, access.GuestError("signal command", p.Signal(ctx, sig))
}

// signalOf reads a signal's name, with or without SIG.
func signalOf(name string) (syscall.Signal, error) {
	short := strings.TrimPrefix(strings.ToUpper(name), "SIG")
	if sig := unix.SignalNum("SIG" + short); sig != 0 {
		return sig, nil
	}
	return 0, exchange.InvalidField("body.signal", "expected a signal's name, such as INT, TERM or KILL")
}

type resizeExec struct {
	ByExec
	Body api.TermSize
}

func (a *handlers) resizeExec(ctx context.Context, in *resizeExec) (*struct{}, error) {
	p, conn, err := a.process(ctx, in.ID, in.ExecID)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return nil, access.GuestError("resize terminal", p.Resize(ctx, guest.Size{Cols: uint16(in.Body.Cols), Rows: uint16(in.Body.Rows)}))
}

// inputTime is the maximum wait for a command to read its input. After that, the answer reports how much it has read.
const inputTime = 20 * time.Second

// writeExec answers POST …/stdin.
func (a *handlers) writeExec(w http.ResponseWriter, r *http.Request) {
	written, err := a.writeInput(r)
	if err != nil {
		exchange.Fail(w, r, access.GuestError("write input", err))
		return
	}
	rest.WriteJSON(w, r, api.ExecWritten{Written: written})
}

func (a *handlers) writeInput(r *http.Request) (int64, error) {
	ctx, cancel := context.WithTimeout(r.Context(), min(inputTime, a.RequestTimeout/2))
	defer cancel()
	data, err := io.ReadAll(r.Body)
	if err == nil {
		err = rest.ReadQuery(r, "close")
	}
	closes := r.URL.Query().Get("close")
	if err == nil && closes != "" && closes != "true" && closes != "false" {
		err = exchange.InvalidField("query.close", "expected true or false")
	}
	if err != nil {
		return 0, err
	}
	p, conn, err := a.process(ctx, r.PathValue("id"), r.PathValue("exec_id"))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	var n int
	if len(data) > 0 {
		n, err = p.Write(ctx, data)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil:
		return int64(n), nil
	case err == nil && closes == "true":
		err = p.CloseInput(ctx)
	}
	return int64(n), err
}
