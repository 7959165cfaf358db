package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
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

func (a *Handler) listExecs(ctx context.Context, in *ByRef) (*reply[api.List[api.ExecStatus]], error) {
	h, s, err := a.open(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	list := api.List[api.ExecStatus]{Items: []api.ExecStatus{}}
	if s.State != sandbox.Running { // reading does not start it
		return &reply[api.List[api.ExecStatus]]{Body: list}, nil
	}
	conn, err := h.Peek(ctx)
	if err != nil {
		return nil, guestError("list commands", err)
	}
	defer conn.Close()
	all, err := conn.Processes(ctx)
	if err != nil {
		return nil, guestError("list commands", err)
	}
	slices.SortStableFunc(all, func(x, y guest.Status) int { return y.StartedAt.Compare(x.StartedAt) })
	for _, status := range all {
		list.Items = append(list.Items, a.statusOut(s, status))
	}
	return &reply[api.List[api.ExecStatus]]{Body: list}, nil
}

func (a *Handler) getExec(ctx context.Context, in *ByExec) (*reply[api.ExecStatus], error) {
	if err := checkExecID(in.ExecID); err != nil {
		return nil, err
	}
	h, s, err := a.open(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	status, err := a.statusOf(ctx, &execution{h: h, sandbox: s, id: in.ExecID})
	if err != nil {
		return nil, guestError("read command", err)
	}
	return &reply[api.ExecStatus]{Body: a.statusOut(s, status)}, nil
}

func (a *Handler) statusOut(s sandbox.Sandbox, status guest.Status) api.ExecStatus {
	out := api.ExecStatus{
		ExecID: status.ID, Command: status.Argv, Terminal: status.Terminal, Running: status.Exit == nil,
		StartedAt: status.StartedAt, First: status.First, End: status.End,
	}
	if status.Exit != nil {
		exit := a.exitOf(&execution{sandbox: s, id: status.ID, started: status.StartedAt}, *status.Exit)
		out.Exit = &exit
	}
	return out
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
