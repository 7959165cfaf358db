package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
)

// fromOldest is the offset that stands for the oldest output that is kept.
const fromOldest = -1

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
	if err != nil && h.Frozen(ctx) {
		err = frozen("list commands", s)
	}
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
		list.Items = append(list.Items, statusOut(status))
	}
	return &reply[api.List[api.ExecStatus]]{Body: list}, nil
}

// frozen says why a sandbox that is said to run does not answer.
func frozen(op string, s sandbox.Sandbox) error {
	e := sandbox.Errorf(op, api.CodeNotRunning, "sandbox %s is frozen: what runs in it is held, and reading does not wake it", s.ID)
	e.Hint = "The next command in it wakes it, and so does POST …/thaw, which is 'berth thaw'."
	return e
}

// getExec answers GET …/exec/{exec_id} to who accepts no events.
func (a *Handler) getExec(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), a.RequestTimeout)
	defer cancel()
	id := r.PathValue("exec_id")
	err := readQuery(r)
	if r.URL.Query().Has("after") {
		err = invalidField("query.after", "expected only with 'Accept: text/event-stream'")
	}
	if err == nil {
		err = checkExecID(id)
	}
	e := &execution{id: id}
	if err == nil {
		e.h, e.sandbox, err = a.open(ctx, r.PathValue("id"))
	}
	var status guest.Status
	if err == nil {
		status, err = e.status(ctx)
	}
	if err != nil {
		fail(w, r.WithContext(ctx), guestError("read command", err))
		return
	}
	writeJSON(w, r, statusOut(status))
}

func statusOut(status guest.Status) api.ExecStatus {
	out := api.ExecStatus{
		ExecID: status.ID, Command: status.Argv, Terminal: status.Terminal, Running: status.Exit == nil,
		StartedAt: status.StartedAt, First: status.First, End: status.End,
	}
	if status.Exit != nil {
		exit := exitOut(*status.Exit, status.StartedAt)
		out.Exit = &exit
	}
	return out
}

// How long the end of a spool may keep its reader waiting: where nobody writes on, it is there or it never
// comes.
const (
	offlineTime = 20 * time.Second
	frozenTime  = 2 * time.Second
)

// status is how the command is doing. One that the helper does not know of, because it was started in an
// earlier life of the instance or is long over, may still have left its output; so may one in a sandbox
// that is frozen, if it has ended.
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

// ask asks the helper.
func (e *execution) ask(ctx context.Context) (guest.Status, error) {
	conn, err := e.h.Peek(ctx)
	if err != nil {
		return guest.Status{}, err
	}
	defer conn.Close()
	return conn.Process(e.id).Status(ctx)
}

var errNoEnd = sandbox.Errorf("read command", api.CodeNotRunning, "how the command ended is not on record")

// statusOffline reads how a command ended out of its spool. It is errNoEnd if nothing more comes.
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
