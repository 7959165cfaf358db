package httpapi

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/danielgtaylor/huma/v2"
)

const (
	defaultOutput  = 1 << 20             // of each output in a JSON answer
	maxOutput      = 8 << 20             // what may be asked for
	maxKeep        = guest.MostKept      // of a spool
	longestTimeout = 30 * 24 * time.Hour // of a streamed command
)

// addExec adds the routes of commands. One that is waited for runs as long as its request; one that is
// streamed, or has an id, is a process of its own, which readers come to and go from.
func (a *Handler) addExec(op opMaker) {
	run := op(http.MethodPost, "/{id}/exec", "exec", api.ScopeWrite, "Run a command",
		slices.Concat(reaching, []api.Code{api.CodeExecExists})...)
	run.Description = "Waits for its end and answers with what it wrote; the status is 200 whatever the exit code. " +
		"With 'Accept: text/event-stream' the answer is a stream of events that anyone can attach to again, and the command outlives it. " +
		"With an Idempotency-Key or an exec_id a command runs once, however often it is asked for; without, it ends with its request. " +
		"A stream that is asked for with an exec_id and no command attaches to that command, as GET …/exec/{exec_id}/stream does."
	newBody[api.ExecEvent](a, func(s *huma.Schema) { s.Required = []string{"type"} }) // how it ended is only in the last
	run.Problems = append(run.Problems, api.CodeNoSuchExec, api.CodeOutputTrimmed, api.CodeDiskFull)
	run.Timeout, run.Claims, run.Also = unlimited, wantsEvents, nothingBehind
	want := newBody[api.Exec](a, describeExec)
	want.words = map[string]string{"body.command": api.CommandForm}
	a.serveRaw(run, "application/json", a.exec(want), inPath("id"), want.document, answers[api.ExecResult](a), streams[api.ExecEvent](a))

	const one = "/{id}/exec/{exec_id}"
	serve(a, op(http.MethodGet, "/{id}/exec", "list-execs", api.ScopeRead, "List the commands with an id that were started since the sandbox runs, newest first", reaching...), a.listExecs)
	a.addExecStatus(op, one)
	serve(a, op(http.MethodPost, one+"/signal", "signal-exec", api.ScopeWrite, "Signal a command and what it started", execProblems()...), a.signalExec)
	serve(a, op(http.MethodPost, one+"/resize", "resize-exec", api.ScopeWrite, "Tell a command's terminal its size", execProblems()...), a.resizeExec)

	stdin := op(http.MethodPost, one+"/stdin", "write-exec-stdin", api.ScopeWrite, "Write to a command's input", execProblems(api.CodeConflict)...)
	stdin.Description = "The body is the input, as it is. The answer says how much of it the command took in time; send the rest again."
	stdin.Bytes = true
	a.serveRaw(stdin, "application/json", a.writeExec, inPath("id", "exec_id"), answers[api.ExecWritten](a),
		inQuery("close", "boolean", "Close the input behind it"), anyBody)

	attach := op(http.MethodGet, one+"/stream", "stream-exec", api.ScopeRead, "Attach to a command's output", execProblems(api.CodeOutputTrimmed)...)
	attach.Description = "Works while the command runs and after it, and when the sandbox is stopped. The id of an event, given as Last-Event-ID or after, reads on behind it; behind the last one the answer is 204. " +
		"While a reader is attached, the command waits for it and nothing that it has not read is removed. A reader that takes nothing for 30 seconds is no longer waited for: " +
		"a dropped event says how many bytes it missed, and the exit event how many in all. With Last-Event-ID, output that is gone is such an event; with after it is 410."
	attach.Timeout, attach.Also = unlimited, nothingBehind
	a.serveRaw(attach, "text/event-stream", a.attachExec, inPath("id", "exec_id"), streams[api.ExecEvent](a), inAfter)
}

// addExecStatus adds the route of one command, which is its stream for who accepts events.
func (a *Handler) addExecStatus(op opMaker, path string) {
	get := op(http.MethodGet, path, "get-exec", api.ScopeRead, "How a command is doing", execProblems(api.CodeOutputTrimmed)...)
	get.Description = "With 'Accept: text/event-stream' it attaches to the command's output, as GET …/stream does. " +
		"Reading does not wake a frozen sandbox: how a command ended is read from what it left, and for one that has not the answer is 409."
	get.Timeout, get.Also = unlimited, nothingBehind
	a.serveRaw(get, "application/json", func(w http.ResponseWriter, r *http.Request) {
		if wantsEvents(r) {
			a.attachExec(w, r)
			return
		}
		a.getExec(w, r)
	}, inPath("id", "exec_id"), answers[api.ExecStatus](a), streams[api.ExecEvent](a), inAfter)
}

var (
	nothingBehind = map[int]string{http.StatusNoContent: "There is nothing behind the last event"}
	inAfter       = inQuery("after", "integer", "Of a stream: the offset to read on from; 0 is the oldest that is kept")
)

