package agent

import (
	"fmt"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/guest"
)

// Values of the field "status" in status events.
const (
	StatusSessionStarted = "session_started"
	StatusRetrying       = "retrying"
	StatusOutputLost     = "output_lost"
	StatusUntested       = "untested_version"
	StatusNotice         = "notice" // a remark of the agent for people
)

// finish returns the last step: the events read so far and the End.
func (r *reading) finish(exit guest.Exit) Step {
	s := r.step()
	end := r.end(exit)
	s.End = &end
	return s
}

// end returns the End of the turn, from the wrapper's note, the agent's own result and the exit of the process.
func (r *reading) end(exit guest.Exit) End {
	e, said := r.agent.End()
	fail := func(status string, code api.Code, format string, args ...any) End {
		e.Status, e.Code = status, code
		e.Message, _ = Clip(fmt.Sprintf(format, args...), maxStderr)
		return e
	}
	killed := exit.Lost || exit.Signal != 0 || exit.Code > 128
	switch {
	case said && e.Status == api.TurnCompleted:
		return e
	case r.Note == noteNoSession || e.NoSession:
		e.NoSession, e.Usage = true, api.Usage{}
		return fail(api.TurnFailed, api.CodeAgentFailed, "the agent's session is gone")
	case r.Note == noteNotInstalled:
		e.Usage = api.Usage{}
		return fail(api.TurnFailed, api.CodeAgentNotInstalled, "%s", r.worker.notInstalled(r.turn))
	case r.Quit && said:
		return e
	case r.Note == noteCancelled, e.Status == api.TurnCancelled, interrupted(exit):
		return fail(api.TurnCancelled, "", "the turn was cancelled")
	case exit.Code == guest.ExitTimeout && exit.Reason != "":
		return fail(api.TurnFailed, api.CodeTurnTimeout, "the turn took too long: %s", exit.Reason)
	case said:
		return e
	case r.Note == noteUnreached:
		e.Again = !r.Seen
		return fail(api.TurnInterrupted, api.CodeTurnInterrupted, "the agent's server ended before it had the prompt%s", r.lastWords(exit))
	case r.worker.Plain && succeeded(exit):
		e.Status = api.TurnCompleted
		return e
	case r.dated():
		return fail(api.TurnFailed, api.CodeSandboxOutdated, "the sandbox was started by an older Berth, which cannot run this agent; stop it and start it again: 'berth stop', then 'berth start'")
	case killed:
		e.Again = !r.Seen && !r.worked(exit)
		return fail(api.TurnInterrupted, api.CodeTurnInterrupted, "%s", deathMessage(exit))
	}
	return fail(api.TurnFailed, api.CodeAgentFailed, "the agent ended without an answer (exit code %d)%s", exit.Code, r.lastWords(exit))
}

// dated reports whether the sandbox is older than the part of Berth that the turn needs.
func (r *reading) dated() bool {
	d, ok := r.agent.(dated)
	return ok && d.Dated(r.Stderr+r.Garbage)
}

// notInstalled explains that the agent's program does not exist, and what to do.
func (w *Worker) notInstalled(t Turn) string {
	if w.Install == nil {
		return "the program of the template's agent_command is not in the sandbox; check its path, and the mount that it is in"
	}
	return "the agent is not installed; run: " + w.Install(t)
}

// succeeded reports whether the process ended by itself with code 0.
func succeeded(exit guest.Exit) bool { return !exit.Lost && exit.Signal == 0 && exit.Code == 0 }

// interrupted reports whether the wrapper was interrupted before it could write a note.
func interrupted(exit guest.Exit) bool { return !exit.Lost && exit.Code == 130 }

func deathMessage(exit guest.Exit) string {
	switch {
	case exit.Lost:
		return "the sandbox ended under the agent"
	case exit.Code == 137:
		return "the agent's process was killed, for want of memory perhaps"
	}
	return fmt.Sprintf("the agent's process was ended by a signal (exit code %d)", exit.Code)
}

// lastWords returns the last output of the agent outside its protocol, for the error message.
func (r *reading) lastWords(exit guest.Exit) string {
	for _, words := range []string{r.Stderr, r.Garbage, exit.Reason} {
		if words = strings.TrimSpace(words); words != "" {
			return ": " + words
		}
	}
	return ""
}
