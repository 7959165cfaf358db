package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

const (
	beat      = 15 * time.Second // between signs of life of a silent stream
	eventTime = 30 * time.Second // for a client to take one event
)

// execStream starts a command and streams what it writes. A repeat with the same Idempotency-Key
// attaches to the command that the first request started.
func (a *Handler) execStream(w http.ResponseWriter, r *http.Request, body []byte, e *execution) {
	ctx := r.Context()
	e.id = e.want.ExecID
	var claim store.Claim
	sent := r.Header.Values(idempotencyHeader)
	if len(sent) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
		var err error
		if claim, err = a.claim(r, sent); err != nil {
			fail(w, r, err)
			return
		}
		if claim.Outcome == store.ClaimDone {
			a.repeatStream(w, r, claim, e)
			return
		}
		e.again, e.own = true, e.id == ""
		e.id = cmp.Or(e.id, claim.EffectID)
	}
	e.id = cmp.Or(e.id, newID())
	err := e.start(ctx, seconds(e.want.TimeoutSeconds))
	if len(sent) > 0 {
		a.settleStream(ctx, claim, e.id, err)
	}
	if err != nil {
		fail(w, r, guestError("run command", err))
		return
	}
	a.stream(w, r, e, e.h.Output, 0)
}

// settleStream ends the claim once it is known whether the command was started: the stream itself is no
// answer that could be kept.
func (a *Handler) settleStream(ctx context.Context, claim store.Claim, id string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
	defer cancel()
	if err == nil {
		err = a.in(ctx).FinishKey(ctx, claim, store.Answer{Status: http.StatusOK, Header: map[string][]string{api.HeaderExecID: {id}}})
	} else {
		err = a.in(ctx).ReleaseKey(ctx, claim)
	}
	if err != nil {
		exchangeOf(ctx).log.WarnContext(ctx, "idempotency key not settled", "error", err)
	}
}

func (a *Handler) repeatStream(w http.ResponseWriter, r *http.Request, claim store.Claim, e *execution) {
	w.Header().Set(replayedHeader, "true")
	ids := claim.Answer.Header[api.HeaderExecID]
	if len(ids) == 0 { // the first request was not for a stream, and failed
		send(w, claim.Answer)
		return
	}
	e.id = ids[0]
	a.attach(w, r, e, 0)
}

// attachExec answers GET …/stream.
func (a *Handler) attachExec(w http.ResponseWriter, r *http.Request) {
	after, end, err := resumeAt(r)
	if err == nil {
		err = checkExecID(r.PathValue("exec_id"))
	}
	var h Handle
	var s sandbox.Sandbox
	if err == nil {
		h, s, err = a.open(r.Context(), r.PathValue("id"))
	}
	switch {
	case err != nil:
		fail(w, r, err)
	case end:
		w.WriteHeader(http.StatusNoContent)
	default:
		a.attach(w, r, &execution{h: h, sandbox: s, id: r.PathValue("exec_id")}, after)
	}
}

// endMark is what the id of a stream's last event ends with.
const endMark = ".end"

// resumeAt is where the caller wants to read on. What EventSource remembers is newer than the address
// that it was made with.
func resumeAt(r *http.Request) (after int64, end bool, err error) {
	if err := readQuery(r, "after"); err != nil {
		return 0, false, err
	}
	if after, end, err = lastEvent(r); err == nil && after < 0 {
		after, err = number(r, "after", 0, 1<<62, 0)
	}
	return after, end, err
}

// lastEvent is the offset behind the event that the caller saw last; -1 if it does not say.
func lastEvent(r *http.Request) (after int64, end bool, err error) {
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		return -1, false, nil
	}
	text, end := strings.CutSuffix(last, endMark)
	after, err = strconv.ParseInt(text, 10, 64)
	if err != nil || after < 0 {
		return 0, false, invalidField("header.Last-Event-ID", "expected the id of an event of this stream")
	}
	return after, end, nil
}

// attachBody answers POST …/exec without a command.
func (a *Handler) attachBody(w http.ResponseWriter, r *http.Request, e *execution, from *int64) {
	after, end, err := lastEvent(r)
	switch {
	case err != nil:
		fail(w, r, err)
		return
	case end:
		w.WriteHeader(http.StatusNoContent)
		return
	case after < 0 && from != nil:
		after = *from
	}
	a.attach(w, r, e, max(after, 0))
}

// attach streams the output of a command that was started before. Where that begins and ends is for the
// helper to say; if it cannot be asked, or does not know, the spool shows.
func (a *Handler) attach(w http.ResponseWriter, r *http.Request, e *execution, after int64) {
	var status guest.Status
	known := e.sandbox.State == sandbox.Running
	if known {
		var err error
		status, err = e.ask(r.Context())
		known = err == nil
	}
	switch {
	case !known:
		a.attachSpool(w, r, e, after)
		return
	case after == 0:
		after = status.First
	case after < status.First:
		fail(w, r, guestError("attach to command", guest.ErrTrimmed))
		return
	case after > status.End:
		fail(w, r, beyond(r, fmt.Sprintf("the output ends at %d", status.End)))
		return
	}
	e.started = status.StartedAt
	a.stream(w, r, e, e.h.Output, after)
}

