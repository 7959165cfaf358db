package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"golang.org/x/sys/unix"
)

// ByExec names one command of a sandbox in a path.
type ByExec struct {
	ByRef
	ExecID string `path:"exec_id" doc:"The command's id"`
}

// process reaches a command for whoever wants to do something to it. There is none in a sandbox that
// does not run, which is no reason to start it.
func (a *Handler) process(ctx context.Context, ref, id string) (guest.Process, guest.Conn, error) {
	if err := checkExecID(id); err != nil {
		return nil, nil, err
	}
	h, s, err := a.open(ctx, ref)
	switch {
	case err != nil:
		return nil, nil, err
	case s.State != sandbox.Running:
		return nil, nil, sandbox.Errorf("reach command", api.CodeNotRunning, "sandbox %s is %s: nothing runs in it", s.ID, s.State)
	}
	conn, err := h.Guest(ctx)
	if err != nil {
		return nil, nil, guestError("reach command", err)
	}
	return conn.Process(id), conn, nil
}

type signalExec struct {
	ByExec
	Body api.ExecSignal
}

func (a *Handler) signalExec(ctx context.Context, in *signalExec) (*struct{}, error) {
	sig, err := signalOf(in.Body.Signal)
	if err != nil {
		return nil, err
	}
	p, conn, err := a.process(ctx, in.ID, in.ExecID)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return nil, guestError("signal command", p.Signal(ctx, sig))
}

// signalOf reads a signal's name, with or without SIG.
func signalOf(name string) (syscall.Signal, error) {
	short := strings.TrimPrefix(strings.ToUpper(name), "SIG")
	if sig := unix.SignalNum("SIG" + short); sig != 0 {
		return sig, nil
	}
	return 0, invalidField("body.signal", "expected a signal's name, such as INT, TERM or KILL")
}

type resizeExec struct {
	ByExec
	Body api.TermSize
}

func (a *Handler) resizeExec(ctx context.Context, in *resizeExec) (*struct{}, error) {
	p, conn, err := a.process(ctx, in.ID, in.ExecID)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return nil, guestError("resize terminal", p.Resize(ctx, guest.Size{Cols: uint16(in.Body.Cols), Rows: uint16(in.Body.Rows)}))
}

// inputTime is how long a command may leave input waiting before its sender is told to send it again.
const inputTime = 20 * time.Second

// writeExec answers POST …/stdin.
func (a *Handler) writeExec(w http.ResponseWriter, r *http.Request) {
	written, err := a.writeInput(r)
	if err != nil {
		fail(w, r, guestError("write input", err))
		return
	}
	writeJSON(w, r, api.ExecWritten{Written: written})
}

func (a *Handler) writeInput(r *http.Request) (int64, error) {
	ctx, cancel := context.WithTimeout(r.Context(), min(inputTime, a.RequestTimeout/2))
	defer cancel()
	data, err := io.ReadAll(r.Body)
	if err == nil {
		err = readQuery(r, "close")
	}
	closes := r.URL.Query().Get("close")
	if err == nil && closes != "" && closes != "true" && closes != "false" {
		err = invalidField("query.close", "expected true or false")
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
