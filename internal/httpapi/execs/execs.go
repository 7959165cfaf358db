package execs

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/sandbox"
)

const (
	defaultOutput  = 1 << 20             // default bytes of each output in a JSON answer
	maxOutput      = 8 << 20             // maximum bytes of each output in a JSON answer
	maxKeep        = guest.MostKept      // maximum bytes of a spool
	longestTimeout = 30 * 24 * time.Hour // maximum timeout of a streamed command
)

// addExec adds the routes of commands. A command without an id ends with its request. A command that is streamed or
// has an id is a separate process that readers can attach to.
func (a *handlers) addExec(op access.OperationFunc) {
	want := rest.NewBody[api.Exec](a.Spec, describeExec)
	want.Words = map[string]string{"body.command": api.CommandForm}
	running := slices.Concat(access.ReachProblems, []api.Code{api.CodeExecExists, api.CodeNoSuchExec, api.CodeOutputTrimmed, api.CodeDiskFull})

	run := op(http.MethodPost, "/{id}/exec", "exec", api.ScopeWrite, "Run a command and wait for it", running...)
	run.Description = "Returns the command's output when it has ended; the status is 200 for every exit code. " +
		"With an Idempotency-Key or an exec_id the command runs once, however often the request is sent, and continues if the client disconnects. Without either it is killed with the request. " +
		"With 'Accept: text/event-stream' this route answers as POST …/exec/stream does; new clients should use that route."
	run.Timeout, run.Claims = exchange.Unlimited, rest.WantsEvents
	a.ServeRaw(run, "application/json", a.exec(want, rest.WantsEvents), rest.InPath("id"), want.Document, rest.Answers[api.ExecResult](a.Spec))

	stream := op(http.MethodPost, "/{id}/exec/stream", "exec-stream", api.ScopeWrite, "Run a command and stream its output", running...)
	stream.Description = "Starts the command and streams its output as server-sent events until it has ended. The command continues if the client disconnects; GET …/exec/{exec_id}/stream attaches to it again. " +
		"With an Idempotency-Key or an exec_id the command is started once, however often the request is sent. " +
		"Without a command the request attaches to the command of exec_id, at the offset after."
	stream.Timeout, stream.Claims, stream.Also = exchange.Unlimited, alwaysEvents, rest.NoMoreEvents
	a.ServeRaw(stream, "text/event-stream", a.exec(want, alwaysEvents), rest.InPath("id"), want.Document, rest.Streams[api.ExecEvent](a.Spec, api.ExecEvents))

	const one = "/{id}/exec/{exec_id}"
	rest.Serve(a.Spec, op(http.MethodGet, "/{id}/exec", "list-execs", api.ScopeRead, "List a sandbox's commands, newest first", access.ReachProblems...), a.listExecs)
	a.addExecStatus(op, one)
	rest.Serve(a.Spec, op(http.MethodPost, one+"/signal", "signal-exec", api.ScopeWrite, "Send a signal to a command and its children", execProblems()...), a.signalExec)
	rest.Serve(a.Spec, op(http.MethodPost, one+"/resize", "resize-exec", api.ScopeWrite, "Resize a command's terminal", execProblems()...), a.resizeExec)

	stdin := op(http.MethodPost, one+"/stdin", "write-exec-stdin", api.ScopeWrite, "Write to a command's standard input", execProblems(api.CodeConflict)...)
	stdin.Description = "The body is the input. The answer has the number of bytes that the command read in time; send the rest again."
	stdin.Bytes = true
	a.ServeRaw(stdin, "application/json", a.writeExec, rest.InPath("id", "exec_id"), rest.Answers[api.ExecWritten](a.Spec),
		rest.InQuery("close", "boolean", "Close the input after this data"), rest.AnyBody)

	attach := op(http.MethodGet, one+"/stream", "stream-exec", api.ScopeRead, "Stream a command's output", execProblems(api.CodeOutputTrimmed)...)
	attach.Description = "Works while the command runs, after it has ended, and when the sandbox is stopped. Send the id of an event as Last-Event-ID, or its offset as after, to continue behind it; the answer is 204 if there is no more. " +
		"While a reader is attached, the command waits for it and unread output is not removed. A reader that reads nothing for 30 seconds is given up: " +
		"a dropped event has the number of lost bytes, and the exit event the total. If output at the given position is no longer stored, the stream begins with a dropped event (Last-Event-ID) or the answer is 410 (after)."
	attach.Timeout, attach.Also = exchange.Unlimited, rest.NoMoreEvents
	a.ServeRaw(attach, "text/event-stream", a.attachExec, rest.InPath("id", "exec_id"), rest.Streams[api.ExecEvent](a.Spec, api.ExecEvents), rest.InAfter)
	a.addTerminal(op)
}

// addExecStatus adds the route of one command. A client that accepts events gets the command's stream from it.
func (a *handlers) addExecStatus(op access.OperationFunc, path string) {
	get := op(http.MethodGet, path, "get-exec", api.ScopeRead, "Get a command", execProblems(api.CodeOutputTrimmed)...)
	get.Description = "Returns whether the command runs, and its exit code if it has ended. A frozen sandbox is not thawed: the answer is 409 if the command has not ended. " +
		"With 'Accept: text/event-stream' this route answers as GET …/exec/{exec_id}/stream does; new clients should use that route."
	get.Timeout = exchange.Unlimited
	a.ServeRaw(get, "application/json", func(w http.ResponseWriter, r *http.Request) {
		if rest.WantsEvents(r) {
			a.attachExec(w, r)
			return
		}
		a.getExec(w, r)
	}, rest.InPath("id", "exec_id"), rest.Answers[api.ExecStatus](a.Spec))
}