func execProblems(more ...api.Code) []api.Code {
	return slices.Concat(reaching, []api.Code{api.CodeNoSuchExec}, more)
}

// exec answers POST …/exec.
func (a *Handler) exec(body *jsonBody[api.Exec]) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err == nil {
			err = readQuery(r)
		}
		var want api.Exec
		if err == nil {
			want, err = body.read(data)
		}
		streamed := wantsEvents(r)
		if err == nil {
			err = a.checkExec(want, streamed)
		}
		if err != nil {
			fail(w, r, err)
			return
		}
		hideEnv(r.Context(), want.Env)
		h, s, err := a.open(r.Context(), r.PathValue("id"))
		switch {
		case err != nil:
			fail(w, r, err)
		case attaches(want):
			a.attachBody(w, r, &execution{h: h, sandbox: s, id: want.ExecID}, want.After)
		case streamed:
			a.execStream(w, r, data, &execution{h: h, sandbox: s, want: want})
		default:
			a.execJSON(w, r, &execution{h: h, sandbox: s, want: want})
		}
	}
}

// wantsEvents reports whether the caller asks for a stream.
func wantsEvents(r *http.Request) bool { return accepts(r, "text/event-stream") }

// accepts reports whether the caller names the media type among those it takes.
func accepts(r *http.Request, mediaType string) bool {
	for _, header := range r.Header.Values("Accept") {
		for one := range strings.SplitSeq(header, ",") {
			if mt, params, err := mime.ParseMediaType(one); err == nil && mt == mediaType && params["q"] != "0" {
				return true
			}
		}
	}
	return false
}

// checkExec refuses what the schema cannot.
func (a *Handler) checkExec(want api.Exec, streamed bool) error {
	if err := sandbox.CheckEnv(want.Env); err != nil {
		return invalidField("body.env", err.Error())
	}
	most := a.ExecTimeout
	if streamed {
		most = longestTimeout
	}
	switch {
	case attaches(want):
		return checkAttach(want, streamed)
	case len(want.Command) == 0 || want.Command[0] == "":
		return invalidField("body.command", api.CommandForm)
	case want.After != nil:
		return invalidField("body.after", "expected only without a command, to attach to the one of exec_id")
	case want.TimeoutSeconds > most.Seconds():
		return invalidField("body.timeout_seconds", fmt.Sprintf("expected at most %v seconds", most.Seconds()))
	case want.Stdin != "" && want.StdinBase64 != nil:
		return invalidField("body.stdin_base64", "expected either this or stdin")
	case want.OpenStdin && !streamed:
		return invalidField("body.open_stdin", "expected only with 'Accept: text/event-stream'")
	case want.Terminal != nil && !streamed:
		return invalidField("body.terminal", "expected only with 'Accept: text/event-stream'")
	case want.MaxOutputBytes > maxOutput:
		return invalidField("body.max_output_bytes", fmt.Sprintf("expected at most %d; stream more than that", maxOutput))
	case want.Keep > maxKeep:
		return invalidField("body.keep", fmt.Sprintf("expected at most %d, which is %d MiB", maxKeep, maxKeep>>20))
	}
	return nil
}

// attaches reports whether the request is for a command that was started before.
func attaches(want api.Exec) bool { return len(want.Command) == 0 && want.ExecID != "" }

func checkAttach(want api.Exec, streamed bool) error {
	alone := reflect.DeepEqual(want, api.Exec{ExecID: want.ExecID, After: want.After})
	switch {
	case !streamed:
		return invalidField("body.command", api.CommandForm+"; without one, 'Accept: text/event-stream' attaches to the command of exec_id")
	case !alone:
		return invalidField("body.command", api.CommandForm+"; to attach to the command of exec_id, send only exec_id and after")
	}
	return nil
}

// commandOf is the command as the guest takes it.
func commandOf(want api.Exec) guest.Cmd {
	cmd := guest.Cmd{Argv: want.Command, Dir: want.Cwd, User: want.User, Keep: want.Keep}
	for _, name := range slices.Sorted(maps.Keys(want.Env)) {
		cmd.Env = append(cmd.Env, name+"="+want.Env[name])
	}
	if t := want.Terminal; t != nil {
		cmd.Terminal = &guest.Size{Cols: uint16(t.Cols), Rows: uint16(t.Rows)}
		cmd.Env = append([]string{"TERM=xterm-256color"}, cmd.Env...)
	}
	cmd.Input = want.OpenStdin || want.Terminal != nil || len(inputOf(want)) > 0
	return cmd
}

func inputOf(want api.Exec) []byte {
	if want.StdinBase64 != nil {
		return want.StdinBase64
	}
	return []byte(want.Stdin)
}

// seconds is a time that came as a number.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// limitOf is how long a command that is waited for may run.
func (a *Handler) limitOf(want api.Exec) time.Duration {
	return cmp.Or(seconds(want.TimeoutSeconds), a.ExecTimeout)
}
