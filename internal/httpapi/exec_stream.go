package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/ahead"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
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
		a.settleClaim(ctx, claim, store.Answer{Status: http.StatusOK, Header: map[string][]string{api.HeaderExecID: {e.id}}}, err)
	}
	if err != nil {
		fail(w, r, guestError("run command", err))
		return
	}
	a.stream(w, r, e, followed{id: e.id, resumed: true})
}

func (a *Handler) repeatStream(w http.ResponseWriter, r *http.Request, claim store.Claim, e *execution) {
	w.Header().Set(replayedHeader, "true")
	ids := claim.Answer.Header[api.HeaderExecID]
	if len(ids) == 0 { // the first request was not for a stream, and failed
		send(w, claim.Answer)
		return
	}
	e.id = ids[0]
	a.attach(w, r, e, 0, false)
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
		a.attach(w, r, &execution{h: h, sandbox: s, id: r.PathValue("exec_id")}, after, r.Header.Get(lastEventHeader) != "")
	}
}

// endMark is what the id of a stream's last event ends with.
const endMark = ".end"

// lastEventHeader is what a client sends that comes back by itself.
const lastEventHeader = "Last-Event-ID"

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
	last := r.Header.Get(lastEventHeader)
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
		a.attach(w, r, e, max(*from, 0), false)
	default:
		a.attach(w, r, e, max(after, 0), after >= 0)
	}
}

// attach streams the output of a command that was started before. Where that begins and ends is for the
// helper to say; if it cannot be asked, or does not know, the spool shows. A client that comes back by itself
// (resumed) learns from an event what is gone; one that asks for an offset is refused.
func (a *Handler) attach(w http.ResponseWriter, r *http.Request, e *execution, after int64, resumed bool) {
	var status guest.Status
	known := e.sandbox.State == sandbox.Running
	if known {
		var err error
		status, err = e.ask(r.Context())
		known = err == nil
	}
	switch {
	case !known:
		a.attachSpool(w, r, e, after, resumed)
		return
	case after == 0 && !resumed:
		after = status.First
	case after < status.First && !resumed:
		fail(w, r, guestError("attach to command", guest.ErrTrimmed))
		return
	case after > status.End:
		fail(w, r, beyond(r, fmt.Sprintf("the output ends at %d", status.End)))
		return
	}
	e.started = status.StartedAt
	a.stream(w, r, e, followed{id: e.id, after: after, resumed: resumed})
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
func (a *Handler) attachSpool(w http.ResponseWriter, r *http.Request, e *execution, after int64, resumed bool) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	from := after
	if after == 0 && !resumed {
		from = fromOldest
	}
	pieces := pumpPieces(ctx, followed{id: e.id, after: from, resumed: resumed}.read(ctx, e.h.Output))
	select {
	case <-ctx.Done():
	case <-time.After(peekTime):
		a.tell(ctx, w, e, after, pieces)
	case <-pieces.News:
		first, any := pieces.Peek()
		switch {
		case !any:
			a.tell(ctx, w, e, after, pieces)
		case errors.Is(first.Err, guest.ErrInvalid):
			fail(w, r, beyond(r, "the output is not that long"))
		case first.Err != nil:
			fail(w, r, guestError("attach to command", first.Err))
		default:
			a.tell(ctx, w, e, first.Value.Next-int64(len(first.Value.Data)), pieces)
		}
	}
}

// stream sends events until the command has ended, its client or the server goes. The process waits for a
// reader that is slow, and not for one that stands still.
func (a *Handler) stream(w http.ResponseWriter, r *http.Request, e *execution, f followed) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	a.tell(ctx, w, e, f.after, pumpPieces(ctx, f.read(ctx, e.h.Output)))
}

// tell sends the pieces as events.
func (a *Handler) tell(ctx context.Context, w http.ResponseWriter, e *execution, after int64, pieces *ahead.Reader[piece]) {
	if auth.Includes(exchangeOf(ctx).principal.Scope, api.ScopeWrite) { // who may only read keeps nothing awake
		defer e.h.Hold(ctx, "exec")()
	}
	w.Header().Set(api.HeaderExecID, e.id)
	out := newEvents(w)
	defer out.done()
	out.comment()
	if out.add("", api.ExecEvent{Type: api.EventStarted, ExecID: e.id, Notice: noticeOf(e.h), Next: after}) != nil || out.flush() != nil {
		return
	}
	relay(ctx, a, out, pieces, func(p chunk) (bool, error) { return addPiece(ctx, out, e, p) })
}

// chunk is a part of a command's output on its way.
type chunk = ahead.Piece[piece]

// pumpPieces gives each piece bytes of its own: the sequence may use them again.
func pumpPieces(ctx context.Context, seq iter.Seq2[piece, error]) *ahead.Reader[piece] {
	return ahead.Read(ctx, func(yield func(piece, error) bool) {
		for p, err := range seq {
			p.Data = bytes.Clone(p.Data)
			if !yield(p, err) {
				return
			}
		}
	}, func(p piece) int { return len(p.Data) })
}

func addPiece(ctx context.Context, out *events, e *execution, p chunk) (last bool, err error) {
	if n := p.Value.dropped; n > 0 {
		e.dropped += n
		if err := out.add("", api.ExecEvent{Type: api.EventDropped, Dropped: n, Next: p.Value.start()}); err != nil {
			return true, err
		}
	}
	switch {
	case p.Err != nil:
		problem := problemOf(ctx, guestError("read output", p.Err)).Problem
		return true, out.add("", api.ExecEvent{Type: api.EventError, Error: &problem})
	case p.Value.Exit != nil:
		e.ended()
		exit := exitOut(*p.Value.Exit, e.started)
		return true, out.add(strconv.FormatInt(p.Value.Next, 10)+endMark, api.ExecEvent{Type: api.EventExit, Next: p.Value.Next, Dropped: e.dropped, ExecExit: &exit})
	}
	event := api.ExecEvent{Type: api.EventStdout, Next: p.Value.Next}
	if p.Value.Stream == guest.Stderr {
		event.Type = api.EventStderr
	}
	event.SetData(p.Value.Data)
	return false, out.add(strconv.FormatInt(p.Value.Next, 10), event)
}
