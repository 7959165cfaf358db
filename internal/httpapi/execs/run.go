package execs

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
)

// execJSON runs a command and answers once it has ended.
func (a *handlers) execJSON(w http.ResponseWriter, r *http.Request, e *execution) {
	ctx := r.Context()
	defer e.h.HoldLate(ctx, "exec")()
	effect := exchange.Of(ctx).Effect
	var result api.ExecResult
	var err error
	if e.id = e.want.ExecID; e.id != "" || effect != "" {
		result, err = a.runOnce(ctx, e, effect)
	} else {
		result, err = a.run(ctx, e)
	}
	if err != nil {
		exchange.Fail(w, r, access.GuestError("run command", err))
		return
	}
	if e.id != "" {
		w.Header().Set(api.HeaderExecID, e.id)
	}
	result.Notice = e.h.Notice()
	rest.WriteJSON(w, r, result)
}

var errExecTime = errors.New("the command's time is over")

// run runs a command that ends with its request.
func (a *handlers) run(ctx context.Context, e *execution) (result api.ExecResult, err error) {
	conn, err := e.h.GuestToRun(ctx)
	if err != nil {
		return result, err
	}
	defer conn.Close()
	cmd, err := e.h.Command(ctx, commandOf(e.want))
	if err != nil {
		return result, err
	}
	cmd.Input, cmd.Keep = false, 0 // these fields are only for processes with an id
	limit := a.limitOf(e.want)
	within, cancel := context.WithTimeoutCause(ctx, limit, errExecTime)
	defer cancel()
	stdout, stderr := newHead(e.want), newHead(e.want)
	start := time.Now()
	exit, err := conn.Run(within, cmd, guest.Stdio{Stdin: readerOf(inputOf(e.want)), Stdout: stdout, Stderr: stderr})
	switch {
	case err != nil && context.Cause(within) == errExecTime:
		result.ExecExit = api.ExecExit{ExitCode: guest.ExitTimeout, Reason: killedAfter(limit)}
	case err != nil:
		return result, err
	default:
		result.ExecExit = engine.ShowExit(exit, time.Time{})
	}
	result.DurationMS = time.Since(start).Milliseconds()
	fill(&result, stdout, stderr)
	return result, nil
}

// runOnce runs a command under an id, so that a repeated request gets the same run's result.
func (a *handlers) runOnce(ctx context.Context, e *execution, effect string) (result api.ExecResult, err error) {
	if e.again = effect != ""; e.id == "" {
		e.id, e.own = effect, true
	}
	if err := e.start(ctx, a.limitOf(e.want)); err != nil {
		return result, err
	}
	stdout, stderr := newHead(e.want), newHead(e.want)
	exit, err := collect(ctx, e, stdout, stderr)
	if err != nil {
		return result, err
	}
	e.ended()
	result.ExecID, result.ExecExit = e.id, engine.ShowExit(exit, e.started)
	fill(&result, stdout, stderr)
	return result, nil
}

// collect reads the output of the process until it ends. If the process writes faster than collect reads, the spool
// drops output; both outputs are then marked as cut.
func collect(ctx context.Context, e *execution, stdout, stderr *head) (guest.Exit, error) {
	for from := int64(0); ; from = fromOldest {
		trimmed := false
		for chunk, err := range e.h.Output(ctx, e.id, from) {
			switch {
			case errors.Is(err, guest.ErrTrimmed):
				trimmed = true
			case err != nil:
				return guest.Exit{}, err
			case chunk.Exit != nil:
				return *chunk.Exit, nil
			case chunk.Stream == guest.Stderr:
				_, _ = stderr.Write(chunk.Data)
			default:
				_, _ = stdout.Write(chunk.Data)
			}
		}
		if err := ctx.Err(); err != nil {
			return guest.Exit{}, err
		}
		if !trimmed {
			return guest.Exit{}, fault.Errorf("read output", api.CodeNotRunning, "the output of %s ended before the command", e.id)
		}
		stdout.cut, stderr.cut = true, true
	}
}

func fill(result *api.ExecResult, stdout, stderr *head) {
	result.SetOutput(stdout.bytes(), stderr.bytes())
	result.StdoutTruncated, result.StderrTruncated = stdout.cut, stderr.cut
}

// head keeps the first bytes that are written to it and discards the rest. It is safe for concurrent use, because a
// command may still write after its time limit.
type head struct {
	mu   sync.Mutex
	most int
	data []byte
	cut  bool
}

func newHead(want api.Exec) *head {
	most := defaultOutput
	if want.MaxOutputBytes > 0 {
		most = int(want.MaxOutputBytes)
	}
	return &head{most: most}
}

// Write never returns an error, because a command must not end because of the amount of its output.
func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	room := h.most - len(h.data)
	h.cut = h.cut || len(p) > room
	h.data = append(h.data, p[:min(len(p), room)]...)
	return len(p), nil
}

func (h *head) bytes() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.data
}