// beyond refuses an offset behind the end, in whichever form it came.
func beyond(r *http.Request, message string) error {
	if r.Method == http.MethodPost {
		return invalidField("body.after", message)
	}
	return invalidField("query.after", message)
}

// peekTime is how long a spool may take to show whether it has what is asked for: one that nobody writes
// on does so at once, and from others there may be nothing to come for long.
const peekTime = 2 * time.Second

// attachSpool streams what lies in a spool.
func (a *Handler) attachSpool(w http.ResponseWriter, r *http.Request, e *execution, after int64) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	from := after
	if after == 0 {
		from = fromOldest
	}
	pieces := pump(ctx, e.h.Output(ctx, e.id, from))
	select {
	case <-ctx.Done():
	case <-time.After(peekTime):
		a.tell(ctx, w, e, after, pieces)
	case first, any := <-pieces:
		switch {
		case !any:
			a.tell(ctx, w, e, after, pieces)
		case errors.Is(first.err, guest.ErrInvalid):
			fail(w, r, beyond(r, "the output is not that long"))
		case first.err != nil:
			fail(w, r, guestError("attach to command", first.err))
		default:
			a.tell(ctx, w, e, first.Next-int64(len(first.Data)), pieces, first)
		}
	}
}

// output reads what a process wrote, as Handle.Output does.
type output func(ctx context.Context, process string, after int64) iter.Seq2[guest.Chunk, error]

// stream sends events until the command has ended, its client or the server goes. The process never
// waits for a reader: what is not sent yet lies in its spool.
func (a *Handler) stream(w http.ResponseWriter, r *http.Request, e *execution, from output, after int64) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	a.tell(ctx, w, e, after, pump(ctx, from(ctx, e.id, after)))
}

// tell sends the pieces as events, those that were taken already first.
func (a *Handler) tell(ctx context.Context, w http.ResponseWriter, e *execution, after int64, pieces <-chan piece, taken ...piece) {
	if auth.Includes(exchangeOf(ctx).principal.Scope, api.ScopeWrite) { // who may only read keeps nothing awake
		defer e.h.Hold(ctx, "exec")()
	}
	out := newEvents(w, e.id)
	defer out.control.SetWriteDeadline(time.Time{}) // the connection may serve others
	if out.comment() != nil || out.send("", api.ExecEvent{Type: api.EventStarted, ExecID: e.id, Next: after}) != nil {
		return
	}
	for _, p := range taken {
		if last, err := sendPiece(ctx, out, e, p); last || err != nil {
			return
		}
	}
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-a.ending.Done():
			return
		case <-tick.C:
			err = out.comment()
		case p, more := <-pieces:
			if !more || ctx.Err() != nil {
				return
			}
			var last bool
			if last, err = sendPiece(ctx, out, e, p); last {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func sendPiece(ctx context.Context, out *events, e *execution, p piece) (last bool, err error) {
	switch {
	case p.err != nil:
		problem := problemOf(ctx, guestError("read output", p.err)).Problem
		return true, out.send("", api.ExecEvent{Type: api.EventError, Error: &problem})
	case p.Exit != nil:
		e.ended()
		exit := exitOut(*p.Exit, e.started)
		return true, out.send(strconv.FormatInt(p.Next, 10)+endMark, api.ExecEvent{Type: api.EventExit, Next: p.Next, ExecExit: &exit})
	}
	event := api.ExecEvent{Type: api.EventStdout, Next: p.Next}
	if p.Stream == guest.Stderr {
		event.Type = api.EventStderr
	}
	event.SetData(p.Data)
	return false, out.send(strconv.FormatInt(p.Next, 10), event)
}

// piece is a chunk on its way, or the error in its place.
type piece struct {
	guest.Chunk
	err error
}

// pump reads the sequence one chunk ahead of who takes it, so that waiting for one can be given up.
func pump(ctx context.Context, seq iter.Seq2[guest.Chunk, error]) <-chan piece {
	pieces := make(chan piece)
	go func() {
		defer close(pieces)
		for chunk, err := range seq {
			chunk.Data = bytes.Clone(chunk.Data) // the sequence may use it again
			select {
			case pieces <- piece{chunk, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return pieces
}

// events writes server-sent events: unnamed, so that a plain EventSource sees them, each one line of
// JSON, in which no output can look like the frame around it.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func newEvents(w http.ResponseWriter, execID string) *events {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies are not to wait for more
	h.Set(api.HeaderExecID, execID)
	return &events{w, http.NewResponseController(w)}
}

func (s *events) send(id string, event api.ExecEvent) error {
	data, err := json.Marshal(event)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if id != "" {
		fmt.Fprintf(&b, "id: %s\n", id)
	}
	fmt.Fprintf(&b, "data: %s\n\n", data)
	return s.write(b.Bytes())
}

func (s *events) comment() error { return s.write([]byte(": berth\n\n")) }

// write sends at once, and gives up on a client that does not take it.
func (s *events) write(b []byte) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(eventTime)) // recorders have none
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	return s.control.Flush()
}
