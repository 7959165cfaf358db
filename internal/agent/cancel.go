package agent

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
)

// Cancel interrupts the turn's process group, as a user at a terminal would. After the grace period it kills all
// processes of the turn that still run. It also kills processes of a turn that has ended: a turn that timed out, or
// whose agent was killed, may have left running tools.
func (w *Worker) Cancel(ctx context.Context, h *engine.Handle, t Turn) error {
	conn, err := h.Guest(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	p := conn.Process(ProcessID(t))
	switch err := p.Signal(ctx, syscall.SIGINT); {
	case errors.Is(err, guest.ErrNoProcess):
		if _, err := p.Status(ctx); errors.Is(err, guest.ErrNoProcess) {
			dropInput(ctx, h, t) // it may have been written for a process that was never started
			return nil
		}
		return w.sweep(ctx, h, conn, t)
	case err != nil:
		return problem("cancel turn", err)
	}
	if _, err := ended(ctx, p, w.grace()); err != nil {
		return err
	}
	swept := w.sweep(ctx, h, conn, t)
	over, err := ended(ctx, p, w.grace())
	if err != nil || over {
		return errors.Join(swept, err)
	}
	if err := p.Signal(ctx, syscall.SIGKILL); err != nil && !errors.Is(err, guest.ErrNoProcess) {
		return problem("kill turn", err)
	}
	return swept
}

// ended waits until the process ends, for at most the given time. It reports whether the process has ended.
func ended(ctx context.Context, p guest.Process, patience time.Duration) (bool, error) {
	until := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		st, err := p.Status(ctx)
		switch {
		case errors.Is(err, guest.ErrNoProcess), err == nil && st.Exit != nil:
			return true, nil
		case err != nil:
			return false, problem("cancel turn", err)
		case time.Now().After(until):
			return false, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// sweep is a script that kills every process with the turn's BERTH_TURN, and repeats this until it finds none. Agents
// start tools in sessions of their own, which a signal to the process group does not reach.
const sweep = `round=0
while [ $round -lt 200 ]; do
	found=
	for dir in /proc/[0-9]*; do
		if tr '\0' '\n' 2>/dev/null <"$dir/environ" | grep -qxF "BERTH_TURN=$1"; then
			kill -9 "${dir#/proc/}" && found=1
		fi
	done
	[ -n "$found" ] || exit 0
	round=$((round + 1))
	sleep 0.02
done
exit 1
`

// KillMarked returns the command that kills every process whose variable BERTH_TURN has the value mark.
func KillMarked(mark string) guest.Cmd {
	return guest.Cmd{Argv: []string{"/bin/sh", "-c", sweep, "sweep", mark}, Dir: "/"}
}

func (w *Worker) sweep(ctx context.Context, h *engine.Handle, conn guest.Conn, t Turn) error {
	exit, err := conn.Run(ctx, h.AsUser(KillMarked(ProcessID(t))), guest.Stdio{})
	switch {
	case err != nil:
		return problem("end what the turn started", err)
	case exit.Code != 0:
		return fault.Errorf("end what the turn started", api.CodeBusy, "processes of the turn are left (exit %d %s)", exit.Code, exit.Reason)
	}
	return nil
}