func execProblems(more ...api.Code) []api.Code {
	return slices.Concat(access.ReachProblems, []api.Code{api.CodeNoSuchExec}, more)
}

// exec answers POST …/exec and POST …/exec/stream. The function events reports whether the answer is a stream.
func (a *handlers) exec(body *rest.Body[api.Exec], events func(*http.Request) bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err == nil {
			err = rest.ReadQuery(r)
		}
		var want api.Exec
		if err == nil {
			want, err = body.Read(data)
		}
		streamed := events(r)
		if err == nil {
			err = a.checkExec(want, streamed)
		}
		if err != nil {
			exchange.Fail(w, r, err)
			return
		}
		access.HideEnv(r.Context(), want.Env)
		h, s, err := a.Handle(r.Context(), r.PathValue("id"))
		switch {
		case err != nil:
			exchange.Fail(w, r, err)
		case attaches(want):
			a.attachBody(w, r, &execution{h: h, sandbox: s, id: want.ExecID}, want.After)
		case streamed:
			a.execStream(w, r, data, &execution{h: h, sandbox: s, want: want})
		default:
			a.execJSON(w, r, &execution{h: h, sandbox: s, want: want})
		}
	}
}

func alwaysEvents(*http.Request) bool { return true }

// checkExec checks the rules that the schema cannot express.
func (a *handlers) checkExec(want api.Exec, streamed bool) error {
	if err := sandbox.CheckEnv(want.Env); err != nil {
		return exchange.InvalidField("body.env", err.Error())
	}
	most := a.ExecTimeout
	if streamed {
		most = longestTimeout
	}
	switch {
	case attaches(want):
		return checkAttach(want, streamed)
	case len(want.Command) == 0 || want.Command[0] == "":
		return exchange.InvalidField("body.command", api.CommandForm)
	case want.After != nil:
		return exchange.InvalidField("body.after", "expected only without a command, to attach to the one of exec_id")
	case want.TimeoutSeconds > most.Seconds():
		return exchange.InvalidField("body.timeout_seconds", fmt.Sprintf("expected at most %v seconds", most.Seconds()))
	case want.Stdin != "" && want.StdinBase64 != nil:
		return exchange.InvalidField("body.stdin_base64", "expected either this or stdin")
	case want.OpenStdin && !streamed:
		return exchange.InvalidField("body.open_stdin", "expected only with 'Accept: text/event-stream'")
	case want.Terminal != nil && !streamed:
		return exchange.InvalidField("body.terminal", "expected only with 'Accept: text/event-stream'")
	case want.MaxOutputBytes > maxOutput:
		return exchange.InvalidField("body.max_output_bytes", fmt.Sprintf("expected at most %d; stream more than that", maxOutput))
	case want.Keep > maxKeep:
		return exchange.InvalidField("body.keep", fmt.Sprintf("expected at most %d, which is %d MiB", maxKeep, maxKeep>>20))
	}
	return nil
}

// attaches reports whether the request is for a command that was started before.
func attaches(want api.Exec) bool { return len(want.Command) == 0 && want.ExecID != "" }

func checkAttach(want api.Exec, streamed bool) error {
	alone := reflect.DeepEqual(want, api.Exec{ExecID: want.ExecID, After: want.After})
	switch {
	case !streamed:
		return exchange.InvalidField("body.command", api.CommandForm+"; without one, 'Accept: text/event-stream' attaches to the command of exec_id")
	case !alone:
		return exchange.InvalidField("body.command", api.CommandForm+"; to attach to the command of exec_id, send only exec_id and after")
	}
	return nil
}

// commandOf converts the request to a command of the helper.
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

// seconds converts a number of seconds to a duration.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// limitOf returns the time limit of a command whose request waits for it.
func (a *handlers) limitOf(want api.Exec) time.Duration {
	return cmp.Or(seconds(want.TimeoutSeconds), a.ExecTimeout)
}

// describeExec changes the schema so that a command may also be a text.
func describeExec(s *huma.Schema) {
	one := 1
	command := s.Properties["command"]
	s.Properties["command"] = &huma.Schema{
		Description: command.Description,
		OneOf: []*huma.Schema{
			{Type: huma.TypeArray, MinItems: &one, Items: &huma.Schema{Type: huma.TypeString}},
			{Type: huma.TypeString, MinLength: &one},
		},
	}
	s.Properties["command"].PrecomputeMessages()
	for _, either := range s.Properties["command"].OneOf {
		either.PrecomputeMessages()
	}
}

// checkExecID refuses texts that are not valid ids. No command can have such an id, so the error is no_such_exec.
func checkExecID(id string) error {
	for _, c := range []byte(id) {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			id = ""
			break
		}
	}
	if id == "" || len(id) > 64 {
		return fault.Errorf("find command", api.CodeNoSuchExec, "no command was started under that id")
	}
	return nil
}
