package execs

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/sandbox"
)

// fromOldest is the special offset for the oldest output that is kept.
const fromOldest = -1

func (a *handlers) listExecs(ctx context.Context, in *access.ByRef) (*rest.Reply[api.List[api.ExecStatus]], error) {
	h, s, err := a.Handle(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	list := api.List[api.ExecStatus]{Items: []api.ExecStatus{}}
	if s.State != sandbox.Running { // a read does not start the sandbox
		return &rest.Reply[api.List[api.ExecStatus]]{Body: list}, nil
	}
	conn, err := h.Peek(ctx)
	if err != nil && h.Frozen(ctx) {
		err = frozen("list commands", s)
	}
	if err != nil {
		return nil, access.GuestError("list commands", err)
	}
	defer conn.Close()
	all, err := conn.Processes(ctx)
	if err != nil {
		return nil, access.GuestError("list commands", err)
	}
	slices.SortStableFunc(all, func(x, y guest.Status) int { return y.StartedAt.Compare(x.StartedAt) })
	for _, status := range all {
		list.Items = append(list.Items, statusOut(status))
	}
	return &rest.Reply[api.List[api.ExecStatus]]{Body: list}, nil
}

// frozen returns the error for a frozen sandbox, whose helper cannot answer.
func frozen(op string, s sandbox.Sandbox) error {
	e := fault.Errorf(op, api.CodeNotRunning, "sandbox %s is frozen: what runs in it is held, and reading does not wake it", s.ID)
	e.Hint = "The next command in it wakes it, and so does POST …/thaw, which is 'berth thaw'."
	return e
}

// getExec answers GET …/exec/{exec_id} for clients that do not accept events.
func (a *handlers) getExec(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), a.RequestTimeout)
	defer cancel()
	id := r.PathValue("exec_id")
	err := rest.ReadQuery(r)
	if r.URL.Query().Has("after") {
		err = exchange.InvalidField("query.after", "expected only with 'Accept: text/event-stream'")
	}
	if err == nil {
		err = checkExecID(id)
	}
	e := &execution{id: id}
	if err == nil {
		e.h, e.sandbox, err = a.Handle(ctx, r.PathValue("id"))
	}
	var status guest.Status
	if err == nil {
		status, err = e.status(ctx)
	}
	if err != nil {
		exchange.Fail(w, r.WithContext(ctx), access.GuestError("read command", err))
		return
	}
	rest.WriteJSON(w, r, statusOut(status))
}

func statusOut(status guest.Status) api.ExecStatus {
	out := api.ExecStatus{
		ExecID: status.ID, Command: status.Argv, Terminal: status.Terminal, Running: status.Exit == nil,
		StartedAt: status.StartedAt, First: status.First, End: status.End,
	}
	if status.Exit != nil {
		exit := engine.ShowExit(*status.Exit, status.StartedAt)
		out.Exit = &exit
	}
	return out
}

// Time limits for reading the end of a spool. If nothing writes to the spool, the end is there at once or never
// comes.
const (
	offlineTime = 20 * time.Second
	frozenTime  = 2 * time.Second
)

// status returns the state of a command. The helper does not know a command that ended long ago, or that was started
// before the instance's last start; its spool may still have the output and the exit. The same holds for a command
// that has ended in a frozen sandbox.
func (e *execution) status(ctx context.Context) (guest.Status, error) {
	if e.sandbox.State != sandbox.Running {
		return e.statusOffline(ctx, offlineTime)
	}
	status, err := e.ask(ctx)
	switch {
	case errors.Is(err, guest.ErrNoProcess):
		return e.statusOffline(ctx, offlineTime)
	case err != nil && e.h.Frozen(ctx):
		status, err = e.statusOffline(ctx, frozenTime)
		if errors.Is(err, errNoEnd) {
			err = frozen("read command", e.sandbox)
		}
	}
	return status, err
}

// ask gets the command's state from the helper.
func (e *execution) ask(ctx context.Context) (guest.Status, error) {
	conn, err := e.h.Peek(ctx)
	if err != nil {
		return guest.Status{}, err
	}
	defer conn.Close()
	return conn.Process(e.id).Status(ctx)
}

var errNoEnd = fault.Errorf("read command", api.CodeNotRunning, "how the command ended is not on record")

// statusOffline reads the end of a command from its spool. It returns errNoEnd if the spool has no end and nothing
// new comes for the time patience.
func (e *execution) statusOffline(ctx context.Context, patience time.Duration) (guest.Status, error) {
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(patience, func() { cancel(errNoEnd) })
	defer idle.Stop()
	status := guest.Status{ID: e.id, First: fromOldest}
	for chunk, err := range e.h.Output(within, e.id, fromOldest) {
		if err != nil && context.Cause(within) == errNoEnd {
			break
		}
		if err != nil {
			return status, err
		}
		idle.Reset(patience)
		if status.First == fromOldest {
			status.First = chunk.Next - int64(len(chunk.Data))
		}
		status.End, status.Exit = chunk.Next, chunk.Exit
	}
	if status.Exit == nil {
		return status, errNoEnd
	}
	return status, nil
}
